/**
 * Every prefix of every store, with its owner and the end of what it holds (rule 38): the one list of what is on disk.
 *
 * Each owner builds its own keys, beside the code that uses them, since rooms do not import this one; a store refuses a
 * key that is in no row, so that nothing is kept that nobody listed. Keys are printable ASCII; numbers in them are
 * written by `core/key-order.ts`. A prefix ends with `/` and is the start of no other prefix.
 */
export interface KeyspaceRow {
  readonly prefix: string
  /** The room, or the program where a room serves several, that alone reads and writes these keys. */
  readonly owner: string
  readonly holds: string
  /** When a record goes away, and what bounds their number. */
  readonly retention: string
}

export const keyspace: readonly KeyspaceRow[] = [
  {
    prefix: 'meta/',
    owner: 'store',
    holds: 'identity, incarnation, commit counter and digest of all records',
    retention: 'as long as the store; two records',
  },
  {
    prefix: 'lane/',
    owner: 'runtime',
    holds: 'lane/REMOTE/LANE: cursors and rolling hashes of a session lane; lane/REMOTE/session: highest epoch seen',
    retention: 'as long as the remote is known; a few hundred bytes for each',
  },
  {
    prefix: 'outbox/',
    owner: 'runtime',
    holds: 'outbox/REMOTE/LANE/NUMBER: numbered messages that the remote has not acknowledged',
    retention: 'until acknowledged; deleted with the next commit after that',
  },
  {
    prefix: 'node/attempt/',
    owner: 'node',
    holds: 'node/attempt/ATTEMPT: where an attempt stands on its node, without brief, messages and result',
    retention: 'receipt plus 7 days, then a tombstone for 90 days; declined: 7 days; keeper gone: 30 days',
  },
  {
    prefix: 'node/claim/',
    owner: 'node',
    holds: 'node/claim/ATTEMPT: the claim with its brief, at most 1 MiB each',
    retention: 'until the receipt; declined: not kept',
  },
  {
    prefix: 'node/steer/',
    owner: 'node',
    holds: 'node/steer/ATTEMPT/INDEX: messages for a turn and their fates, at most 512 a turn',
    retention: 'their texts until the end of the turn, the rest until the receipt',
  },
  {
    prefix: 'node/result/',
    owner: 'node',
    holds: 'node/result/ATTEMPT: how an attempt ended, with its whole text, at most 16 MiB each',
    retention: 'receipt plus 7 days; keeper gone: 30 days',
  },
  {
    prefix: 'node/agent/',
    owner: 'node',
    holds: 'node/agent/AGENT: session, workspace and next log number of an agent',
    retention: 'as long as the agent; a few hundred bytes for each',
  },
  {
    prefix: 'node/hub/',
    owner: 'node',
    holds: 'node/hub/HUB: the machine a hub belongs to and the head of its chain of receipts, at most 1,024 hubs',
    retention: 'as long as the hub is known',
  },
]

/** The row that a key belongs to, or undefined for a key that nothing may be stored under. */
export function rowOf(key: string, rows: readonly KeyspaceRow[] = keyspace): KeyspaceRow | undefined {
  return rows.find((row) => key.startsWith(row.prefix))
}

/** Printable ASCII: so that both stores order keys alike, and a key can be shown. */
const printable = /^[!-~]+$/

/**
 * Stops a write that no row of the table covers.
 *
 * @throws {Error} a bug of the caller: an unlisted prefix, the store's own prefix, or a character outside printable ASCII
 */
export function assertKey(key: string, rows: readonly KeyspaceRow[] = keyspace): void {
  if (!printable.test(key) || key.length > 512) throw new Error(`not a store key: ${JSON.stringify(key.slice(0, 100))}`)
  const row = rowOf(key, rows)
  if (row === undefined) throw new Error(`the key ${key} is in no row of src/store/keyspace.ts`)
  if (row.owner === 'store') throw new Error(`the key ${key} belongs to the store itself`)
}

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
    holds:
      'identity, incarnation, commit counter and digest of all records, what the last repair lost, the format of the others where it is not the first',
    retention: 'as long as the store; four records',
  },
  {
    prefix: 'lane/',
    owner: 'runtime',
    holds:
      'lane/REMOTE/LANE: cursors and rolling hashes of a session lane; lane/REMOTE/LANE/trial: deaths at one message; lane/REMOTE/session: highest epoch seen',
    retention: 'as long as the remote is known; a few hundred bytes for each',
  },
  {
    prefix: 'quarantine/',
    owner: 'runtime',
    holds: 'quarantine/REMOTE/LANE/NUMBER: a message that could not be applied, with its bytes and the reason',
    retention: 'the newest 16 of each lane',
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
  {
    prefix: 'hub/agent/',
    owner: 'hub',
    holds: 'hub/agent/AGENT: an agent with its turns and attempts, without texts; a few KiB each',
    retention: 'for ever: results are kept unless hub.keep_results says otherwise',
  },
  {
    prefix: 'hub/open-agent/',
    owner: 'hub',
    holds:
      'hub/open-agent/AGENT: that something may still come of an agent; a hub that starts reads these agents alone',
    retention: 'until all turns of the agent ended and none of them is counted lost',
  },
  {
    prefix: 'hub/agent-no/',
    owner: 'hub',
    holds: 'hub/agent-no/NUMBER: the agent of a number, the newest first, and its state once it ended; for lists',
    retention: 'as long as the agent; about a hundred bytes for each',
  },
  {
    prefix: 'hub/machine/',
    owner: 'hub',
    holds:
      'hub/machine/PEER: of agents that ended on a machine: how many in which state, what they used, and how long its last 32 turns took',
    retention: 'as long as the agents; a few hundred bytes for each machine',
  },
  {
    prefix: 'hub/brief/',
    owner: 'hub',
    holds: 'hub/brief/TASK: the text a turn started with, at most 1 MiB each',
    retention: 'as long as the agent',
  },
  {
    prefix: 'hub/message/',
    owner: 'hub',
    holds: 'hub/message/MESSAGE: a message whose fate its node has not told, at most 1 MiB each',
    retention: 'until its fate is known, or the turn ended',
  },
  {
    prefix: 'hub/entry/',
    owner: 'hub',
    holds: 'hub/entry/DELIVERY: a result or a spawn of the inbox, without its text',
    retention: 'as long as the agent',
  },
  {
    prefix: 'hub/text/',
    owner: 'hub',
    holds: "hub/text/DELIVERY: a result's whole text, at most 16 MiB each",
    retention: 'as long as the agent',
  },
  {
    prefix: 'hub/open/',
    owner: 'hub',
    holds: 'hub/open/DELIVERY: an entry that is not known to have been read',
    retention: 'until it was read or named in a confirmed reply',
  },
  {
    prefix: 'hub/offer/',
    owner: 'hub',
    holds: 'hub/offer/OFFER: a reply that carries or names such entries',
    retention: 'until nothing in it is open',
  },
  {
    prefix: 'hub/answer/',
    owner: 'hub',
    holds: 'hub/answer/TOOL/KEY: the answer that a call got under its key, at most 200 KB each',
    retention: 'as long as the agent; of wait_for_agents: 30 days',
  },
  {
    prefix: 'hub/event/',
    owner: 'hub',
    holds: "hub/event/AGENT/NUMBER: a line of an agent's log, at most 16 KiB of text each",
    retention: 'as long as the agent',
  },
  {
    prefix: 'hub/receipt/',
    owner: 'hub',
    holds: "hub/receipt/TASK: the node's signed receipt",
    retention: 'as long as the agent',
  },
  {
    prefix: 'hub/node/',
    owner: 'hub',
    holds: 'hub/node/PEER: what a node last said of itself',
    retention: 'as long as the node is a member; at most 1,000',
  },
  {
    prefix: 'hub/history/',
    owner: 'hub',
    holds:
      'hub/history/NUMBER: a decision of the hub in its chain, a few hundred bytes each and about a dozen for a turn',
    retention: 'as long as the store, like the results that it tells of',
  },
  {
    prefix: 'hub/counter/',
    owner: 'hub',
    holds:
      "the hub's epoch, the next delivery number, the head of its history, how many agents there are and are open, and the incarnation that it has come to terms with",
    retention: 'as long as the store; five records',
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

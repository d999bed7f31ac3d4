import { NfltrError } from '../core/errors.ts'
import { emptyHistoryHash, type HistoryRecord } from '../core/history.ts'
import type { AccountEntry, AccountLine, AccountPage, HistoryHead } from '../core/hub-account.ts'
import type { Offer, OpenEntry } from '../core/inbox-state.ts'
import type { TaskEvent } from '../core/model.ts'
import type { StoredReceipt } from '../core/receipt.ts'
import { decodeRecord, decodeRecordAsText } from '../core/record-json.ts'
import { isOpenAgent } from '../core/task.ts'
import { type Agent, liveAttempt } from '../core/task-record.ts'
import type { Store, StoreEntry } from '../ports/store.ts'
import { type EntryRecord, type EpochRecord, keys, prefixes, readRecord } from './records.ts'
import type { HubWorld } from './world.ts'

/** What of a hub is read: its store, and what its process knows beside it, where one runs. */
export interface AccountOf {
  readonly hubId: string
  readonly store: Store
  /** Over the text's UTF-8 bytes, as hex. */
  readonly sha256: (text: string) => string
  /** Turns that may be running, with their silence. */
  readonly turns: () => readonly AccountLine[]
}

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

/** Parts of the account in their order; each is one prefix of the store. */
const parts = [
  prefixes.agent,
  prefixes.entry,
  prefixes.event,
  prefixes.receipt,
  prefixes.open,
  prefixes.offer,
  prefixes.history,
] as const

/** Records of one page: a page of small ones is about half a MiB. */
const pageRecords = 2_000

/**
 * One page of what a hub has on record. Reads only.
 *
 * @param from `next` of the page before; absent: the first page
 * @throws {NfltrError} `invalid_argument` for a `from` that no page gave, `store_damaged`
 */
export async function accountPage(of: AccountOf, from?: string): Promise<AccountPage> {
  const { hubId, store } = of
  const head = (await readRecord<HistoryHead>(store, keys.historyHead)) ?? { seq: 0, hash: emptyHistoryHash }
  const start = from ?? parts[0]
  const index = parts.findIndex((part) => start.startsWith(part))
  const prefix = parts[index]
  if (prefix === undefined) {
    throw new NfltrError('invalid_argument', `No page of the account begins at ${start}.`, {
      details: { argument: 'from' },
    })
  }
  const lines: AccountLine[] = from === undefined ? [...of.turns(), { part: 'inbox' }] : []
  const next = parts[index + 1]
  const found = prefix === prefixes.agent ? await foundAtStart(store) : undefined
  await using texts = new TextsInOrder(store)
  let count = 0
  for await (const { key, value } of store.scan(prefix, { from: start, limit: pageRecords + 1 })) {
    count += 1
    if (count > pageRecords) return { hubId, head, lines, next: key }
    if (prefix === prefixes.agent) lines.push(agentLine(store, { key, value }, found))
    else if (prefix === prefixes.entry) lines.push(await entryOf(of, decodeRecord<EntryRecord>(value), texts))
    else lines.push(lineOf(key, value))
  }
  return { hubId, head, lines, ...(next === undefined ? {} : { next }) }
}

/** The open agents by the index of a hub that keeps one. */
async function foundAtStart(store: Store): Promise<ReadonlySet<string> | undefined> {
  const epoch = await readRecord<EpochRecord>(store, keys.epoch)
  if (epoch?.index?.incarnation !== store.identity.incarnation) return undefined
  const found = new Set<string>()
  for await (const { key } of store.scan(prefixes.openAgent)) found.add(key.slice(prefixes.openAgent.length))
  return found
}

function agentLine(store: Store, { key, value }: StoreEntry, found: ReadonlySet<string> | undefined): AccountLine {
  const agent = decodeRecord<Agent>(value)
  if (found === undefined) return { part: 'agent', agent }
  if (found.has(agent.agentId) === isOpenAgent(agent))
    return { part: 'agent', agent, isFound: found.has(agent.agentId) }
  // It may have changed between the two reads: then both are as they are now, also should a batch come between.
  for (;;) {
    const isFound = store.getSync(keys.openAgent(agent.agentId)) !== undefined
    const now = decodeRecord<Agent>(store.getSync(key) ?? value)
    if ((store.getSync(keys.openAgent(agent.agentId)) !== undefined) === isFound)
      return { part: 'agent', agent: now, isFound }
  }
}

function lineOf(key: string, value: Uint8Array): AccountLine {
  if (key.startsWith(prefixes.event)) {
    const [agentId = ''] = key.slice(prefixes.event.length).split('/')
    return { part: 'log', agentId, seq: decodeRecord<TaskEvent>(value).seq }
  }
  if (key.startsWith(prefixes.receipt)) {
    const { receiptId, envelope } = decodeRecordAsText<StoredReceipt>(value)
    return { part: 'receipt', taskId: key.slice(prefixes.receipt.length), receiptId, envelope: envelope.$bytes }
  }
  if (key.startsWith(prefixes.open)) {
    const { deliveryId, state, offerId } = decodeRecord<OpenEntry>(value)
    return { part: 'open', deliveryId, state, ...(offerId === undefined ? {} : { offerId }) }
  }
  if (key.startsWith(prefixes.offer)) return { part: 'offer', offerId: decodeRecord<Offer>(value).offerId }
  return { part: 'history', record: decodeRecord<HistoryRecord>(value) }
}

/** Texts of entries that are asked for in their order: read along with them, since one at a time takes far longer. */
class TextsInOrder implements AsyncDisposable {
  readonly #store: Store
  #scan: AsyncIterator<StoreEntry> | undefined
  #entry: StoreEntry | undefined

  constructor(store: Store) {
    this.#store = store
  }

  /** Empty where there is none. */
  async of(deliveryId: number): Promise<Uint8Array> {
    const wanted = keys.text(deliveryId)
    if (this.#scan === undefined) {
      this.#scan = this.#store.scan(prefixes.text, { from: wanted })[Symbol.asyncIterator]()
      await this.#next()
    }
    while (this.#entry !== undefined && this.#entry.key < wanted) await this.#next()
    return this.#entry?.key === wanted ? this.#entry.value : new Uint8Array()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scan?.return?.()
  }

  async #next(): Promise<void> {
    const step = await this.#scan?.next()
    this.#entry = step?.done === false ? step.value : undefined
  }
}

async function entryOf({ sha256 }: AccountOf, entry: EntryRecord, texts: TextsInOrder): Promise<AccountEntry> {
  const { deliveryId, kind, atMs } = entry
  const common = { part: 'entry', deliveryId, kind, atMs } as const
  if (entry.kind === 'event') return common
  if (entry.kind === 'spawn') return { ...common, agentId: entry.agentId }
  const { agentId, taskId, turn, attempt, outcome, isLate, machine, usage, messages } = entry
  const textHash = sha256(utf8.decode(await texts.of(deliveryId)))
  const result = {
    taskId,
    turn,
    attempt,
    outcome,
    isLate,
    textHash,
    usage,
    ...(messages.length === 0 ? {} : { messages }),
    ...(machine === undefined ? {} : { machine }),
  }
  return { ...common, agentId, result }
}

/** Turns that may be running, as the process of the hub knows them. */
export function turnLines({ agents, nodes }: HubWorld): readonly AccountLine[] {
  return agents.active().flatMap((agent) => {
    const attempt = liveAttempt(agent)
    if (attempt === undefined) return []
    const { agentId } = agent
    const { peerId, machine } = attempt
    const contact = nodes.contactOf(peerId)
    const silentMs = contact.isAttached ? 0 : contact.silentMs
    return [{ part: 'turn', agentId, machine, silentMs, lostAfterMs: nodes.lostAfterMs(peerId, agent) }]
  })
}

import { NfltrError } from '../core/errors.ts'
import type { OpenEntry } from '../core/inbox-state.ts'
import { limits } from '../core/limits.ts'
import type { Agent } from '../core/task-record.ts'
import type { ToolCall } from '../ports/hub-api.ts'
import type { Transaction } from '../runtime/engine.ts'
import type { WholeEntry } from './fresh-entries.ts'
import type { KeySlot } from './keys.ts'
import { cutPage, firstPageJsonBytes, jsonBytes } from './pages.ts'
import {
  type Document,
  eventEntryDocument,
  factsDocument,
  resultDocument,
  runningDocument,
  unconfirmedDocument,
} from './present.ts'
import type { HubWorld } from './world.ts'

/** An entry that may go into the reply: it never changes. */
export interface Candidate extends WholeEntry {
  /** It waited when this hub's store was found put back, so it may have been read. */
  readonly isMaybeSeen: boolean
}

const utf8 = new TextEncoder()

/** An entry as it stands in the reply. */
interface Shown {
  readonly deliveryId: number
  readonly kind: 'result' | 'event'
  readonly document: Document
}

export interface Reply {
  readonly call: ToolCall
  readonly slot: KeySlot
  readonly candidates: readonly Candidate[]
  readonly running: readonly Agent[]
  /** Bound of the document's JSON. At least one entry goes in whatever it says. */
  readonly maxBytes: number
}

/** As many entries as a reply of this size can hold, in order. Of a text only what can fit is kept. */
class Candidates {
  readonly found: Candidate[] = []
  readonly #world: HubWorld
  readonly #maxBytes: number
  #bytes = 0

  constructor(world: HubWorld, maxBytes: number) {
    this.#world = world
    this.#maxBytes = maxBytes
  }

  get isFull(): boolean {
    return this.found.length > 0 && this.#bytes > this.#maxBytes
  }

  add({ record, text: whole }: WholeEntry, { isMaybeSeen = false }: OpenEntry): void {
    // The cut may fall into a character, so what is kept is longer than any page of it.
    const text = whole.length > this.#maxBytes + 8 ? whole.slice(0, this.#maxBytes + 8) : whole
    const candidate = { record, text, isMaybeSeen }
    this.#bytes += jsonBytes(shown(this.#world, candidate)) + firstPageJsonBytes(text, limits.replyTextFirstBytes)
    this.found.push(candidate)
  }
}

/** Candidates out of memory; undefined where one has to be read. */
export function freshCandidates(
  world: HubWorld,
  entries: readonly OpenEntry[],
  maxBytes: number,
): readonly Candidate[] | undefined {
  const candidates = new Candidates(world, maxBytes)
  for (const entry of entries) {
    if (candidates.isFull) break
    const whole = world.mailbox.fresh(entry.deliveryId)
    if (whole === undefined) return undefined
    candidates.add(whole, entry)
  }
  return candidates.found
}

/** Candidates from the disk, where they have to be by now. */
export async function readCandidates(
  world: HubWorld,
  entries: readonly OpenEntry[],
  maxBytes: number,
): Promise<readonly Candidate[]> {
  const candidates = new Candidates(world, maxBytes)
  for (const entry of entries) {
    if (candidates.isFull) break
    const { deliveryId } = entry
    const record = await world.mailbox.read(deliveryId)
    if (record === undefined || record.kind === 'spawn') {
      throw new NfltrError('store_damaged', `The entry ${deliveryId} of the inbox was not there.`)
    }
    const text = record.kind === 'event' ? utf8.encode(record.text) : await world.mailbox.readText(deliveryId)
    candidates.add({ record, text }, entry)
  }
  return candidates.found
}

/**
 * Composes the reply of a wait and marks what is in it as offered, with these very bytes, in one batch (rule 1). Everything
 * unconfirmed is named (rule 2).
 */
export function writeReply(world: HubWorld, tx: Transaction, reply: Reply): string {
  const { call, slot, maxBytes } = reply
  world.mailbox.doubtOverdue(tx, slot.offerId)
  const unnamed = world.mailbox.unconfirmed
  const unconfirmed = documentsWithin(unnamed, unconfirmedDocument, maxBytes / 4)
  const names = unnamed.slice(0, unconfirmed.length)
  const running = documentsWithin(reply.running, (agent) => runningDocument(world, agent), maxBytes / 4)
  const untold = reply.running.length - running.length
  const frame = (taken: readonly Shown[]): Document => ({
    results: taken.flatMap((one) => (one.kind === 'result' ? [one.document] : [])),
    events: taken.flatMap((one) => (one.kind === 'event' ? [one.document] : [])),
    requests: [],
    still_running: running,
    unconfirmed,
    facts: factsDocument(world, {
      undelivered: world.mailbox.undelivered.length - taken.length,
      note: untold === 0 ? undefined : `${untold} more agents run: list_agents has them.`,
    }),
    ...(world.nodes.isCatchingUp ? { catching_up: true } : {}),
  })
  const taken = fitting(world, reply.candidates, maxBytes - jsonBytes(frame([])))
  const body = JSON.stringify(frame(taken))
  const entries = taken.map((one) => one.deliveryId)
  world.mailbox.step(tx, {
    type: 'offered',
    offerId: slot.offerId,
    answerKey: slot.answerKey,
    sessionKey: call.sessionKey,
    isOfHolder: world.isHolder(call.sessionKey),
    entries,
    names: names.map((entry) => entry.deliveryId),
  })
  slot.record(tx, { body, isOffer: true })
  return body
}

/**
 * As many entries as fit with the first bytes of their texts; what room is left then goes to the texts, in order. An entry
 * that does not fit ends the reply: the order is never changed.
 */
function fitting(world: HubWorld, candidates: readonly Candidate[], budgetBytes: number): readonly Shown[] {
  const minBytes = limits.replyTextFirstBytes
  const taken: { candidate: Candidate; base: Document; firstBytes: number }[] = []
  let left = budgetBytes
  for (const candidate of candidates) {
    const base = shown(world, candidate)
    const firstBytes = firstPageJsonBytes(candidate.text, minBytes)
    const cost = jsonBytes(base) + firstBytes + 1
    if (taken.length > 0 && cost > left) break
    left -= cost
    taken.push({ candidate, base, firstBytes })
  }
  return taken.map(({ candidate, base, firstBytes }) => {
    const maxJsonBytes = firstBytes + Math.max(0, left)
    const page = pageOf(candidate, { maxJsonBytes, minBytes })
    left -= Math.max(0, jsonBytes(page.text) - 2 - firstBytes)
    const { deliveryId, kind } = candidate.record
    return { deliveryId, kind, document: { ...base, ...page } }
  })
}

function pageOf({ record, text }: Candidate, bounds: { maxJsonBytes: number; minBytes: number }) {
  const page = cutPage(text, { offset: 0, ...bounds })
  if (record.kind === 'event') return { text: page.text, truncated: page.nextOffset === undefined ? undefined : true }
  return { text: page.text, text_bytes: record.textBytes, next_offset: page.nextOffset }
}

/** The entry as a reply has it, with the longest form of what is filled in later. */
function shown(world: HubWorld, { record, isMaybeSeen }: Omit<Candidate, 'text'>): Document {
  if (record.kind === 'event') return { ...eventEntryDocument(record), text: '', truncated: true }
  const task = world.agents.get(record.agentId)?.tasks.find((candidate) => candidate.taskId === record.taskId)
  const base = resultDocument(record, { receiptId: task?.receiptId, isWhole: false, isMaybeSeen })
  return { ...base, text: '', text_bytes: record.textBytes, next_offset: record.textBytes }
}

/** The documents of the first ones, as many as stay within a bound together; never none where there is one. */
function documentsWithin<T>(
  items: readonly T[],
  documentOf: (item: T) => Document,
  maxBytes: number,
): readonly Document[] {
  const documents: Document[] = []
  let bytes = 0
  for (const item of items) {
    const document = documentOf(item)
    bytes += jsonBytes(document) + 1
    if (documents.length > 0 && bytes > maxBytes) break
    documents.push(document)
  }
  return documents
}

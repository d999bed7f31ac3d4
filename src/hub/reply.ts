import { NfltrError } from '../core/errors.ts'
import type { OpenEntry } from '../core/inbox-state.ts'
import { limits } from '../core/limits.ts'
import type { Agent } from '../core/task-record.ts'
import type { ToolCall } from '../ports/hub-api.ts'
import type { Transaction } from '../runtime/engine.ts'
import type { KeySlot } from './keys.ts'
import { cutPage, firstPageJsonBytes, jsonBytes } from './pages.ts'
import { type Document, factsDocument, resultDocument, runningDocument, unconfirmedDocument } from './present.ts'
import type { ResultRecord } from './records.ts'
import type { HubWorld } from './world.ts'

/** An entry that may go into the reply, read from the store beforehand: it never changes. */
export interface Candidate {
  readonly record: ResultRecord
  readonly text: Uint8Array
}

export interface Reply {
  readonly call: ToolCall
  readonly slot: KeySlot
  readonly candidates: readonly Candidate[]
  readonly running: readonly Agent[]
  /** Bound of the document's JSON. At least one entry goes in whatever it says. */
  readonly maxBytes: number
}

/** Reads as many entries as a reply of this size can hold, in order. Of a text only what can fit is kept. */
export async function readCandidates(
  world: HubWorld,
  entries: readonly OpenEntry[],
  maxBytes: number,
): Promise<readonly Candidate[]> {
  const found: Candidate[] = []
  let bytes = 0
  for (const { deliveryId } of entries) {
    if (found.length > 0 && bytes > maxBytes) break
    const record = await world.mailbox.read(deliveryId)
    if (record?.kind !== 'result') {
      throw new NfltrError('store_damaged', `The entry ${deliveryId} of the inbox was not there.`)
    }
    const whole = await world.mailbox.readText(deliveryId)
    // The cut may fall into a character, so what is kept is longer than any page of it.
    const text = whole.length > maxBytes + 8 ? whole.slice(0, maxBytes + 8) : whole
    bytes += jsonBytes(shown(world, record)) + firstPageJsonBytes(text, limits.replyTextFirstBytes)
    found.push({ record, text })
  }
  return found
}

/**
 * Composes the reply of a wait and marks what is in it as offered, with these very bytes, in one batch (rule 1). Everything
 * unconfirmed is named (rule 2).
 */
export function writeReply(world: HubWorld, tx: Transaction, reply: Reply): string {
  const { call, slot, maxBytes } = reply
  world.mailbox.doubtOverdue(tx, slot.offerId)
  const names = boundedBy(world.mailbox.unconfirmed, (entry) => jsonBytes(unconfirmedDocument(entry)), maxBytes / 4)
  const running = boundedBy(reply.running, (agent) => jsonBytes(runningDocument(world, agent)), maxBytes / 4)
  const untold = reply.running.length - running.length
  const frame = (results: readonly Document[]): Document => ({
    results,
    events: [],
    requests: [],
    still_running: running.map((agent) => runningDocument(world, agent)),
    unconfirmed: names.map(unconfirmedDocument),
    facts: factsDocument(world, {
      undelivered: world.mailbox.undelivered.length - results.length,
      note: untold === 0 ? undefined : `${untold} more agents run: list_agents has them.`,
    }),
    ...(world.nodes.isCatchingUp ? { catching_up: true } : {}),
  })
  const taken = fitting(world, reply.candidates, maxBytes - jsonBytes(frame([])))
  const body = JSON.stringify(frame(taken.map((one) => one.document)))
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
function fitting(
  world: HubWorld,
  candidates: readonly Candidate[],
  budgetBytes: number,
): readonly { deliveryId: number; document: Document }[] {
  const minBytes = limits.replyTextFirstBytes
  const taken: { candidate: Candidate; base: Document; firstBytes: number }[] = []
  let left = budgetBytes
  for (const candidate of candidates) {
    const base = shown(world, candidate.record)
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
    return { deliveryId: candidate.record.deliveryId, document: { ...base, ...page } }
  })
}

function pageOf({ record, text }: Candidate, bounds: { maxJsonBytes: number; minBytes: number }) {
  const page = cutPage(text, { offset: 0, ...bounds })
  return { text: page.text, text_bytes: record.textBytes, next_offset: page.nextOffset }
}

/** The entry as a reply has it, with the longest form of what is filled in later. */
function shown(world: HubWorld, record: ResultRecord): Document {
  const task = world.agents.get(record.agentId)?.tasks.find((candidate) => candidate.taskId === record.taskId)
  const base = resultDocument(record, { receiptId: task?.receiptId, isWhole: false })
  return { ...base, text: '', text_bytes: record.textBytes, next_offset: record.textBytes }
}

/** The first ones whose sizes together stay within a bound; never none where there is one. */
function boundedBy<T>(items: readonly T[], sizeOf: (item: T) => number, maxBytes: number): readonly T[] {
  let bytes = 0
  return items.filter((item, index) => {
    bytes += sizeOf(item) + 1
    return index === 0 || bytes <= maxBytes
  })
}

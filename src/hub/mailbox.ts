import { factsOfInbox } from '../core/history.ts'
import { type InboxEvent, stepInbox } from '../core/inbox.ts'
import { emptyInbox, type Inbox, type Offer, type OpenEntry, unconfirmed, undelivered } from '../core/inbox-state.ts'
import { limits } from '../core/limits.ts'
import { encodeRecord } from '../core/record-json.ts'
import type { ResultEntry } from '../core/task-record.ts'
import type { Clock } from '../ports/clock.ts'
import type { Store } from '../ports/store.ts'
import type { Engine, Transaction } from '../runtime/engine.ts'
import type { Changes } from './changes.ts'
import { FreshEntries, type WholeEntry } from './fresh-entries.ts'
import type { History } from './history.ts'
import {
  type EntryRecord,
  type EventRecord,
  keys,
  prefixes,
  type ResultRecord,
  readAll,
  readRecord,
  type SpawnRecord,
} from './records.ts'
import type { Waiting } from './waiting.ts'

export interface MailboxParts {
  readonly engine: Engine
  readonly store: Store
  readonly changes: Changes
  readonly clock: Clock
  readonly history: History
  readonly waiting: Waiting
}

const utf8 = new TextEncoder()

/** Numbers of entries that one incarnation of the store has to itself. */
const deliveriesPerIncarnation = 1_000_000_000

/** The hub's inbox: the core's decisions, and the entries and texts that they are about. */
export class Mailbox {
  readonly #parts: MailboxParts
  readonly #fresh = new FreshEntries()
  #state: Inbox
  /** When a reply was handed out, in awake time; those found at the start count from the start. */
  readonly #offeredAtMs = new Map<string, number>()

  private constructor(parts: MailboxParts, state: Inbox) {
    this.#parts = parts
    this.#state = state
    for (const offerId of state.offers.keys()) this.#offeredAtMs.set(offerId, parts.clock.nowMs())
  }

  /** @throws {NfltrError} `store_damaged`, `store_newer` */
  static async load(parts: MailboxParts): Promise<Mailbox> {
    const { store } = parts
    const open = await readAll<OpenEntry>(store, prefixes.open)
    const offers = await readAll<Offer>(store, prefixes.offer)
    const counter = await readRecord<{ next: number }>(store, keys.deliveries)
    return new Mailbox(parts, {
      nextDeliveryId: counter?.next ?? emptyInbox.nextDeliveryId,
      entries: new Map(open.map((entry) => [entry.deliveryId, entry])),
      offers: new Map(offers.map((offer) => [offer.offerId, offer])),
    })
  }

  get nextDeliveryId(): number {
    return this.#state.nextDeliveryId
  }

  /** Entries that no reply has carried yet, in order. */
  get undelivered(): readonly OpenEntry[] {
    return undelivered(this.#state)
  }

  get unconfirmed(): readonly OpenEntry[] {
    return unconfirmed(this.#state)
  }

  /**
   * Names what was handed out long ago without a word since: the adapter died, or the call was dropped. A hub that was
   * started anew grants the same time, in which the adapter repeats its calls.
   *
   * @param ownOfferId the reply being written
   */
  doubtOverdue(tx: Transaction, ownOfferId: string): void {
    const nowMs = this.#parts.clock.nowMs()
    for (const offer of this.#state.offers.values()) {
      const sinceMs = this.#offeredAtMs.get(offer.offerId) ?? 0
      if (offer.state !== 'offered' || offer.offerId === ownOfferId || nowMs - sinceMs < limits.toolAnswerMs) continue
      this.step(tx, { type: 'doubted', offerId: offer.offerId })
    }
  }

  /** Puts a result in, with its text. Its number is the one that the decision was given. */
  deliver(tx: Transaction, { text, ...facts }: ResultEntry): void {
    const bytes = utf8.encode(text)
    const record: ResultRecord = { kind: 'result', ...facts, textBytes: bytes.length }
    this.#add(tx, record)
    this.#fresh.add({ record, text: bytes })
    tx.put(keys.text(facts.deliveryId), bytes)
  }

  /** Puts a spawn's own entry in. */
  deliverSpawn(tx: Transaction, record: SpawnRecord): void {
    this.#add(tx, record)
  }

  /** Puts an event in: something that the user has to know, whatever agent it is about. */
  deliverEvent(tx: Transaction, event: Omit<EventRecord, 'kind' | 'event' | 'deliveryId' | 'atMs'>): void {
    const { nextDeliveryId: deliveryId } = this.#state
    const atMs = this.#parts.clock.wallMs()
    const record: EventRecord = { kind: 'event', event: 'alert', deliveryId, atMs, ...event }
    this.#add(tx, record)
    this.#fresh.add({ record, text: utf8.encode(record.text) })
  }

  /**
   * The store was found put back: what waits may have been read, and is no longer called new; the next numbers are above
   * all that any earlier incarnation gave (rule 6).
   */
  restored(tx: Transaction, incarnation: number): void {
    this.step(tx, { type: 'restored', above: (incarnation - 1) * deliveriesPerIncarnation })
  }

  /** Advances the inbox. Does nothing at all, no write either, where the event changes nothing. */
  step(tx: Transaction, event: InboxEvent): void {
    const { state, effects } = stepInbox(this.#state, event)
    if (event.type === 'offered' || event.type === 'repeated')
      this.#offeredAtMs.set(event.offerId, this.#parts.clock.nowMs())
    if (event.type === 'confirmed') this.#offeredAtMs.delete(event.offerId)
    this.#state = state
    this.#parts.history.add(tx, factsOfInbox(event, effects))
    for (const effect of effects) {
      for (const entry of effect.entries) {
        tx.put(keys.open(entry.deliveryId), encodeRecord(entry))
        if (entry.state !== 'undelivered') this.#fresh.delete(entry.deliveryId)
      }
      for (const deliveryId of effect.settled) tx.delete(keys.open(deliveryId))
      for (const offer of effect.offers) tx.put(keys.offer(offer.offerId), encodeRecord(offer))
      for (const offerId of effect.finished) {
        tx.delete(keys.offer(offerId))
        this.#offeredAtMs.delete(offerId)
      }
      if (event.type === 'added' || event.type === 'restored')
        tx.put(keys.deliveries, encodeRecord({ next: effect.nextDeliveryId }))
      this.#parts.changes.notifyAfter(tx)
    }
  }

  /** The adapter wrote nothing of a reply: a repeat of its key gets another one, since what it carried is free again. */
  withdraw(offerId: string): Promise<void> {
    return this.#parts.engine.transact((tx) => {
      const offer = this.#state.offers.get(offerId)
      const carries = offer?.entries.map((deliveryId) => this.#state.entries.get(deliveryId)?.kind) ?? []
      this.step(tx, { type: 'withdrawn', offerId })
      if (offer !== undefined && !carries.includes('spawn')) tx.delete(offer.answerKey)
    })
  }

  /** Advances the inbox in a decision of its own. */
  decide(event: InboxEvent): Promise<void> {
    return this.#parts.engine.transact((tx) => this.step(tx, event))
  }

  /** An entry that came in last, in memory; also one that is not on disk yet. */
  fresh(deliveryId: number): WholeEntry | undefined {
    return this.#fresh.get(deliveryId)
  }

  /** An entry whole, but for its text; undefined for a number that was never given. */
  read(deliveryId: number): Promise<EntryRecord | undefined> {
    return readRecord<EntryRecord>(this.#parts.store, keys.entry(deliveryId))
  }

  /** An entry's text as UTF-8. */
  async readText(deliveryId: number): Promise<Uint8Array> {
    return (await this.#parts.store.get(keys.text(deliveryId))) ?? new Uint8Array()
  }

  #add(tx: Transaction, record: EntryRecord): void {
    if (record.deliveryId !== this.#state.nextDeliveryId) {
      throw new Error(`entry ${record.deliveryId} was decided while ${this.#state.nextDeliveryId} was next`)
    }
    const about = record.kind === 'event' ? {} : { agentId: record.agentId }
    this.step(tx, { type: 'added', kind: record.kind, ...about })
    tx.put(keys.entry(record.deliveryId), encodeRecord(record))
    this.#parts.waiting.came(tx)
  }
}

import { clip } from '../core/clip.ts'
import { NfltrError } from '../core/errors.ts'
import type { ControlMessage, LaneCursor, SessionFrame, WorkMessage } from '../core/messages.ts'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import { judgeOpening, type Opening } from '../core/rollback.ts'
import { stepLane } from '../core/session.ts'
import {
  cursorOf,
  emptyLaneHash,
  isCaughtUp,
  type LaneEffect,
  type LaneEvent,
  type LaneFault,
  type LaneLimits,
  type LaneRecord,
  type LaneState,
  newLane,
  nextMessage,
  nextPartBytes,
  restoreLane,
  type StoreMark,
} from '../core/session-lane.ts'
import { sha256 } from '../identity/hash.ts'
import type { Clock } from '../ports/clock.ts'
import type { Store } from '../ports/store.ts'
import { Assembly } from './assembly.ts'
import type { Engine, Transaction } from './engine.ts'
import { Outbox, type OutgoingMessage } from './outbox.ts'
import { type Poison, Quarantine } from './quarantine.ts'
import type { DecodedWork, SessionCodec } from './session-codec.ts'

type Part = SessionFrame & { readonly type: 'part' }

/** The link that the lane runs over now, as far as the lane needs it. */
export interface LaneCarrier {
  control(message: ControlMessage): void
  pump(): void
  onFault(fault: LaneFault): void
  onCaughtUp(): void
  setOwesWork(owesWork: boolean): void
}

interface Parts {
  readonly own: StoreMark
  readonly state: LaneState
  readonly quarantine: Quarantine
}

/** What the peer is told of a message that was set aside, in characters. */
const messageMaxBytes = 500

export interface WorkLaneOptions {
  readonly engine: Engine
  readonly store: Store
  readonly clock: Clock
  readonly codec: SessionCodec
  readonly limits: LaneLimits
  readonly remote: string
  readonly lane: number
  /** Large bodies stay in memory, so that `voidWhere` can look at them. */
  readonly keepsBodies: boolean
  readonly apply: (tx: Transaction, message: DecodedWork) => void
  /** A message is set aside: the cursor goes past it in this transaction, in which its bytes are kept (rule 26). */
  readonly quarantined: (tx: Transaction, poison: Poison) => void
  /** What takes the place of a message that no frame can carry, under its number (rule 26); undefined: a void. */
  readonly replace: (message: WorkMessage, error: NfltrError) => WorkMessage | undefined
}

/** A message that is complete and waits for the batch that applies it. */
interface Held {
  readonly no: number
  readonly body: Uint8Array
  readonly digest: Uint8Array | undefined
  /** Or why it cannot be read. */
  readonly message: DecodedWork | NfltrError
}

/** Runs `core/session` for one lane: its record and outbox in the store, bodies and hashes, batches, parts. */
export class WorkLane {
  readonly outbox: Outbox
  /** Messages that went out as something else, and parts that came a second time. */
  readonly counts = { replaced: 0, duplicates: 0 }
  readonly #options: WorkLaneOptions
  readonly #recordKey: string
  readonly #quarantine: Quarantine
  /** This side's store as the lane's numbers are about it. */
  #own: StoreMark
  readonly #assembly = new Assembly()
  #state: LaneState
  #carrier: LaneCarrier | undefined
  #held: Held[] = []
  #isApplying = false
  #outgoing: OutgoingMessage | undefined
  /** Rises when the lane begins anew: what was under way before it is about other numbers. */
  #generation = 0

  private constructor(options: WorkLaneOptions, parts: Parts) {
    const { own, state, quarantine } = parts
    this.#options = options
    this.#quarantine = quarantine
    this.#own = own
    this.#state = state
    this.#recordKey = recordKey(options)
    this.outbox = new Outbox(options)
  }

  /** @throws {NfltrError} `store_damaged`, `store_newer` */
  static async load(options: WorkLaneOptions): Promise<WorkLane> {
    const bytes = await options.store.get(recordKey(options))
    const record = bytes === undefined ? undefined : decodeRecord<LaneRecord>(bytes)
    const state = record === undefined ? newLane(options.lane) : restoreLane(options.lane, record)
    const quarantine = await Quarantine.load(options, { isFirstStart: record === undefined })
    const lane = new WorkLane(options, { own: record?.own ?? options.store.identity, state, quarantine })
    // After the store was put back or repaired, rows and record may be of different times; then none of them is sent.
    const { incarnation } = options.store.identity
    const isOld = record === undefined ? incarnation > 1 : lane.isOfEarlierStore
    await lane.outbox.load(state.acked, state.sent, { isOld })
    return lane
  }

  get cursor(): LaneCursor {
    return cursorOf(this.#state, this.#own)
  }

  /** Whether the store was found put back since the lane was last written: its numbers are about an earlier one. */
  get isOfEarlierStore(): boolean {
    const { storeId, incarnation } = this.#options.store.identity
    return storeId !== this.#own.storeId || incarnation > this.#own.incarnation
  }

  /** Compares what the peer told at an opening with what is here. Changes nothing. */
  judge(peer: LaneCursor): Opening {
    const { peer: known, sentDurable: sent, acked, received } = this.#state
    const own = this.#own
    return judgeOpening(
      { peer: known, sent, acked, received },
      { own, peer, hashAtReceived: this.#hashAt(peer.received) },
    )
  }

  /**
   * Begins the lane anew: the numbers of before mean nothing any more, and what was not acknowledged is never sent.
   *
   * @param incarnation - of this side's store from now on, where it was that one which was put back
   */
  restart(tx: Transaction, incarnation?: number): void {
    const { storeId, incarnation: current } = this.#options.store.identity
    this.#own = { storeId, incarnation: Math.max(current, this.#own.incarnation, incarnation ?? 0) }
    this.outbox.clear(tx)
    this.#state = { ...newLane(this.#options.lane), peer: this.#state.peer }
    this.#held = []
    this.#assembly.reset()
    this.#outgoing = undefined
    this.#generation += 1
    this.#quarantine.restart(tx)
    this.#persist(tx)
  }

  get incarnation(): number {
    return this.#own.incarnation
  }

  get isCaughtUp(): boolean {
    return isCaughtUp(this.#state)
  }

  send(tx: Transaction, message: WorkMessage): void {
    const body = this.#encode(message)
    const hash = chain(this.#state.sentHash, body)
    const no = this.#state.sent + 1
    this.#step({ type: 'send', hash }, tx)
    this.outbox.add(tx, no, { hash, atMs: this.#options.clock.wallMs(), body })
    const generation = this.#generation
    tx.afterDurable(() => {
      if (generation === this.#generation) this.#step({ type: 'sent_durable', no })
    })
  }

  /** Replaces by a void what is not acknowledged and `test` names. */
  voidWhere(tx: Transaction, test: (message: WorkMessage) => boolean): void {
    const { codec } = this.#options
    const replaced = this.outbox.replaceWhere(tx, codec.encodeWork({ type: 'void' }), (body) => {
      const message = codec.decodeWork(body)
      return message.type !== 'unknown' && message.type !== 'void' && test(message)
    })
    if (replaced > 0) tx.afterDurable(() => this.#carrier?.pump())
  }

  /**
   * Starts the lane over a new link, in a transaction; `own` is the cursor that this side told the peer.
   *
   * @returns why the peer's cursor cannot be true, and then nothing was changed
   */
  linkUp(
    tx: Transaction,
    cursors: { readonly own: LaneCursor; readonly peer: LaneCursor },
    carrier: LaneCarrier,
  ): LaneFault | undefined {
    const { own, peer } = cursors
    this.#carrier = carrier
    const fault = this.#step({ type: 'link_up', own, peer, hashAtReceived: this.#hashAt(peer.received) }, tx)
    if (fault !== undefined) {
      this.#carrier = undefined
      return fault
    }
    // Complete but unapplied messages come again: the peer starts after what was told to be on disk.
    this.#held = []
    this.#assembly.reset()
    this.#outgoing = undefined
    return undefined
  }

  linkDown(): void {
    this.#step({ type: 'link_down' })
    this.#carrier = undefined
  }

  takePart(part: Part): void {
    const { no, index, isLast } = part
    const effects = this.#advance({ type: 'part_in', no, index, isLast, bytes: part.bytes.length })
    for (const effect of effects) {
      if (effect.type === 'duplicate') this.counts.duplicates += 1
      if (effect.type === 'assemble') {
        if (effect.index === 0) this.#assembly.reset()
        this.#assembly.append(part.bytes)
      }
      if (effect.type === 'deliver') {
        const body = this.#assembly.finish()
        this.#held.push({ no, body, digest: part.digest, message: this.#decode(body) })
      }
    }
    this.#run(effects)
    this.#applyHeld()
  }

  takeAck(received: number): void {
    this.#step({ type: 'ack', received, hashAtReceived: this.#hashAt(received) })
    this.#carrier?.setOwesWork(this.#owesWork())
    if (this.outbox.needsSweep) void this.#options.engine.transact((tx) => this.#persist(tx))
  }

  takeCredit(bytes: number): void {
    this.#step({ type: 'credit', bytes })
  }

  takeCaughtUp(no: number): void {
    this.#step({ type: 'peer_caught_up', no })
  }

  /** The next part that may go out over `carrier` now, counted as sent. @throws {NfltrError} `store_damaged` */
  async nextPart(carrier: LaneCarrier): Promise<Uint8Array | undefined> {
    const no = this.#carrier === carrier ? nextMessage(this.#state) : undefined
    if (no === undefined) return undefined
    if (this.#outgoing?.no !== no) {
      const outgoing = await this.outbox.outgoing(no)
      // While the body was read, an acknowledgement may have gone past it, or the link may have ended.
      if (nextMessage(this.#state) !== no || this.#carrier !== carrier) return this.nextPart(carrier)
      if (outgoing === undefined) return undefined
      this.#outgoing = this.#fitting(outgoing)
    }
    const { body, hash, isReplaced } = this.#outgoing
    const bytes = nextPartBytes(this.#state, body.length, this.#options.limits)
    const next = this.#state.link?.next
    if (bytes === undefined || next === undefined) return undefined
    const isLast = next.offset + bytes === body.length
    const part: Part = {
      type: 'part',
      lane: this.#options.lane,
      no,
      index: next.index,
      isLast,
      bytes: body.subarray(next.offset, next.offset + bytes),
      ...(isLast && isReplaced ? { digest: fromHex(hash) } : {}),
    }
    this.#step({ type: 'part_out', bytes, isLast })
    if (isLast) this.#outgoing = undefined
    carrier.setOwesWork(true)
    return this.#options.codec.encodeFrame(part)
  }

  /** All that is complete in one batch with the cursor; what arrives while that syncs goes into the next. */
  #applyHeld(): void {
    const [first] = this.#held
    if (this.#isApplying || first === undefined) return
    this.#isApplying = true
    if (this.#quarantine.isProven) {
      this.#applyBatch(this.#held.length)
      return
    }
    // The first message after a start goes alone, and its number is on disk before: should it end the process again and
    // again, it is known by that.
    void this.#options.engine.transact((tx) => {
      this.#quarantine.begin(tx, first.no)
      tx.afterDurable(() => {
        if (this.#held[0] === first) this.#applyBatch(1)
        else this.#again()
      })
    })
  }

  #again(): void {
    this.#isApplying = false
    this.#applyHeld()
  }

  #applyBatch(count: number): void {
    void this.#options.engine.transact((tx) => {
      let hash = this.#state.receivedHash
      let no = this.#state.received
      for (const held of this.#held.splice(0, count)) {
        hash = held.digest === undefined ? chain(hash, held.body) : toHex(held.digest)
        no = held.no
        this.#applyOne(tx, held)
      }
      this.#step({ type: 'applied', no, hash }, tx)
      const generation = this.#generation
      tx.afterDurable(() => {
        this.#quarantine.isProven = true
        if (generation === this.#generation) this.#step({ type: 'applied_durable', no, hash })
        this.#again()
      })
    })
  }

  /** A bug in applying ends the process: what it left in memory is worth nothing. The next start sets the message aside. */
  #applyOne(tx: Transaction, { no, body, message }: Held): void {
    const error = message instanceof NfltrError ? message : this.#quarantine.verdict(no)
    if (error !== undefined) {
      const kind = message instanceof NfltrError ? 'unknown' : kindOf(message)
      const poison: Poison = { no, kind, error: error.message, ...(message instanceof NfltrError ? {} : { message }) }
      this.#quarantine.keep(tx, poison, body)
      if (this.#quarantine.mayTell(no)) this.#options.quarantined(tx, poison)
      this.send(tx, { type: 'quarantined', no, kind, message: clip(error.message, messageMaxBytes) })
      return
    }
    if (message instanceof NfltrError || message.type === 'void') return
    try {
      this.#options.apply(tx, message)
    } catch (thrown) {
      this.#quarantine.condemn(no, String(thrown))
      throw thrown
    }
  }

  #decode(body: Uint8Array): DecodedWork | NfltrError {
    try {
      return this.#options.codec.decodeWork(body)
    } catch (error) {
      if (error instanceof NfltrError) return error
      throw error
    }
  }

  #encode(message: WorkMessage): Uint8Array {
    const { codec, replace } = this.#options
    const first = this.#tryEncode(message)
    if (first instanceof Uint8Array) return first
    this.counts.replaced += 1
    const replacement = replace(message, first)
    const second = replacement === undefined ? undefined : this.#tryEncode(replacement)
    return second instanceof Uint8Array ? second : codec.encodeWork({ type: 'void' })
  }

  #tryEncode(message: WorkMessage): Uint8Array | NfltrError {
    const { messageMaxBytes } = this.#options.limits
    try {
      const body = this.#options.codec.encodeWork(message)
      if (body.length <= messageMaxBytes) return body
      const size = `${body.length} bytes, over the limit of ${messageMaxBytes}`
      return new NfltrError('frame_too_large', `The message ${message.type} had ${size}.`)
    } catch (error) {
      if (error instanceof NfltrError) return error
      throw error
    }
  }

  /** A row that another version left behind may be over this version's limit: its number goes out as a void. */
  #fitting(outgoing: OutgoingMessage): OutgoingMessage {
    if (outgoing.body.length <= this.#options.limits.messageMaxBytes) return outgoing
    this.counts.replaced += 1
    return { ...outgoing, body: this.#options.codec.encodeWork({ type: 'void' }), isReplaced: true }
  }

  #hashAt(no: number): string | undefined {
    if (no === 0) return emptyLaneHash
    return no === this.#state.acked ? this.#state.ackedHash : this.outbox.hashAt(no)
  }

  #owesWork(): boolean {
    const next = this.#state.link?.next
    return next !== undefined && (next.no > this.#state.acked + 1 || next.offset > 0)
  }

  #advance(event: LaneEvent): readonly LaneEffect[] {
    const { state, effects } = stepLane(this.#state, event, this.#options.limits)
    this.#state = state
    return effects
  }

  #step(event: LaneEvent, tx?: Transaction): LaneFault | undefined {
    return this.#run(this.#advance(event), tx)
  }

  /** Carries out effects; returns the fault of an event inside a transaction, and reports any other to the carrier. */
  #run(effects: readonly LaneEffect[], tx?: Transaction): LaneFault | undefined {
    const { lane } = this.#options
    // In the batch of the cursor above them, which is written first: no row is left below one.
    for (const effect of effects) if (effect.type === 'forget') this.outbox.forget(effect.from, effect.to)
    for (const effect of effects) {
      switch (effect.type) {
        case 'persist':
          if (tx === undefined) throw new Error('a lane was to be written outside a transaction')
          this.#persist(tx)
          break
        case 'send_ack':
          this.#carrier?.control({ type: 'ack', lane, received: effect.received })
          break
        case 'send_credit':
          this.#carrier?.control({ type: 'credit', lane, bytes: effect.bytes })
          break
        case 'send_caught_up':
          this.#carrier?.control({ type: 'caught_up', heads: [{ lane, no: effect.no }] })
          break
        case 'pump':
          this.#carrier?.pump()
          break
        case 'caught_up':
          this.#carrier?.onCaughtUp()
          break
        case 'fault':
          if (tx !== undefined) return effect.fault
          this.#carrier?.onFault(effect.fault)
          break
        // Carried out above, the others where the event comes from: they need its bytes.
        case 'forget':
        case 'keep':
        case 'assemble':
        case 'deliver':
        case 'duplicate':
          break
      }
    }
    return undefined
  }

  /** The record and the deletes that it allows go together, so no row is left below a cursor that no scan begins at. */
  #persist(tx: Transaction): void {
    const { peer, sent, sentHash, acked, ackedHash, received, receivedHash } = this.#state
    const record: LaneRecord = { own: this.#own, peer, sent, sentHash, acked, ackedHash, received, receivedHash }
    tx.put(this.#recordKey, encodeRecord(record))
    this.outbox.sweep(tx)
  }
}

function kindOf(message: DecodedWork): string {
  return message.type === 'unknown' ? message.kind : message.type
}

function recordKey(options: { readonly remote: string; readonly lane: number }): string {
  return `lane/${options.remote}/${options.lane}`
}

/** The rolling hash after one more message: first 8 bytes of SHA-256(previous ‖ message as first written). */
function chain(previous: string, body: Uint8Array): string {
  return toHex(sha256(fromHex(previous), body).subarray(0, 8))
}

function toHex(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += (byte < 16 ? '0' : '') + byte.toString(16)
  return text
}

function fromHex(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length >> 1)
  for (let index = 0; index < bytes.length; index++)
    bytes[index] = Number.parseInt(text.slice(2 * index, 2 * index + 2), 16)
  return bytes
}

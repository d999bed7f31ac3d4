import type { LaneCursor } from '../../src/core/messages.ts'
import { stepLane } from '../../src/core/session.ts'
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
} from '../../src/core/session-lane.ts'

/** Small, so that parts, windows and grants all happen within a few messages. */
export const limits: LaneLimits = { creditWindowBytes: 1_000, messageMaxBytes: 2_000, partMaxBytes: 300 }

interface Message {
  readonly id: string
  readonly size: number
  readonly hash: string
}

type Frame =
  | {
      readonly type: 'part'
      readonly no: number
      readonly index: number
      readonly isLast: boolean
      readonly bytes: number
      readonly id: string
    }
  | { readonly type: 'ack'; readonly received: number }
  | { readonly type: 'credit'; readonly bytes: number }
  | { readonly type: 'caught_up'; readonly no: number }

interface Batch {
  readonly write: () => void
  readonly effects: readonly (() => void)[]
}

/** FNV-1a over two halves: any hash does, as long as both sides use the same. */
export function hashAfter(previous: string, id: string): string {
  const half = (seed: number): string => {
    let hash = seed
    for (const char of previous + id) hash = Math.imul(hash ^ char.charCodeAt(0), 16_777_619) >>> 0
    return hash.toString(16).padStart(8, '0')
  }
  return half(2_166_136_261) + half(97)
}

/** One side: the lane machine with a disk that loses what it had not synced, and the shell around them in its plainest form. */
export class Peer {
  readonly name: string
  readonly mark: StoreMark
  /** What survives a crash. */
  disk: { record: LaneRecord | undefined; rows: Map<number, Message>; applied: string[] } = {
    record: undefined,
    rows: new Map(),
    applied: [],
  }
  /** Handed over, not yet on disk. */
  pending: Batch[] = []
  state: LaneState = newLane(1)
  outbox = new Map<number, Message>()
  inbox: Frame[] = []
  faults: LaneFault[] = []
  other: Peer | undefined
  #held: { readonly no: number; readonly id: string }[] = []
  #isApplying = false
  #forgotten: number[] = []

  constructor(name: string) {
    this.name = name
    this.mark = { storeId: name.repeat(32).slice(0, 32), incarnation: 1 }
  }

  get cursor(): LaneCursor {
    return cursorOf(this.state, this.mark)
  }

  get isCaughtUp(): boolean {
    return isCaughtUp(this.state)
  }

  send(id: string, size: number): void {
    const hash = hashAfter(this.state.sentHash, id)
    const record = this.#record(this.step({ type: 'send', hash }))
    const no = this.state.sent
    this.outbox.set(no, { id, size, hash })
    this.#commit(
      () => {
        this.#write(record)
        this.disk.rows.set(no, { id, size, hash })
      },
      () => this.step({ type: 'sent_durable', no }),
    )
  }

  linkUp(peer: LaneCursor, own: LaneCursor): void {
    const effects = this.step({ type: 'link_up', peer, own, hashAtReceived: this.hashAt(peer.received) })
    if (effects.some((effect) => effect.type === 'fault')) return
    this.#held = []
    this.#commit(this.#writeOf(this.#record(effects)))
  }

  linkDown(): void {
    this.step({ type: 'link_down' })
    this.inbox = []
  }

  /** One part goes out, if one may. */
  pump(): boolean {
    const no = nextMessage(this.state)
    const message = no === undefined ? undefined : this.outbox.get(no)
    const next = this.state.link?.next
    if (no === undefined || message === undefined || next === undefined) return false
    const bytes = nextPartBytes(this.state, message.size, limits)
    if (bytes === undefined) return false
    const isLast = next.offset + bytes === message.size
    this.step({ type: 'part_out', bytes, isLast })
    this.other?.inbox.push({ type: 'part', no, index: next.index, isLast, bytes, id: message.id })
    return true
  }

  /** Takes the next frame that arrived; `again` leaves it there to come a second time. */
  take(again = false): boolean {
    const frame = again ? this.inbox[0] : this.inbox.shift()
    if (frame === undefined) return false
    switch (frame.type) {
      case 'part':
        for (const effect of this.step({ ...frame, type: 'part_in' })) {
          if (effect.type === 'deliver') this.#held.push({ no: effect.no, id: frame.id })
        }
        break
      case 'ack':
        this.step({ type: 'ack', received: frame.received, hashAtReceived: this.hashAt(frame.received) })
        break
      case 'credit':
        if (!again) this.step({ type: 'credit', bytes: frame.bytes })
        break
      case 'caught_up':
        this.step({ type: 'peer_caught_up', no: frame.no })
        break
    }
    return true
  }

  /** Applies all that is complete in one batch, if none is on its way. */
  apply(): boolean {
    const last = this.#held.at(-1)
    if (last === undefined || this.#isApplying) return false
    this.#isApplying = true
    const ids = this.#held.map(({ id }) => id)
    const hash = ids.reduce(hashAfter, this.state.receivedHash)
    const { no } = last
    this.#held = []
    const write = this.#writeOf(this.#record(this.step({ type: 'applied', no, hash })))
    this.#commit(
      () => {
        write()
        this.disk.applied.push(...ids)
      },
      () => {
        this.#isApplying = false
        this.step({ type: 'applied_durable', no, hash })
      },
    )
    return true
  }

  /** The oldest batch reaches the disk, and its effects run. */
  sync(): boolean {
    const batch = this.pending.shift()
    if (batch === undefined) return false
    batch.write()
    for (const effect of batch.effects) effect()
    return true
  }

  /** The process dies; the first `keep` batches on their way made it. What it was, is read back from the disk. */
  crash(keep: number): void {
    for (const batch of this.pending.slice(0, keep)) batch.write()
    this.pending = []
    this.#held = []
    this.#isApplying = false
    this.#forgotten = []
    this.inbox = []
    const { record, rows } = this.disk
    this.state = record === undefined ? newLane(1) : restoreLane(1, record)
    this.outbox = new Map([...rows].filter(([no]) => no > this.state.acked))
    if (this.outbox.size !== this.state.sent - this.state.acked) throw new Error(`${this.name}: the outbox has a hole`)
  }

  hashAt(no: number): string | undefined {
    if (no === 0) return emptyLaneHash
    return no === this.state.acked ? this.state.ackedHash : this.outbox.get(no)?.hash
  }

  step(event: LaneEvent): readonly LaneEffect[] {
    const { state, effects } = stepLane(this.state, event, limits)
    this.state = state
    for (const effect of effects) this.#run(effect)
    return effects
  }

  #run(effect: LaneEffect): void {
    switch (effect.type) {
      case 'forget':
        for (let no = effect.from; no <= effect.to; no++) {
          if (this.other !== undefined && this.other.disk.applied.length < no) {
            throw new Error(`${this.name} forgot ${no}, which ${this.other.name} does not have on disk`)
          }
          this.outbox.delete(no)
          this.#forgotten.push(no)
        }
        break
      case 'send_ack':
        this.other?.inbox.push({ type: 'ack', received: effect.received })
        break
      case 'send_credit':
        this.other?.inbox.push({ type: 'credit', bytes: effect.bytes })
        break
      case 'send_caught_up':
        this.other?.inbox.push({ type: 'caught_up', no: effect.no })
        break
      case 'fault':
        this.faults.push(effect.fault)
        break
      default:
        break
    }
  }

  #record(effects: readonly LaneEffect[]): LaneRecord {
    const [first] = effects
    if (first?.type !== 'persist') throw new Error('persist was not the first effect')
    return first.record
  }

  #writeOf(record: LaneRecord): () => void {
    const forgotten = this.#forgotten.splice(0)
    return () => {
      this.disk.record = record
      for (const no of forgotten) this.disk.rows.delete(no)
    }
  }

  #write(record: LaneRecord): void {
    this.disk.record = record
  }

  #commit(write: () => void, effect?: () => void): void {
    this.pending.push({ write, effects: effect === undefined ? [] : [effect] })
  }
}

/** Two sides and the link between them. */
export class World {
  readonly hub = new Peer('a')
  readonly node = new Peer('b')
  isUp = false

  constructor() {
    this.hub.other = this.node
    this.node.other = this.hub
  }

  connect(): void {
    this.disconnect()
    const { hub, node } = this
    const cursors = { hub: hub.cursor, node: node.cursor }
    // The node answers the hub's opening, so its lane is up first; parts cross only after both are.
    node.linkUp(cursors.hub, cursors.node)
    hub.linkUp(cursors.node, cursors.hub)
    this.isUp = true
  }

  /** What was on its way is lost. */
  disconnect(): void {
    this.hub.linkDown()
    this.node.linkDown()
    this.isUp = false
  }

  crash(peer: Peer, keep: number): void {
    this.disconnect()
    peer.crash(keep)
  }

  /** No more faults: everything that can happen happens until nothing is left to do. */
  settle(): void {
    this.connect()
    const peers = [this.hub, this.node]
    for (let left = 100_000; left > 0; left--) {
      const moved = peers.map((peer) => peer.sync() || peer.take() || peer.apply() || peer.pump())
      if (!moved.includes(true)) return
    }
    throw new Error('the world did not come to rest')
  }
}

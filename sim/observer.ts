import { keyNumber } from '../src/core/key-order.ts'
import type { ControlMessage, SessionFrame } from '../src/core/messages.ts'
import type { ReceiptBody } from '../src/core/receipt.ts'
import { decodeRecord } from '../src/core/record-json.ts'
import type { Agent } from '../src/core/task-record.ts'
import { keys } from '../src/hub/records.ts'
import type { Link, PeerFacts } from '../src/ports/peers.ts'
import type { DecodedWork } from '../src/runtime/session-codec.ts'
import { decodeFrame } from '../src/wire/session-codec.ts'
import { decodeWork } from '../src/wire/work-codec.ts'
import type { SimPeers } from './peers.ts'
import type { Process } from './process.ts'
import { hashBytes } from './random.ts'
import { laneOn, recordOn } from './scene.ts'
import type { World } from './world.ts'

/** A frame at the moment at which a process lets it out. */
interface SentFrame {
  readonly side: 'hub' | 'node'
  readonly process: Process
  readonly life: string
  readonly hubId: string
  /** The pair of both sides: the same in both directions. */
  readonly pair: string
  /** What the sender calls the other side in its store. */
  readonly remote: string
  readonly frame: SessionFrame | { readonly type: 'unknown' }
  readonly control?: ControlMessage
  readonly message?: Message
}

/** With the last part of a message: its number, its bytes and what they say. */
interface Message {
  readonly no: number
  readonly body: Uint8Array
  readonly isReplaced: boolean
  readonly work: DecodedWork
}

/** Reads along with every session, at the sender, and tells the checks what each frame says and what is on disk then. */
export class Observer {
  readonly #world: World
  readonly #processOf: (peerId: string) => Process
  readonly #parts = new WeakMap<Link, Uint8Array[]>()
  /** The newest session opening of each pair. */
  readonly #epochs = new Map<string, number>()
  readonly #sentUpTo = new Map<string, number>()
  /** Frames that say something: everything but heartbeats and probes. */
  meaningful = 0

  constructor(options: { readonly world: World; readonly processOf: (peerId: string) => Process }) {
    this.#world = options.world
    this.#processOf = options.processOf
  }

  saw(from: SimPeers, to: PeerFacts, bytes: Uint8Array, link: Link): void {
    const frame = decodeFrame(bytes)
    const [hub, node] = from.self.kind === 'hub' ? [from.self, to] : [to, from.self]
    const message = frame.type === 'part' ? this.#whole(frame, link) : undefined
    const hubId = hub.hubId ?? ''
    const sent: SentFrame = {
      side: from.self.kind === 'hub' ? 'hub' : 'node',
      process: this.#processOf(from.self.peerId),
      life: from.life.name,
      hubId,
      pair: `${hubId} ${node.peerId}`,
      remote: from.self.kind === 'hub' ? node.peerId : hubId,
      frame,
      ...(frame.type === 'control' ? { control: frame.message } : {}),
      ...(message === undefined ? {} : { message }),
    }
    if (!isSignOfLife(sent)) this.meaningful += 1
    this.#world.note(`${sent.life} > ${to.peerId} ${describe(sent)} ${hashBytes(bytes, 0).toString(16)}`)
    this.#tellOpening(sent)
    this.#tellControl(sent)
    if (message !== undefined) this.#tellMessage(sent, message)
  }

  #tellOpening({ frame, process, life, pair, hubId }: SentFrame): void {
    if (frame.type === 'open') {
      this.#epochs.set(pair, frame.epoch)
      this.#world.tell({ type: 'opened', process: process.name, life, epoch: frame.epoch })
    }
    const epoch = this.#epochs.get(pair)
    if (frame.type === 'accept' && epoch !== undefined) {
      this.#world.tell({ type: 'admitted', node: process.name, hubId, epoch })
    }
  }

  #tellControl({ control, process, life, remote }: SentFrame): void {
    if (control?.type === 'ack') {
      const durable = laneOn(process.disk, remote)?.received ?? 0
      const { received } = control
      this.#world.tell({ type: 'acked', process: process.name, life, remote, received, durable })
    }
    if (control?.type === 'caught_up') {
      const durable = laneOn(process.disk, remote)?.received ?? 0
      const no = control.heads.find(({ lane }) => lane === 1)?.no ?? 0
      this.#world.tell({ type: 'caught_up', life, remote, no, durable })
    }
  }

  #tellMessage(sent: SentFrame, { no, body, isReplaced, work }: Message): void {
    const { process, life, side, remote, hubId } = sent
    const { disk } = process
    const acked = laneOn(disk, remote)?.acked ?? 0
    const missing = missingOf(sent, work)
    const lane = `${process.name}>${remote}`
    const isRepeat = no <= (this.#sentUpTo.get(lane) ?? 0)
    this.#world.count(`sent: ${work.type}${isRepeat ? ', again' : ''}`)
    if (isReplaced) this.#world.count('sent: another message in its place')
    this.#sentUpTo.set(lane, Math.max(no, this.#sentUpTo.get(lane) ?? 0))
    this.#world.tell({
      type: 'sent',
      process: process.name,
      life,
      side,
      remote,
      hubId,
      no,
      kind: work.type,
      digest: hashBytes(body, 0),
      isReplaced: isReplaced || work.type === 'void',
      isKept: no <= acked || disk.read(`outbox/${remote}/1/${keyNumber(no)}`) !== undefined,
      ...('ref' in work ? { agentId: work.ref.agentId } : {}),
      ...(missing === undefined ? {} : { missing }),
    })
    if (work.type === 'task_events') {
      for (const { seq, turn, type, text } of work.events) {
        const { agentId } = work.ref
        this.#world.tell({ type: 'line_told', life, agentId, seq, text: `${turn} ${type} ${text ?? ''}`, isRepeat })
      }
    }
    if (work.type === 'receipt') {
      const { receiptId, envelope } = work.receipt
      const { owner: node, previousHash, attemptId, taskId, outcome, resultHash } = decodeRecord<ReceiptBody>(envelope)
      const facts = { node, hubId, receiptId, previousHash, attemptId, taskId, outcome, resultHash }
      this.#world.tell({ type: 'receipt_kept', ...facts })
    }
  }

  #whole(frame: SentFrame['frame'] & { readonly type: 'part' }, link: Link): Message | undefined {
    const parts = frame.index === 0 ? [] : (this.#parts.get(link) ?? [])
    parts.push(frame.bytes)
    this.#parts.set(link, parts)
    if (!frame.isLast) return undefined
    const body = Buffer.concat(parts)
    this.#parts.delete(link)
    return { no: frame.no, body, isReplaced: frame.digest !== undefined, work: decodeWork(body) }
  }
}

/** The decision that a message tells of, where it is not on the sender's disk. */
function missingOf({ side, process: { disk } }: SentFrame, work: DecodedWork): string | undefined {
  if (side === 'hub' && work.type === 'claim') {
    const { agentId, attemptId } = work.ref
    const tasks = recordOn<Agent>(disk, keys.agent(agentId))?.tasks ?? []
    const isKnown = tasks.some((task) => task.attempts.some((attempt) => attempt.attemptId === attemptId))
    if (!isKnown) return `the attempt ${attemptId}`
  }
  if (side === 'node' && work.type === 'ended' && disk.read(`node/result/${work.ref.attemptId}`) === undefined) {
    return `the result of ${work.ref.attemptId}`
  }
  return undefined
}

function isSignOfLife({ control }: SentFrame): boolean {
  return control?.type === 'heartbeat' || control?.type === 'probe' || control?.type === 'probe_reply'
}

function describe({ frame, control, message }: SentFrame): string {
  if (message !== undefined) {
    const { work, no } = message
    return `message ${no} ${work.type}${'ref' in work ? ` of ${work.ref.attemptId.slice(0, 12)}` : ''}`
  }
  if (frame.type === 'part') return `part ${frame.no}.${frame.index}`
  if (control?.type === 'ack') return `ack ${control.received}`
  return control?.type ?? frame.type
}

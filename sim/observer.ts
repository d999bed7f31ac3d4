import type { Link, PeerFacts } from '../src/ports/peers.ts'
import { decodeFrame } from '../src/wire/session-codec.ts'
import { decodeWork } from '../src/wire/work-codec.ts'
import type { Checker, SentFrame } from './checkers/checker.ts'
import type { SimPeers } from './peers.ts'
import type { Process } from './process.ts'
import { hashBytes } from './random.ts'
import type { World } from './world.ts'

/** Reads along with every session, at the sender, and shows each frame to the checkers. */
export class Observer {
  readonly #world: World
  readonly #checkers: readonly Checker[]
  readonly #processOf: (peerId: string) => Process
  readonly #parts = new WeakMap<Link, Uint8Array[]>()
  /** Frames that say something: everything but heartbeats and probes. */
  meaningful = 0

  constructor(options: {
    readonly world: World
    readonly checkers: readonly Checker[]
    readonly processOf: (peerId: string) => Process
  }) {
    this.#world = options.world
    this.#checkers = options.checkers
    this.#processOf = options.processOf
  }

  saw(from: SimPeers, to: PeerFacts, bytes: Uint8Array, link: Link): void {
    const frame = decodeFrame(bytes)
    const process = this.#processOf(from.self.peerId)
    const [hub, node] = from.self.kind === 'hub' ? [from.self, to] : [to, from.self]
    const message = frame.type === 'part' ? this.#whole(frame, link) : undefined
    const sent: SentFrame = {
      side: from.self.kind === 'hub' ? 'hub' : 'node',
      process: process.name,
      life: from.life.name,
      disk: process.disk,
      to,
      hubId: hub.hubId ?? '',
      nodeId: node.peerId,
      remote: from.self.kind === 'hub' ? node.peerId : (hub.hubId ?? ''),
      link,
      frame,
      ...(frame.type === 'control' ? { control: frame.message } : {}),
      ...(message === undefined ? {} : { message }),
    }
    if (!isSignOfLife(sent)) this.meaningful += 1
    this.#world.note(`${sent.life} > ${to.peerId} ${describe(sent)} ${hashBytes(bytes, 0).toString(16)}`)
    for (const checker of this.#checkers) {
      checker.onFrame?.(sent, (text) => this.#world.violate(checker.name, text))
    }
  }

  #whole(frame: SentFrame['frame'] & { readonly type: 'part' }, link: Link): SentFrame['message'] {
    const parts = frame.index === 0 ? [] : (this.#parts.get(link) ?? [])
    parts.push(frame.bytes)
    this.#parts.set(link, parts)
    if (!frame.isLast) return undefined
    const body = Buffer.concat(parts)
    this.#parts.delete(link)
    return { no: frame.no, body, isReplaced: frame.digest !== undefined, work: decodeWork(body) }
  }
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

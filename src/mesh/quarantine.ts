import type {
  Connection,
  ConnectionEncrypter,
  ConnectionGater,
  MessageStream,
  MultiaddrConnection,
  PeerId,
  StreamMuxer,
  StreamMuxerFactory,
} from '@libp2p/interface'
import { type ErrorCode, NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Clock } from '../ports/clock.ts'
import { hostOf, prefixOf } from './addresses.ts'
import { Admission } from './admission.ts'

export interface QuarantineOptions {
  readonly clock: Clock
  readonly ownPeerId: string
  /** Whether a member was reached at this IP address before: a share of the half-open places is kept for those. */
  readonly isMemberHost: (host: string) => boolean
  /** Whether a process with this PeerId has a link that passed hello. */
  readonly isLinked: (peerId: string) => boolean
  /** Called for each connection that was turned away or cut, with the typed reason. */
  readonly onRefusal: (code: ErrorCode) => void
}

/** Half-open places that only addresses of members may take. */
export const halfOpenForMembers = 16

/** Refused PeerIds that are remembered; the oldest is forgotten first. */
const refusedMax = 1024

/** The part of yamux that is used beyond libp2p's interface: its ping answers without any protocol of ours. */
type PingableMuxer = StreamMuxer & { ping?(): Promise<number> }

/**
 * Keeps strangers small (R9). PeerIds are not known in advance, so the gate is not a list: whoever connects gets 5 s,
 * 16 KiB and two streams to say hello, and there is room for a bounded number of such connections, in total and per
 * network, before Noise costs anything. PeerIds whose hello was refused are turned away for a minute.
 *
 * libp2p itself limits neither bytes nor streams nor time of a connection. The hooks used here are its connection gater, a
 * wrapper around the encrypter and one around the muxer; the connection's `timeline` object, which all of them share, tells
 * which belongs to which.
 */
export class Quarantine {
  readonly #options: QuarantineOptions
  readonly #byTimeline = new WeakMap<object, Admission>()
  readonly #bySecured = new WeakMap<object, Admission>()
  readonly #refused = new Map<string, { readonly untilMs: number; readonly isCopy: boolean }>()
  readonly #halfOpen = new Set<Admission>()

  constructor(options: QuarantineOptions) {
    this.#options = options
  }

  readonly gater: ConnectionGater = {
    // Everything may be dialled: who answers has to prove the PeerId that was asked for, and pass hello.
    denyDialMultiaddr: () => false,
    denyInboundConnection: (connection: MultiaddrConnection) => !this.#letIn(connection),
    denyInboundEncryptedConnection: (peerId: PeerId) => this.#isTurnedAway(peerId.toString()),
  }

  /** Whether a member was reached at an IP address before. */
  isMemberHost(host: string): boolean {
    return this.#options.isMemberHost(host)
  }

  admissionOf(connection: Connection): Admission {
    const admission = this.#byTimeline.get(connection.timeline) ?? this.#admit(connection, { isInbound: false })
    admission.attach(connection)
    return admission
  }

  /**
   * Turns a PeerId away for the next minute; where a copy of a process that is here was refused (`duplicate_identity`), only
   * for as long as that one stays: it may start anew, under the same PeerId.
   */
  refuse(peerId: string, code: ErrorCode): void {
    const untilMs = this.#options.clock.nowMs() + limits.refusedPeerPauseMs
    this.#refused.delete(peerId)
    this.#refused.set(peerId, { untilMs, isCopy: code === 'duplicate_identity' })
    for (const oldest of this.#refused.keys()) {
      if (this.#refused.size <= refusedMax) break
      this.#refused.delete(oldest)
    }
  }

  wrapEncrypter(inner: ConnectionEncrypter): ConnectionEncrypter {
    const secure = async (
      raw: MessageStream,
      work: () => ReturnType<ConnectionEncrypter['secureInbound']>,
    ): ReturnType<ConnectionEncrypter['secureInbound']> => {
      const admission = this.#byTimeline.get(raw.timeline) ?? this.#admit(raw, { isInbound: false })
      const secured = await work()
      if (secured.remotePeer.toString() === this.#options.ownPeerId) {
        this.#options.onRefusal('own_peer_id')
        throw new NfltrError('own_peer_id', 'The peer showed the PeerId of this process itself.')
      }
      this.#bySecured.set(secured.connection, admission)
      return secured
    }
    return {
      protocol: inner.protocol,
      secureInbound: (raw, options) => secure(raw, () => inner.secureInbound(raw, options)),
      secureOutbound: (raw, options) => secure(raw, () => inner.secureOutbound(raw, options)),
    }
  }

  wrapMuxer(inner: StreamMuxerFactory): StreamMuxerFactory {
    return {
      protocol: inner.protocol,
      createStreamMuxer: (secured) => {
        const muxer: PingableMuxer = inner.createStreamMuxer(secured)
        this.#bySecured.get(secured)?.attachMuxer(muxer)
        return muxer
      },
    }
  }

  #letIn(connection: MultiaddrConnection): boolean {
    const host = hostOf(connection.remoteAddr) ?? ''
    const isMember = this.#options.isMemberHost(host)
    const prefix = prefixOf(host)
    if (!this.#hasRoom({ isMember, prefix })) {
      this.#options.onRefusal('queue_full')
      return false
    }
    const admission = this.#admit(connection, { isInbound: true, prefix, isMember })
    this.#halfOpen.add(admission)
    admission.onSettled(() => this.#halfOpen.delete(admission))
    return true
  }

  #hasRoom(newcomer: { readonly isMember: boolean; readonly prefix: string }): boolean {
    if (this.#halfOpen.size >= limits.halfOpenMax) return false
    if (newcomer.isMember) return true
    let strangers = 0
    let neighbours = 0
    for (const admission of this.#halfOpen) {
      if (admission.isMember) continue
      strangers += 1
      if (admission.prefix === newcomer.prefix) neighbours += 1
    }
    return strangers < limits.halfOpenMax - halfOpenForMembers && neighbours < limits.halfOpenPerPrefixMax
  }

  #isTurnedAway(peerId: string): boolean {
    const refused = this.#refused.get(peerId)
    if (refused === undefined) return false
    const isOver = this.#options.clock.nowMs() >= refused.untilMs
    if (isOver || (refused.isCopy && !this.#options.isLinked(peerId))) {
      this.#refused.delete(peerId)
      return false
    }
    this.#options.onRefusal('not_a_member')
    return true
  }

  #admit(
    raw: { readonly timeline: object },
    origin: { readonly isInbound: boolean; readonly prefix?: string; readonly isMember?: boolean },
  ): Admission {
    const admission = new Admission(raw, {
      clock: this.#options.clock,
      onRefusal: this.#options.onRefusal,
      isMember: origin.isMember ?? false,
      prefix: origin.prefix ?? '',
    })
    this.#byTimeline.set(raw.timeline, admission)
    return admission
  }
}

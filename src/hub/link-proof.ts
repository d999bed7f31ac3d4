import { limits } from '../core/limits.ts'
import { isGoneFor } from '../core/membership.ts'
import type { Clock } from '../ports/clock.ts'
import type { Liveness } from '../ports/liveness.ts'
import type { PeerFacts, Peers } from '../ports/peers.ts'

export interface LinkProofParts {
  readonly clock: Clock
  readonly liveness: Liveness
  readonly peers: Peers
  /** Monotonic time of the last byte of a node's session. */
  readonly lastHeardAtMs: (peerId: string) => number | undefined
}

/** How old the last word of another machine may be, and how often one is asked, in milliseconds. */
const proofMs = { maxAge: limits.unverifiableAfterMs, every: 2_000 } as const

/**
 * Whether the hub's own link works while a node is silent (rule 8): another machine answers, just now and not only by a
 * connection that nobody has closed. Where the silent node is the only other member there is nobody to ask, and an
 * interface with a route has to do.
 */
export class LinkProof {
  readonly #parts: LinkProofParts
  readonly #answeredAtMs = new Map<string, number>()
  readonly #askedAtMs = new Map<string, number>()
  readonly #closing = new AbortController()

  constructor(parts: LinkProofParts) {
    this.#parts = parts
  }

  isProven(silentPeerId: string): boolean {
    const { peers, liveness, clock } = this.#parts
    const nowMs = clock.nowMs()
    const others = this.#others(silentPeerId)
    if (others.some((peer) => nowMs - this.#heardAtMs(peer) <= proofMs.maxAge)) return true
    const self = peers.self.machinePeerId
    const members = peers.members().filter((member) => !(isGoneFor('node', member) && isGoneFor('hub', member)))
    if (members.some(({ machinePeerId }) => machinePeerId !== self && machinePeerId !== silentPeerId)) return false
    const silent = members.find(({ machinePeerId }) => machinePeerId === silentPeerId)
    return liveness.hasRoute(silent?.addresses ?? [])
  }

  /** Asks the other machines, where their last word is not quite new. */
  seek(silentPeerId: string): void {
    const { clock } = this.#parts
    const nowMs = clock.nowMs()
    for (const peer of this.#others(silentPeerId)) {
      const lastMs = Math.max(this.#heardAtMs(peer), this.#askedAtMs.get(peer.peerId) ?? Number.NEGATIVE_INFINITY)
      if (nowMs - lastMs >= proofMs.every) this.#ask(peer.peerId, nowMs)
    }
  }

  close(): void {
    this.#closing.abort()
  }

  #ask(peerId: string, nowMs: number): void {
    const { peers, clock } = this.#parts
    this.#askedAtMs.set(peerId, nowMs)
    peers.probe(peerId, { signal: this.#closing.signal }).then(
      () => this.#answeredAtMs.set(peerId, clock.nowMs()),
      () => undefined,
    )
  }

  #others(silentPeerId: string): readonly PeerFacts[] {
    const { peers } = this.#parts
    const self = peers.self.machinePeerId
    return peers.connected().filter(({ machinePeerId }) => machinePeerId !== self && machinePeerId !== silentPeerId)
  }

  #heardAtMs({ peerId, kind }: PeerFacts): number {
    const session = kind === 'node' ? this.#parts.lastHeardAtMs(peerId) : undefined
    return Math.max(session ?? Number.NEGATIVE_INFINITY, this.#answeredAtMs.get(peerId) ?? Number.NEGATIVE_INFINITY)
  }
}

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

/** How the hub's own link stands at one moment. */
export interface LinkLook {
  /** Whether it works, while this node is silent. */
  isProven(silentPeerId: string): boolean
  /** Asks the other machines, where their last word is not quite new. */
  seek(silentPeerId: string): void
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

  /** What can be said now of silent nodes; good until anything else happens. */
  look(): LinkLook {
    // One list for all that are silent at a time, since there may be as many of them as nodes.
    const connected = this.#connected()
    let asked = 0
    return {
      isProven: (silentPeerId) => this.#isProven(silentPeerId, connected),
      seek: (silentPeerId) => {
        // After two all were asked: each of the two stood back from one only.
        if (asked < 2) this.#seek(silentPeerId, connected)
        asked += 1
      },
    }
  }

  close(): void {
    this.#closing.abort()
  }

  #isProven(silentPeerId: string, connected: readonly PeerFacts[]): boolean {
    const { peers, liveness, clock } = this.#parts
    const nowMs = clock.nowMs()
    const isHeard = (peer: PeerFacts): boolean =>
      peer.machinePeerId !== silentPeerId && nowMs - this.#heardAtMs(peer) <= proofMs.maxAge
    if (connected.some(isHeard)) return true
    const self = peers.self.machinePeerId
    const members = peers.members().filter((member) => !(isGoneFor('node', member) && isGoneFor('hub', member)))
    if (members.some(({ machinePeerId }) => machinePeerId !== self && machinePeerId !== silentPeerId)) return false
    const silent = members.find(({ machinePeerId }) => machinePeerId === silentPeerId)
    return liveness.hasRoute(silent?.addresses ?? [])
  }

  #seek(silentPeerId: string, connected: readonly PeerFacts[]): void {
    const nowMs = this.#parts.clock.nowMs()
    for (const peer of connected) {
      if (peer.machinePeerId === silentPeerId) continue
      const lastMs = Math.max(this.#heardAtMs(peer), this.#askedAtMs.get(peer.peerId) ?? Number.NEGATIVE_INFINITY)
      if (nowMs - lastMs >= proofMs.every) this.#ask(peer.peerId, nowMs)
    }
  }

  #ask(peerId: string, nowMs: number): void {
    const { peers, clock } = this.#parts
    this.#askedAtMs.set(peerId, nowMs)
    peers.probe(peerId, { signal: this.#closing.signal }).then(
      () => this.#answeredAtMs.set(peerId, clock.nowMs()),
      () => undefined,
    )
  }

  /** Processes of other machines that are connected. */
  #connected(): readonly PeerFacts[] {
    const { peers } = this.#parts
    return peers.connected().filter(({ machinePeerId }) => machinePeerId !== peers.self.machinePeerId)
  }

  #heardAtMs({ peerId, kind }: PeerFacts): number {
    const session = kind === 'node' ? this.#parts.lastHeardAtMs(peerId) : undefined
    return Math.max(session ?? Number.NEGATIVE_INFINITY, this.#answeredAtMs.get(peerId) ?? Number.NEGATIVE_INFINITY)
  }
}

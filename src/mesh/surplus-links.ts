import type { Clock, Timer } from '../ports/clock.ts'
import type { PeerFacts } from '../ports/peers.ts'
import type { MemberLink, MemberLinks } from './member-links.ts'

export interface SurplusLinksOptions {
  readonly clock: Clock
  readonly links: MemberLinks
  readonly self: () => PeerFacts
}

/** How long two links of one pair stay side by side, in milliseconds: whoever dialled second has said hello and begun by then. */
const sideBySideMs = 3_000

/**
 * Where both sides dialled there are two connections; one is used, and the other ends. One side alone decides, so that never both
 * are closed: the hub, which opens the sessions, else the side with the smaller PeerId.
 */
export class SurplusLinks {
  readonly #options: SurplusLinksOptions
  readonly #timers = new Map<string, Timer>()

  constructor(options: SurplusLinksOptions) {
    this.#options = options
  }

  /** A link with a peer came up. */
  look(peerId: string): void {
    const { clock, links } = this.#options
    if (links.linksOf(peerId).length < 2 || this.#timers.has(peerId)) return
    const timer = clock.after(sideBySideMs, () => {
      this.#timers.delete(peerId)
      this.#settle(links.linksOf(peerId))
    })
    this.#timers.set(peerId, timer)
  }

  close(): void {
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
  }

  #settle(links: readonly MemberLink[]): void {
    const newest = links.at(-1)
    if (newest === undefined || !this.#decides(newest.facts)) return
    const used = links.filter(({ connection }) => connection.streams.length > 0)
    const kept = used.length > 0 ? used : [newest]
    for (const link of links) {
      // A failed close ends the connection as well.
      if (!kept.includes(link)) link.connection.close().catch(() => undefined)
    }
  }

  #decides(peer: PeerFacts): boolean {
    const self = this.#options.self()
    if ((self.kind === 'hub') !== (peer.kind === 'hub')) return self.kind === 'hub'
    return self.peerId < peer.peerId
  }
}

import type { Clock, Timer } from '../ports/clock.ts'
import type { PeerFacts } from '../ports/peers.ts'
import { answersWithin, type MemberLink, type MemberLinks } from './member-links.ts'

export interface SurplusLinksOptions {
  readonly clock: Clock
  readonly links: MemberLinks
  readonly self: () => PeerFacts
}

/** How long two links of one pair stay side by side, in milliseconds: whoever dialled second has said hello and begun by then. */
const sideBySideMs = 3_000

/** How long an older link may stay silent once its peer came on another, in milliseconds; less than `sideBySideMs`. */
const olderSilentMs = 2_000

/**
 * What becomes of two links of one pair. A peer that comes on a second one may have lost the first without our knowing, so the
 * older is asked, and ends if it is silent. Where both live, because both sides dialled, the one in use stays and the other ends; one
 * side alone decides that, so that never both are closed: the hub, which opens the sessions, else the side with the smaller PeerId.
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
    const older = links.linksOf(peerId).slice(0, -1)
    if (older.length === 0) return
    for (const link of older) void this.#ask(link)
    // The newest has its time to be used, and the others theirs to answer.
    this.#timers.get(peerId)?.cancel()
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

  async #ask(link: MemberLink): Promise<void> {
    if (await answersWithin(link, { clock: this.#options.clock, boundMs: olderSilentMs })) return
    link.admission.abort(new Error('silent while its peer came on another link'))
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

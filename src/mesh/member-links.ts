import type { Connection } from '@libp2p/interface'
import { NfltrError } from '../core/errors.ts'
import type { Membership, ProcessCertificate } from '../core/membership.ts'
import type { Clock } from '../ports/clock.ts'
import type { PeerFacts, PeerListener, Unsubscribe } from '../ports/peers.ts'
import type { Admission } from './admission.ts'

/** A connection that has passed hello. */
export interface MemberLink {
  readonly connection: Connection
  readonly admission: Admission
  readonly facts: PeerFacts
  /** Which start of the peer's process this is (rule 11). */
  readonly incarnation: string
  /** What was granted at hello; looked at again when members or the clock change. */
  readonly membership: Membership
  readonly certificate?: ProcessCertificate
}

/** Whether the other end of a link says anything within a time, in milliseconds. */
export function answersWithin(
  link: MemberLink,
  of: { readonly clock: Clock; readonly boundMs: number },
): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = of.clock.after(of.boundMs, () => resolve(false))
    const end = (isAlive: boolean): void => {
      timer.cancel()
      resolve(isAlive)
    }
    link.admission.ping().then(
      (rttMs) => end(rttMs !== undefined),
      () => end(false),
    )
  })
}

/** Connections that one peer may hold at once; the oldest goes first. Two are normal: both sides dialled. */
const linksPerPeerMax = 4

/** Who is on the line: connections by peer, newest last, and who wants to know of them. */
export class MemberLinks {
  readonly #byPeer = new Map<string, MemberLink[]>()
  readonly #listeners = new Set<PeerListener>()
  readonly #linkListeners = new Set<(link: MemberLink) => void>()

  connected(): readonly PeerFacts[] {
    return [...this.#byPeer.values()].flatMap((links) => links.at(-1)?.facts ?? [])
  }

  /** The newest connection to a peer: the one to open streams on. */
  newest(peerId: string): MemberLink | undefined {
    return this.#byPeer.get(peerId)?.findLast((link) => link.connection.status === 'open')
  }

  /** The same for whoever cannot do without. @throws {NfltrError} `link_down` */
  required(peerId: string): MemberLink {
    const link = this.newest(peerId)
    if (link === undefined) throw new NfltrError('link_down', 'No connection to the peer is up.')
    return link
  }

  linksOf(peerId: string): readonly MemberLink[] {
    return this.#byPeer.get(peerId) ?? []
  }

  all(): readonly MemberLink[] {
    return [...this.#byPeer.values()].flat()
  }

  /** Connections of a peer that belong to another start of its process than `incarnation`. */
  othersOf(peerId: string, incarnation: string): readonly MemberLink[] {
    return this.linksOf(peerId).filter((link) => link.incarnation !== incarnation && !link.admission.hasEnded)
  }

  add(link: MemberLink): void {
    const { peerId } = link.facts
    const links = this.#byPeer.get(peerId) ?? []
    const isFirst = links.length === 0
    this.#byPeer.set(peerId, [...links, link])
    link.connection.addEventListener('close', () => this.#remove(link))
    if (link.connection.status !== 'open') {
      this.#remove(link, { isKnown: !isFirst })
      return
    }
    if (isFirst) this.#tell('up', link.facts)
    for (const listener of [...this.#linkListeners]) listener(link)
    if (links.length >= linksPerPeerMax) links[0]?.connection.abort(new Error('superseded by newer connections'))
  }

  watch(listener: PeerListener): Unsubscribe {
    this.#listeners.add(listener)
    for (const facts of this.connected()) listener.up(facts)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  /** Calls back for each connection that passed hello, also the second one of a peer. */
  watchLinks(listener: (link: MemberLink) => void): Unsubscribe {
    this.#linkListeners.add(listener)
    return () => {
      this.#linkListeners.delete(listener)
    }
  }

  #remove(link: MemberLink, { isKnown = true }: { readonly isKnown?: boolean } = {}): void {
    const links = this.#byPeer.get(link.facts.peerId)
    if (links === undefined || !links.includes(link)) return
    const left = links.filter((other) => other !== link)
    if (left.length > 0) {
      this.#byPeer.set(link.facts.peerId, left)
      return
    }
    this.#byPeer.delete(link.facts.peerId)
    if (isKnown) this.#tell('down', link.facts)
  }

  #tell(what: keyof PeerListener, facts: PeerFacts): void {
    for (const listener of [...this.#listeners]) listener[what](facts)
  }
}

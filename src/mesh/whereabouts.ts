import type { Libp2p } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import type { Unsubscribe } from '../ports/peers.ts'
import { AddressBook } from './address-book.ts'
import { listenersOf } from './host.ts'
import { LanDiscovery, type LanStatus } from './lan-discovery.ts'
import { answersWithin, type MemberLink, type MemberLinks } from './member-links.ts'
import type { MeshOptions } from './mesh-options.ts'
import { OwnAddresses } from './own-addresses.ts'
import type { OwnPlace } from './own-place.ts'
import { SurplusLinks } from './surplus-links.ts'

export interface WhereaboutsOptions {
  readonly mesh: Pick<MeshOptions, 'files' | 'clock' | 'random' | 'lan' | 'kind' | 'interfaces'>
  readonly ownPeerId: string
  readonly place: OwnPlace
  readonly links: MemberLinks
  readonly host: () => Libp2p
  readonly isRevoked: (machinePeerId: string) => boolean
  /** A member that may be missing is somewhere else than was known. */
  readonly onNews: () => void
}

/** How long a link may stay silent after this machine's addresses changed, in milliseconds. */
const probeAfterChangeMs = 2_000

/**
 * Where members are and where this process is: addresses that answered, what the local network says, and what follows when
 * this machine moves to another network.
 */
export class Whereabouts {
  readonly #options: WhereaboutsOptions
  readonly #lan: LanDiscovery
  readonly #book: AddressBook
  readonly #own: OwnAddresses
  readonly #surplus: SurplusLinks
  readonly #listeners = new Set<() => void>()
  #hasStarted = false
  #isClosed = false

  constructor(options: WhereaboutsOptions) {
    const { mesh, ownPeerId, host, place, links } = options
    this.#options = options
    this.#lan = new LanDiscovery({
      ...mesh,
      lan: mesh.lan,
      ownPeerId,
      // A command is gone before anyone could dial it.
      listening: () => (mesh.kind === 'cli' ? [] : listenersOf(host())),
      isKnown: (peerId) => this.#isKnown(peerId),
      onHint: () => options.onNews(),
    })
    this.#book = new AddressBook({ ...mesh, hints: this.#lan.hints })
    this.#surplus = new SurplusLinks({ clock: mesh.clock, links, self: () => place.facts })
    this.#own = new OwnAddresses({
      clock: mesh.clock,
      read: () => host().getMultiaddrs(),
      onChange: (addresses) => this.#onMoved(addresses),
      ...(mesh.interfaces === undefined ? {} : { interfaces: mesh.interfaces }),
    })
    links.watchLinks((link) => this.#onLink(link))
    links.watch({ up: () => undefined, down: () => this.#onDown() })
  }

  /** Begins once this process is a member and listens; once. */
  async start(): Promise<void> {
    if (this.#hasStarted || this.#isClosed) return
    this.#hasStarted = true
    await this.#book.load()
    this.#own.start()
    await this.#lan.start()
  }

  /** Where to try a process, best first. @param told - its record's addresses, or those given by a person */
  candidates(peerId: string, told: readonly string[]): readonly Multiaddr[] {
    return this.#book.candidates(peerId, told)
  }

  /** Somebody is missing and about to be dialled: the local network is asked as well. */
  missing(): void {
    this.#lan.ask()
  }

  /** Changes with what is heard of a process. */
  versionOf(peerId: string): number {
    return this.#lan.hints.versionOf(peerId)
  }

  noteFailed(address: Multiaddr, of: { readonly peerId: string; readonly isLie: boolean }): void {
    this.#book.noteFailed(address, of)
  }

  /** Calls back after this process's own addresses changed. */
  watchAddresses(listener: () => void): Unsubscribe {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  lanStatus(): LanStatus {
    return this.#lan.status()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#own.close()
    this.#surplus.close()
    await this.#lan.close()
    await this.#book.close()
  }

  #onLink({ connection, facts }: MemberLink): void {
    // Of a caller the port is unknown; and commands are not there any more when somebody would call back.
    if (connection.direction === 'outbound' && facts.kind !== 'cli')
      this.#book.noteAnswered(facts.peerId, connection.remoteAddr)
    this.#surplus.look(facts.peerId)
  }

  /** Perhaps a link was lost because this machine moved. */
  #onDown(): void {
    if (this.#hasStarted && !this.#isClosed) this.#own.look()
  }

  #onMoved(addresses: readonly Multiaddr[]): void {
    const { place, links, mesh } = this.#options
    // A disk that refuses shows itself elsewhere; links and the local network are told all the same.
    place.announce(addresses).catch(() => undefined)
    this.#lan.refresh()
    for (const listener of [...this.#listeners]) listener()
    for (const link of links.all()) void this.#probe(link, mesh.clock)
  }

  /** A connection from an address that is gone gets no error for minutes. */
  async #probe(link: MemberLink, clock: MeshOptions['clock']): Promise<void> {
    if (await answersWithin(link, { clock, boundMs: probeAfterChangeMs })) return
    link.admission.abort(new Error('silent since the addresses of this machine changed'))
  }

  #isKnown(peerId: string): boolean {
    const { place, isRevoked } = this.#options
    return (place.roster?.entries() ?? []).some(({ membership: { body }, records }) => {
      const isOf = body.machinePeerId === peerId || records.has(peerId)
      return isOf && !isRevoked(body.machinePeerId)
    })
  }
}

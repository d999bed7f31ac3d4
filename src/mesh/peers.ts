import type { Connection, Libp2p } from '@libp2p/interface'
import { NfltrError } from '../core/errors.ts'
import type { Membership, Role } from '../core/membership.ts'
import type { AccountAnswer } from '../core/node-account.ts'
import type { Issuers } from '../identity/envelopes.ts'
import type { Invite } from '../identity/invites.ts'
import type { PrivateKey } from '../identity/keys.ts'
import type { IssuerBook } from '../ports/home.ts'
import type { AnswerAccount, Link, MemberFacts, PeerFacts, PeerListener, Peers, Unsubscribe } from '../ports/peers.ts'
import { askAccount } from './account-exchange.ts'
import { parsePeerAddress } from './addresses.ts'
import { Entering } from './entering.ts'
import { Greeter } from './greeter.ts'
import { startHost } from './host.ts'
import type { IssuerRole } from './join.ts'
import type { JoinWish, Knock, MeshAtAddress } from './join-host.ts'
import type { LanStatus } from './lan-discovery.ts'
import { LinkKeeper } from './link-keeper.ts'
import { LinkReview } from './link-review.ts'
import { askAsMachine } from './machine-asking.ts'
import { MemberLinks } from './member-links.ts'
import { depart, isOut, memberFacts } from './membership.ts'
import { type MeshOptions, processFacts } from './mesh-options.ts'
import { OwnPlace } from './own-place.ts'
import { linkToNode, openSession, serveProtocols } from './protocols.ts'
import { Quarantine } from './quarantine.ts'
import { type RefusalNotice, Refusals } from './refusals.ts'
import { type Asking, Renewal, renewMember, revokeMembers } from './renewal.ts'
import { type KeyChange, type KeyReplaced, replaceMeshKey } from './replacing-key.ts'
import type { RosterEntry } from './roster.ts'
import { type Applied, RosterSpread } from './roster-spread.ts'
import type { ProcessFacts } from './standing.ts'
import {
  addressTarget,
  memberTarget,
  processesToStayWith,
  processTarget,
  reach,
  type TargetOptions,
} from './targets.ts'
import type { Trust, TrustAlarm } from './trust.ts'
import { untilAborted } from './until-aborted.ts'
import { Whereabouts } from './whereabouts.ts'

export type { IssuerRole } from './join.ts'
export type { JoinWish } from './join-host.ts'
export type { LanStatus } from './lan-discovery.ts'
export type { BorrowedKey, MeshOptions } from './mesh-options.ts'
export type { RefusalNotice } from './refusals.ts'
export type { RosterEntry } from './roster.ts'
export type { Applied } from './roster-spread.ts'
export type { Standing } from './standing.ts'
export type { TrustAlarm } from './trust.ts'

/**
 * Starts this process's part of the mesh.
 *
 * @throws {NfltrError} `invalid_argument` for an address that is malformed or cannot be listened on; `bad_signature` when
 *   the standing is not of its mesh
 */
export async function createMesh(options: MeshOptions): Promise<MeshHost> {
  for (const peer of options.peers ?? []) parsePeerAddress(peer)
  const mesh = new MeshHost(options)
  await mesh.start().catch((error: unknown) => mesh.close().then(() => Promise.reject(error)))
  return mesh
}

/** One process's part of the mesh: its host, its links and what it knows of the members. */
export class MeshHost implements Peers {
  readonly #options: MeshOptions
  readonly #process: ProcessFacts
  readonly #refusals = new Refusals()
  readonly #links = new MemberLinks()
  readonly #place: OwnPlace
  readonly #quarantine: Quarantine
  readonly #greeter: Greeter
  readonly #keeper: LinkKeeper
  readonly #spread: RosterSpread
  readonly #entering: Entering
  readonly #review: LinkReview
  readonly #renewal: Renewal
  readonly #whereabouts: Whereabouts
  /** Issuers that are being asked for a membership: no hello is said to them. */
  readonly #asked = new Set<string>()
  readonly #memberWatchers = new Set<() => void>()
  readonly #acceptSession = Promise.withResolvers<(link: Link) => void>()
  readonly #answerAccount = Promise.withResolvers<AnswerAccount>()
  #host: Libp2p | undefined
  #isClosed = false

  constructor(options: MeshOptions) {
    const { clock, random } = options
    this.#options = options
    this.#process = processFacts(options)
    const [links, refusals] = [this.#links, this.#refusals]
    this.#place = new OwnPlace({
      ...options,
      process: this.#process,
      onNews: () => this.#onNews(),
      onTrust: () => this.#onTrust(),
      onRefused: (error) => refusals.addError(error),
    })
    this.#quarantine = new Quarantine({
      clock,
      ownPeerId: this.#process.peerId,
      isMemberHost: (host) => this.#place.isMemberHost(host),
      isLinked: (peerId) => links.newest(peerId) !== undefined,
      onRefusal: (code) => refusals.add(code),
    })
    this.#greeter = new Greeter({
      clock,
      process: this.#process,
      quarantine: this.#quarantine,
      links,
      refusals,
      standing: () => this.#place.standing,
      trust: () => this.#place.trust,
      roster: () => this.#place.roster,
      wallMs: () => this.#place.wallMs(),
      highestEpochSeen: (hubId) => options.highestEpochSeen?.(hubId),
      onProven: async ({ membershipEnvelope: membership }) => {
        await this.#place.roster?.take({ membership, addressRecords: [] }, { seenAtMs: clock.wallMs() })
      },
    })
    this.#keeper = new LinkKeeper({ clock, random })
    this.#spread = new RosterSpread({ clock, links, refusals, place: this.#place })
    this.#review = new LinkReview({ clock, links, refusals, place: this.#place, quarantine: this.#quarantine })
    this.#entering = new Entering({
      mesh: options,
      process: this.#process,
      place: this.#place,
      greeter: this.#greeter,
      host: () => this.#libp2p(),
      settle: () => this.#settle(),
      learnt: () => this.#spread.settled(),
    })
    this.#renewal = new Renewal({
      ...options,
      place: this.#place,
      links,
      refusals,
      issuer: options.issuer,
      certify: options.certify,
      ask: this.#asker(),
      onAsking: (issuerPeerId) => {
        this.#asked.add(issuerPeerId)
        return () => this.#asked.delete(issuerPeerId)
      },
    })
    this.#whereabouts = new Whereabouts({
      mesh: options,
      ownPeerId: this.#process.peerId,
      place: this.#place,
      links,
      host: () => this.#libp2p(),
      isRevoked: (machinePeerId) => this.#isRevoked(machinePeerId),
      onNews: () => this.#keeper.review(),
    })
    links.watch({ up: (peer) => this.#onUp(peer), down: (peer) => this.#onDown(peer) })
  }

  /** Called once, by `createMesh`. */
  async start(): Promise<void> {
    const { key, kind, listen, standing, clock } = this.#options
    // Before anybody can connect: a member that is asked for hello must be able to say it.
    if (standing !== undefined) await this.#place.take(standing)
    const prepare = (host: Libp2p): Promise<void> => this.#prepare(host)
    this.#host = await startHost({ key, kind, listen, clock, quarantine: this.#quarantine, prepare })
    await this.#settle()
  }

  get self(): PeerFacts {
    return this.#place.facts
  }

  connected(): readonly PeerFacts[] {
    return this.#links.connected()
  }

  watch(listener: PeerListener): Unsubscribe {
    return this.#links.watch(listener)
  }

  members(): readonly MemberFacts[] {
    return memberFacts(this.#place)
  }

  watchMembers(listener: () => void): Unsubscribe {
    this.#memberWatchers.add(listener)
    return () => {
      this.#memberWatchers.delete(listener)
    }
  }

  async openSession(peerId: string, options: { readonly signal: AbortSignal }): Promise<Link> {
    const { clock } = this.#options
    return await openSession(peerId, { links: this.#links, self: this.self, clock, refusals: this.#refusals }, options)
  }

  serveSessions(accept: (link: Link) => void): void {
    this.#acceptSession.resolve(accept)
  }

  async askAccount(peerId: string, { after }: { readonly after?: string }): Promise<AccountAnswer> {
    const link = linkToNode(peerId, { links: this.#links, self: this.self })
    return await askAccount({ clock: this.#options.clock, link, refusals: this.#refusals }, after)
  }

  serveAccounts(answer: AnswerAccount): void {
    this.#answerAccount.resolve(answer)
  }

  want(machinePeerId: string): void {
    if (machinePeerId === this.self.machinePeerId && this.#process.kind === 'node') return
    if (this.#isRevoked(machinePeerId)) return
    this.#keeper.want(memberTarget(machinePeerId, this.#targetOptions()))
  }

  /** Stays connected with whoever is at an address. @throws {NfltrError} `invalid_argument` */
  wantAddress(address: string): void {
    this.#keeper.want(addressTarget(address, this.#targetOptions()))
  }

  /** Why a wanted machine or address is not connected, where an attempt failed; names the addresses tried. */
  whyNotConnected(target: string): NfltrError | undefined {
    return this.#keeper.lastErrorOf(target)
  }

  /**
   * Dials an address once and waits for hello.
   *
   * @throws {NfltrError} `unreachable` with `details.addresses`, or why one side refused the other
   */
  async connect(address: string, options: { readonly signal: AbortSignal }): Promise<PeerFacts> {
    const link = await reach(this.#targetOptions(), [parsePeerAddress(address)], options.signal)
    return link.facts
  }

  async probe(peerId: string, options: { readonly signal: AbortSignal }): Promise<number> {
    const rttMs = await untilAborted(this.#links.required(peerId).admission.ping(), options.signal)
    if (rttMs === undefined) throw new NfltrError('link_down', 'The connection ended before the peer answered.')
    return rttMs
  }

  /**
   * Makes this machine a member. Its membership is in the home, and this process a full part of the mesh, when it resolves;
   * hello with the issuer has been said where the issuer was still there.
   *
   * @throws {NfltrError} `already_exists` when it is a member; otherwise as the issuer refuses, or `unreachable`
   */
  join(invite: Invite, wish: JoinWish): Promise<Membership> {
    return this.#entering.join(invite, wish)
  }

  /**
   * Asks an issuer, without an invite, to be let in; otherwise as `join`.
   *
   * @throws {NfltrError} `knock_pending` while no owner has answered: ask again; `knock_denied`; `wrong_mesh`; `unreachable`
   */
  knock(knock: Knock): Promise<Membership> {
    return this.#entering.knock(knock)
  }

  /** The mesh whose issuer proves itself at an address. @throws {NfltrError} `unreachable`, or why it is none */
  meshAt(at: MeshAtAddress): Promise<string> {
    return this.#entering.meshAt(at)
  }

  /** Where this process listens, as others can reach it, with its PeerId. */
  listenAddresses(): readonly string[] {
    return this.#libp2p()
      .getMultiaddrs()
      .map((address) => address.toString())
  }

  /** Calls back after `listenAddresses` changed, because this machine moved. */
  watchAddresses(listener: () => void): Unsubscribe {
    return this.#whereabouts.watchAddresses(listener)
  }

  /** Whether members on the local network are found, and why not. */
  lanStatus(): LanStatus {
    return this.#whereabouts.lanStatus()
  }

  /** Ends every connection to a peer at once; who wants it dials again. */
  dropConnections(peerId: string): void {
    for (const link of this.#links.linksOf(peerId)) link.admission.abort(new Error('dropped'))
  }

  /** What the roster has of every member, revoked ones too. */
  directory(): readonly RosterEntry[] {
    return this.#place.roster?.entries() ?? []
  }

  /** Who may sign now, for whoever opens an envelope beside this process. @throws {NfltrError} `no_mesh` */
  issuers(): Issuers {
    return this.#trust().issuers()
  }

  /**
   * Voids every membership that these machines have so far. Holds here, and is on disk, when it resolves.
   *
   * @returns the version of this issuer's list
   * @throws {NfltrError} `no_mesh`, `revoked` where this issuer may sign no more
   */
  async revoke(role: IssuerRole, machinePeerIds: readonly string[]): Promise<number> {
    return await revokeMembers(this.#place, role, machinePeerIds)
  }

  /** Puts another key in the place of the mesh key. @throws {NfltrError} as `replaceMeshKey` */
  async replaceKey(book: IssuerBook, keys: KeyChange): Promise<KeyReplaced> {
    return await replaceMeshKey(this.#place, book, keys)
  }

  /**
   * Gives this machine's membership up, for good. Holds, and is on disk, when it resolves; members that are connected are told
   * from then on, and `appliedBy` says who has heard.
   *
   * @returns the serial up to which its memberships are void
   * @throws {NfltrError} `no_mesh`
   */
  async depart(machineKey: PrivateKey): Promise<number> {
    return await depart(this.#place, machineKey)
  }

  /**
   * Signs a new term for a member, or other roles, and spreads it: the member takes it from the first member it meets.
   *
   * @throws {NfltrError} `not_found`; `revoked`, `name_taken`, `membership_expired`
   */
  async renew(
    role: IssuerRole,
    member: { readonly machinePeerId: string; readonly roles?: readonly Role[] },
  ): Promise<Membership> {
    const known = this.#place.roster?.entryOf(member.machinePeerId)?.membership.body
    if (known === undefined) throw new NfltrError('not_found', 'No such member is known here.')
    return await renewMember(this.#place, role, {
      membership: known,
      ...(member.roles === undefined ? {} : { roles: member.roles }),
    })
  }

  /** What a connected process last said it has applied; undefined before its first word. */
  appliedBy(peerId: string): Applied | undefined {
    return this.#spread.appliedBy(peerId)
  }

  /** Issuers that are believed no more, because they published two lists of one version. */
  alarms(): readonly TrustAlarm[] {
    return this.#place.trust?.alarms() ?? []
  }

  /** What refused hellos said, of the last ones: who was not let in here, or why this process was not. */
  refusalNotices(): readonly RefusalNotice[] {
    return this.#refusals.notices()
  }

  /** What was refused since the start, by code. */
  refusals(): Readonly<Record<string, number>> {
    return this.#refusals.counts()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#keeper.close()
    this.#review.close()
    await this.#renewal.close()
    await this.#whereabouts.close()
    this.#spread.close()
    await this.#host?.stop()
    await this.#place.close()
  }

  /** Puts this process into the roster, and begins to keep its links. */
  async #settle(): Promise<void> {
    if (this.#place.standing === undefined) return
    await this.#place.announce(this.#libp2p().getMultiaddrs())
    await this.#whereabouts.start()
    for (const peer of this.#options.peers ?? []) this.wantAddress(peer)
    this.#wantOthers()
    this.#renewal.start()
  }

  /** Stays in touch with whoever does not look for this process, and from whom it hears who is a member. */
  #wantOthers(): void {
    const { roster } = this.#place
    if (this.#host === undefined || roster === undefined) return
    for (const process of processesToStayWith(roster.entries(), this.self)) {
      if (this.#isRevoked(process.machinePeerId) || this.#keeper.has(process.peerId)) continue
      this.#keeper.want(processTarget(process, this.#targetOptions()))
    }
  }

  async #prepare(host: Libp2p): Promise<void> {
    host.addEventListener('connection:open', ({ detail }) => this.#onOpen(detail))
    await serveProtocols({
      host,
      clock: this.#options.clock,
      random: this.#options.random,
      quarantine: this.#quarantine,
      greeter: this.#greeter,
      refusals: this.#refusals,
      place: this.#place,
      spread: this.#spread,
      issuer: this.#options.issuer,
      acceptSession: this.#acceptSession.promise,
      answerAccount: this.#answerAccount.promise,
    })
  }

  /** A node has the machine's key as its own; a hub borrows it while nobody else has it. */
  #asker(): (() => Promise<Asking | undefined>) | undefined {
    const { kind, borrowMachineKey } = this.#options
    if (kind === 'node') {
      return async () => ({ host: this.#libp2p(), options: this.#entering.options(), close: async () => undefined })
    }
    if (borrowMachineKey === undefined) return undefined
    return async () => {
      const borrowed = await borrowMachineKey()
      return borrowed === undefined ? undefined : await askAsMachine(borrowed, this.#options)
    }
  }

  #onOpen(connection: Connection): void {
    this.#quarantine.admissionOf(connection)
    connection.addEventListener('close', () => {
      // libp2p remembers for hours whoever ever opened a stream; the roster is all the memory that is wanted here.
      const isLast = (this.#host?.getConnections(connection.remotePeer) ?? []).every(({ id }) => id === connection.id)
      if (isLast) this.#host?.peerStore.delete(connection.remotePeer).catch(() => {})
    })
    if (connection.direction !== 'outbound' || this.#place.standing === undefined) return
    if (this.#asked.has(connection.remotePeer.toString())) return
    this.#greeter.greet(connection).catch(() => {})
  }

  #onUp(peer: PeerFacts): void {
    this.#keeper.review()
    // Whatever changed since the verdict of hello; and its term has an end.
    this.#review.run()
    const link = this.#links.newest(peer.peerId)
    if (link === undefined) return
    this.#place.noteMemberAt(link.connection.remoteAddr)
    if (link.connection.direction === 'outbound') this.#spread.begin(peer.peerId)
    if (this.#options.issuer !== undefined) this.#renewal.look()
  }

  #onDown(peer: PeerFacts): void {
    this.#keeper.review()
    this.#place.noteSeen(peer.machinePeerId)
  }

  #onNews(): void {
    for (const listener of [...this.#memberWatchers]) listener()
    this.#wantOthers()
    this.#review.run()
    this.#keeper.review()
    this.#spread.announce()
  }

  /** Nothing is done for a member that was revoked, and nobody looks for it any more. */
  #onTrust(): void {
    for (const { membership, records } of this.#place.roster?.entries() ?? []) {
      const { machinePeerId } = membership.body
      if (!this.#isRevoked(machinePeerId)) continue
      for (const key of [machinePeerId, ...records.keys()]) this.#keeper.unwant(key)
    }
    this.#onNews()
  }

  #isRevoked(machinePeerId: string): boolean {
    return isOut(this.#place, machinePeerId)
  }

  #targetOptions(): TargetOptions {
    return {
      host: this.#libp2p(),
      clock: this.#options.clock,
      greeter: this.#greeter,
      links: this.#links,
      roster: () => this.#place.roster,
      whereabouts: this.#whereabouts,
      ownKind: this.#process.kind,
      isTermLeft: () => this.#place.isTermLeft,
    }
  }

  #trust(): Trust {
    const { trust } = this.#place
    if (trust === undefined) throw new NfltrError('no_mesh', 'This machine belongs to no mesh.')
    return trust
  }

  #libp2p(): Libp2p {
    if (this.#host === undefined) throw new NfltrError('not_running', 'The mesh has not been started.')
    return this.#host
  }
}

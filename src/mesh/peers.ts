import type { Connection, Libp2p, Stream } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Membership, PeerKind } from '../core/membership.ts'
import { signAddressRecord } from '../identity/envelopes.ts'
import type { Invite } from '../identity/invites.ts'
import { type PrivateKey, peerIdOf } from '../identity/keys.ts'
import type { Clock } from '../ports/clock.ts'
import type { MeshFiles } from '../ports/home.ts'
import type { Link, MemberFacts, PeerFacts, PeerListener, Peers, Unsubscribe } from '../ports/peers.ts'
import type { Random } from '../ports/random.ts'
import { hostOf, parsePeerAddress, withoutPeerId } from './addresses.ts'
import { FrameStream } from './frame-stream.ts'
import { type GateOptions, serveMembers, serveStrangers } from './gate.ts'
import { Greeter } from './greeter.ts'
import { helloProtocol } from './hello.ts'
import { startHost } from './host.ts'
import { type IssuerRole, issueMembership, joinProtocol } from './join.ts'
import { type JoinWish, joinMesh } from './join-host.ts'
import { LinkKeeper } from './link-keeper.ts'
import { type MemberLink, MemberLinks } from './member-links.ts'
import { Quarantine } from './quarantine.ts'
import { Refusals } from './refusals.ts'
import { Roster } from './roster.ts'
import { rosterProtocol } from './roster-exchange.ts'
import { RosterSpread } from './roster-spread.ts'
import { objectionToSession, SessionLink, sessionProtocol } from './session-streams.ts'
import { type OwnStanding, openersFor, openStanding, type ProcessFacts, type Standing } from './standing.ts'
import { addressTarget, memberTarget, reach, type TargetOptions } from './targets.ts'

export type { IssuerRole } from './join.ts'
export type { JoinWish } from './join-host.ts'
export type { Standing } from './standing.ts'

export interface MeshOptions {
  /** The transport key of this process: the machine's for a node and a joiner, a key of its own for all others. */
  readonly key: PrivateKey
  readonly kind: PeerKind
  readonly hubId?: string
  /** Absent for a machine that has yet to join: then nothing works but `join`. */
  readonly standing?: Standing
  readonly files: MeshFiles
  readonly clock: Clock
  readonly random: Random
  readonly softwareVersion: string
  /** Multiaddrs to listen on; absent: the port of the kind, or the next free one, on every interface. */
  readonly listen?: readonly string[]
  /** Addresses of peers to stay connected with, from `--peer`; with or without `/p2p/…`. */
  readonly peers?: readonly string[]
  /** Set for the process that holds the issuer's lock: it answers joiners. */
  readonly issuer?: IssuerRole
  /** On a node: the highest epoch seen of a hub, told to that hub in hello (rule 7). */
  readonly highestEpochSeen?: (hubId: string) => number | undefined
}

/**
 * Starts this process's part of the mesh.
 *
 * @throws {NfltrError} `invalid_argument` for an address that is malformed or cannot be listened on; `bad_signature` when
 *   the standing is not of its mesh
 */
export async function createMesh(options: MeshOptions): Promise<MeshHost> {
  for (const peer of options.peers ?? []) parsePeerAddress(peer)
  const mesh = new MeshHost(options)
  await mesh.start()
  return mesh
}

/** One process's part of the mesh: its host, its links and what it knows of the members. */
export class MeshHost implements Peers {
  readonly #options: MeshOptions
  readonly #process: ProcessFacts
  readonly #refusals = new Refusals()
  readonly #links = new MemberLinks()
  readonly #quarantine: Quarantine
  readonly #greeter: Greeter
  readonly #keeper: LinkKeeper
  readonly #spread: RosterSpread
  readonly #memberWatchers = new Set<() => void>()
  readonly #acceptSession = Promise.withResolvers<(link: Link) => void>()
  /** IP addresses at which members are or were. */
  readonly #memberHosts = new Set<string>()
  #host: Libp2p | undefined
  #standing: OwnStanding | undefined
  #roster: Roster | undefined
  #seenMs = 0
  #seenWrite: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(options: MeshOptions) {
    const { clock, random } = options
    this.#options = options
    this.#process = {
      peerId: peerIdOf(options.key),
      kind: options.kind,
      ...(options.hubId === undefined ? {} : { hubId: options.hubId }),
      softwareVersion: options.softwareVersion,
      incarnation: Buffer.from(random.bytes(16)).toString('hex'),
    }
    this.#quarantine = new Quarantine({
      clock,
      ownPeerId: this.#process.peerId,
      isMemberHost: (host) => this.#memberHosts.has(host),
      onRefusal: (code) => this.#refusals.add(code),
    })
    this.#greeter = new Greeter({
      clock,
      process: this.#process,
      quarantine: this.#quarantine,
      links: this.#links,
      refusals: this.#refusals,
      standing: () => this.#standing,
      wallMs: () => this.#wallMs(),
      highestEpochSeen: (hubId) => options.highestEpochSeen?.(hubId),
      onProven: async (peer) => {
        await this.#roster?.take(
          { membership: peer.membershipEnvelope, addressRecords: [] },
          { seenAtMs: clock.wallMs() },
        )
      },
    })
    this.#keeper = new LinkKeeper({ clock, random })
    this.#spread = new RosterSpread({
      clock,
      links: this.#links,
      refusals: this.#refusals,
      roster: () => this.#roster,
    })
    this.#links.watch({ up: (peer) => this.#onUp(peer), down: (peer) => this.#onDown(peer) })
  }

  /** Called once, by `createMesh`. */
  async start(): Promise<void> {
    const options = this.#options
    this.#seenMs = await options.files.seenTimeMs()
    if (options.standing !== undefined) await this.#become(options.standing)
    this.#host = await startHost({
      key: options.key,
      kind: options.kind,
      listen: options.listen,
      quarantine: this.#quarantine,
      prepare: (host) => this.#prepare(host),
    })
    if (this.#standing !== undefined) await this.#settle()
  }

  get self(): PeerFacts {
    const body = this.#standing?.body
    return {
      peerId: this.#process.peerId,
      machinePeerId: body?.machinePeerId ?? this.#process.peerId,
      name: body?.name ?? '',
      kind: this.#process.kind,
      roles: body?.roles ?? [],
      ...(this.#process.hubId === undefined ? {} : { hubId: this.#process.hubId }),
      softwareVersion: this.#process.softwareVersion,
      path: 'lan',
    }
  }

  connected(): readonly PeerFacts[] {
    return this.#links.connected()
  }

  watch(listener: PeerListener): Unsubscribe {
    return this.#links.watch(listener)
  }

  members(): readonly MemberFacts[] {
    return this.#roster?.members() ?? []
  }

  watchMembers(listener: () => void): Unsubscribe {
    this.#memberWatchers.add(listener)
    return () => {
      this.#memberWatchers.delete(listener)
    }
  }

  async openSession(peerId: string, options: { readonly signal: AbortSignal }): Promise<Link> {
    const link = this.#links.newest(peerId)
    if (link === undefined) throw new NfltrError('link_down', 'No connection to the peer is up.')
    const objection = objectionToSession(this.self, link.facts)
    if (objection !== undefined) throw objection
    try {
      return this.#sessionLink(await link.connection.newStream(sessionProtocol, { signal: options.signal }), link)
    } catch (cause) {
      throw new NfltrError('link_down', `No session with ${link.facts.name} could be opened.`, { cause })
    }
  }

  serveSessions(accept: (link: Link) => void): void {
    this.#acceptSession.resolve(accept)
  }

  want(machinePeerId: string): void {
    if (machinePeerId === this.self.machinePeerId && this.#process.kind === 'node') return
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
    const link = this.#links.newest(peerId)
    if (link === undefined) throw new NfltrError('link_down', 'No connection to the peer is up.')
    const rttMs = await untilAborted(link.admission.ping(), options.signal)
    if (rttMs === undefined) throw new NfltrError('link_down', 'The connection ended before the peer answered.')
    return rttMs
  }

  /**
   * Makes this machine a member. Its membership is in the home, and this process a full part of the mesh, when it resolves;
   * hello with the issuer has been said where the issuer was still there.
   *
   * @throws {NfltrError} `already_exists` when it is a member; otherwise as the issuer refuses, or `unreachable`
   */
  async join(invite: Invite, wish: JoinWish): Promise<Membership> {
    if (this.#standing !== undefined) {
      throw new NfltrError(
        'already_exists',
        `This machine is already a member of a mesh, as ${this.#standing.body.name}.`,
      )
    }
    const { clock, random, files, softwareVersion } = this.#options
    const { own, connection } = await joinMesh(invite, wish, {
      host: this.#libp2p(),
      clock,
      random,
      ownPeerId: this.#process.peerId,
      softwareVersion,
      signAddresses: (meshId) => this.#signAddresses(meshId),
    })
    const { body, ...kept } = own
    await files.saveMembership(kept)
    await this.#become({ meshId: kept.meshId, membership: kept.membership })
    if (own.issuerMembership !== undefined) {
      await this.#roster?.take({ membership: own.issuerMembership, addressRecords: [] })
    }
    await this.#settle()
    // The membership holds whether or not the issuer is still there to be greeted.
    await this.#greeter.greet(connection).catch(() => {})
    return body
  }

  /** Where this process listens, as others can reach it, with its PeerId. */
  listenAddresses(): readonly string[] {
    return this.#libp2p()
      .getMultiaddrs()
      .map((address) => address.toString())
  }

  /** Ends every connection to a peer at once; who wants it dials again. */
  dropConnections(peerId: string): void {
    for (const link of this.#links.linksOf(peerId)) link.admission.abort(new Error('dropped'))
  }

  /** What was refused since the start, by code. */
  refusals(): Readonly<Record<string, number>> {
    return this.#refusals.counts()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#keeper.close()
    this.#spread.close()
    await this.#host?.stop()
    await this.#roster?.close()
    await this.#seenWrite
  }

  /** Takes a standing: from here on hello can be said. */
  async #become(standing: Standing): Promise<void> {
    const own = await openStanding(standing)
    this.#roster = await Roster.load(this.#options.files, openersFor(standing.meshId))
    this.#roster.watch(() => this.#onRosterNews())
    this.#standing = own
    this.#onRosterNews()
  }

  /** Puts this process into the roster, and begins to keep its links. */
  async #settle(): Promise<void> {
    const standing = this.#standing
    if (standing === undefined) return
    const isLasting = this.#process.kind !== 'cli'
    await this.#roster?.take(
      {
        membership: standing.membership,
        addressRecords: isLasting ? [await this.#signAddresses(standing.meshId)] : [],
      },
      { vouched: this.#process.peerId, seenAtMs: this.#options.clock.wallMs() },
    )
    for (const peer of this.#options.peers ?? []) this.wantAddress(peer)
  }

  async #prepare(host: Libp2p): Promise<void> {
    const gate: GateOptions = {
      host,
      quarantine: this.#quarantine,
      greeter: this.#greeter,
      refusals: this.#refusals,
    }
    host.addEventListener('connection:open', ({ detail }) => this.#onOpen(detail))
    await serveStrangers(gate, helloProtocol, async (stream, connection) => {
      // What came of it is counted by the greeter; a refusal is not a fault of the handler.
      await this.#greeter.answer(connection, stream).catch(() => {})
    })
    await serveMembers(gate, rosterProtocol, (stream, link) => this.#spread.answer(link, stream))
    if (this.#process.kind === 'node') {
      await serveMembers(gate, sessionProtocol, (stream, link) => this.#onSession(stream, link))
    }
    const { issuer } = this.#options
    if (issuer !== undefined) {
      await serveStrangers(gate, joinProtocol, (stream, connection) => this.#onJoiner(stream, connection, issuer))
    }
  }

  #onOpen(connection: Connection): void {
    this.#quarantine.admissionOf(connection)
    if (connection.direction !== 'outbound' || this.#standing === undefined) return
    this.#greeter.greet(connection).catch(() => {})
  }

  async #onSession(stream: Stream, link: MemberLink): Promise<void> {
    const objection = objectionToSession(link.facts, this.self)
    if (objection !== undefined) throw objection
    const accept = await this.#acceptSession.promise
    accept(this.#sessionLink(stream, link))
  }

  async #onJoiner(stream: Stream, connection: Connection, role: IssuerRole): Promise<void> {
    const [standing, roster] = [this.#standing, this.#roster]
    if (standing === undefined || roster === undefined) {
      throw new NfltrError('no_issuer', 'This process cannot issue: it has no membership.')
    }
    const frames = new FrameStream(stream, { clock: this.#options.clock, frameMaxBytes: limits.helloMaxBytes })
    await issueMembership(frames, {
      role,
      standing,
      roster,
      issuerPeerId: this.#process.peerId,
      joinerPeerId: connection.remotePeer.toString(),
      random: this.#options.random,
      wallMs: () => this.#options.clock.wallMs(),
    })
  }

  #onUp(peer: PeerFacts): void {
    this.#keeper.review()
    const link = this.#links.newest(peer.peerId)
    if (link === undefined) return
    this.#noteHost(link.connection.remoteAddr)
    if (link.connection.direction === 'outbound') this.#spread.begin(peer.peerId)
  }

  #onDown(peer: PeerFacts): void {
    this.#keeper.review()
    // When it was last seen is a courtesy: a disk that refuses it shows itself elsewhere.
    this.#roster?.seen(peer.machinePeerId, this.#options.clock.wallMs()).catch(() => {})
  }

  #onRosterNews(): void {
    const roster = this.#roster
    if (roster === undefined) return
    this.#raiseSeen(roster.newestIssueMs())
    for (const entry of roster.entries()) {
      if (entry.membership.body.machinePeerId === this.self.machinePeerId) continue
      for (const { body } of entry.records.values()) {
        for (const address of body.addresses) this.#noteHost(parseQuietly(address))
      }
    }
    for (const listener of [...this.#memberWatchers]) listener()
    this.#keeper.review()
    this.#spread.announce()
  }

  #noteHost(address: Multiaddr | undefined): void {
    const host = address === undefined ? undefined : hostOf(address)
    if (host !== undefined && this.#memberHosts.size < memberHostsMax) this.#memberHosts.add(host)
  }

  #sessionLink(stream: Stream, link: MemberLink): Link {
    const onViolation = (code: NfltrError['code']): void => this.#refusals.add(code)
    const frames = new FrameStream(stream, {
      clock: this.#options.clock,
      frameMaxBytes: limits.sessionFrameMaxBytes,
      onViolation: (error) => onViolation(error.code),
    })
    return new SessionLink(frames, { peer: link.facts, onViolation })
  }

  async #signAddresses(meshId: string): Promise<Uint8Array> {
    const { peerId, kind, hubId } = this.#process
    const known = this.#roster?.entryOf(this.self.machinePeerId)?.records.get(peerId)?.body.seq ?? 0
    return signAddressRecord(this.#options.key, {
      meshId,
      peerId,
      kind,
      ...(hubId === undefined ? {} : { hubId }),
      addresses: this.#libp2p().getMultiaddrs().map(withoutPeerId),
      relays: [],
      // Wall time, so that a home that was lost and set up anew goes on above what others remember.
      seq: Math.max(known + 1, this.#options.clock.wallMs()),
    })
  }

  #targetOptions(): TargetOptions {
    return {
      host: this.#libp2p(),
      greeter: this.#greeter,
      links: this.#links,
      roster: () => this.#roster,
      ownKind: this.#process.kind,
    }
  }

  #wallMs(): number {
    return Math.max(this.#options.clock.wallMs(), this.#seenMs)
  }

  #raiseSeen(issuedAtMs: number): void {
    if (issuedAtMs <= this.#seenMs) return
    this.#seenMs = issuedAtMs
    // A disk that refuses shows itself elsewhere; this is written again with the next newer membership.
    this.#seenWrite = this.#options.files.raiseSeenTime(issuedAtMs).catch(() => {})
  }

  #libp2p(): Libp2p {
    if (this.#host === undefined) throw new NfltrError('not_running', 'The mesh has not been started.')
    return this.#host
  }
}

/** Addresses of members that have a share of the half-open places. */
const memberHostsMax = 4096

function parseQuietly(address: string): Multiaddr | undefined {
  try {
    return parsePeerAddress(address)
  } catch {
    return undefined
  }
}

function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(new NfltrError('timed_out', 'The peer did not answer in time.'))
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

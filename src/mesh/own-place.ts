import type { Multiaddr } from '@multiformats/multiaddr'
import type { NfltrError } from '../core/errors.ts'
import { isDueForRenewal, isWithin, type Membership, type ProcessCertificate } from '../core/membership.ts'
import { openProcessCertificate, signAddressRecord } from '../identity/envelopes.ts'
import type { PrivateKey } from '../identity/keys.ts'
import type { Clock } from '../ports/clock.ts'
import type { MeshFiles } from '../ports/home.ts'
import type { PeerFacts } from '../ports/peers.ts'
import { hostOf, parsePeerAddress, withoutPeerId } from './addresses.ts'
import { OwnFiles } from './own-files.ts'
import { Roster, type Signed } from './roster.ts'
import { type OwnStanding, openersFor, openStanding, type ProcessFacts, type Standing } from './standing.ts'
import { Trust } from './trust.ts'

export interface OwnPlaceOptions {
  readonly key: PrivateKey
  readonly process: ProcessFacts
  readonly files: MeshFiles
  readonly clock: Clock
  /** The roster changed, or there is one now. */
  readonly onNews: () => void
  /** What was revoked or who may issue changed. */
  readonly onTrust: () => void
  readonly onRefused: (error: NfltrError) => void
}

/** IP addresses of members that are remembered as such. */
const memberHostsMax = 4096

/** What this process is in the mesh and what it knows of the members: its standing, the roster, the newest issue time. */
export class OwnPlace {
  readonly #options: OwnPlaceOptions
  readonly #home: OwnFiles
  /** IP addresses at which members are or were: those keep a share of the half-open places. */
  readonly #memberHosts = new Set<string>()
  #standing: OwnStanding | undefined
  #roster: Roster | undefined
  #trust: Trust | undefined
  #certificate: ProcessCertificate | undefined
  /** Where this process listens, once it has said so. */
  #listening: readonly Multiaddr[] | undefined
  #seenMs = 0

  constructor(options: OwnPlaceOptions) {
    this.#options = options
    this.#home = new OwnFiles(options.files)
  }

  get standing(): OwnStanding | undefined {
    return this.#standing
  }

  get roster(): Roster | undefined {
    return this.#roster
  }

  get trust(): Trust | undefined {
    return this.#trust
  }

  get facts(): PeerFacts {
    const { peerId, kind, hubId, softwareVersion } = this.#options.process
    const body = this.#standing?.body
    return {
      peerId,
      machinePeerId: body?.machinePeerId ?? peerId,
      name: body?.name ?? '',
      kind,
      roles: body?.roles ?? [],
      ...(hubId === undefined ? {} : { hubId }),
      softwareVersion,
      path: 'lan',
    }
  }

  /** The wall clock, never before the newest issue time that a valid signature named (rule 16). */
  wallMs(): number {
    return Math.max(this.#options.clock.wallMs(), this.#seenMs)
  }

  /** Whether this machine's membership holds now, as far as its term goes. */
  get isTermLeft(): boolean {
    return this.#standing !== undefined && isWithin(this.#standing.body, this.wallMs())
  }

  isMemberHost(host: string): boolean {
    return this.#memberHosts.has(host)
  }

  noteMemberAt(address: Multiaddr | undefined): void {
    const host = address === undefined ? undefined : hostOf(address)
    if (host !== undefined && this.#memberHosts.size < memberHostsMax) this.#memberHosts.add(host)
  }

  /**
   * Takes a standing, and with it the roster of the home.
   *
   * @throws {NfltrError} `bad_signature` when the membership is not of its mesh
   */
  async take(standing: Standing): Promise<void> {
    const { files } = this.#home
    const { onTrust, onRefused } = this.#options
    const { meshId, certificates = [], successions = [] } = standing
    const trust = this.#trust ?? (await Trust.load({ meshId, files, onNews: onTrust, onRefused }))
    this.#trust = trust
    await trust.takeSuccessions(successions)
    await trust.takeCertificates(certificates)
    const own = await openStanding(standing, trust)
    this.#seenMs = Math.max(this.#seenMs, await files.seenTimeMs())
    this.#roster = await Roster.load(files, openersFor(meshId, trust))
    this.#roster.watch(() => this.#onNews())
    this.#standing = own
    await this.#noteCertificate()
    this.#onNews()
  }

  /**
   * Takes a newer membership of this machine, whoever brought it, and keeps it.
   *
   * @returns whether it was newer
   */
  async adopt(membership: Signed<Membership>): Promise<boolean> {
    const own = this.#standing
    if (own === undefined || membership.body.machinePeerId !== own.body.machinePeerId) return false
    if (membership.body.serial <= own.body.serial || this.#trust?.objectionTo(membership.body) !== undefined)
      return false
    const { body, envelope } = membership
    this.#standing = { ...own, membership: envelope, body }
    const kept = await this.#home.files.loadMembership()
    if (kept !== undefined) await this.#home.files.saveMembership({ ...kept, membership: envelope })
    await this.#roster?.take({ membership: envelope, addressRecords: [] })
    const { peerId } = this.#options.process
    const isAnnounced = this.#roster?.entryOf(body.machinePeerId)?.records.has(peerId) === true
    if (this.#listening !== undefined && !isAnnounced) await this.announce(this.#listening)
    return true
  }

  /** Whether this process's certificate is in the last third of its term. */
  isCertificateDue(): boolean {
    return this.#certificate !== undefined && isDueForRenewal(this.#certificate, this.wallMs())
  }

  async setCertificate(envelope: Uint8Array): Promise<void> {
    if (this.#standing === undefined) return
    this.#standing = { ...this.#standing, certificate: envelope }
    await this.#noteCertificate()
  }

  async #noteCertificate(): Promise<void> {
    const { certificate, body } = this.#standing ?? {}
    if (certificate === undefined || body === undefined) return
    this.#certificate = await openProcessCertificate(certificate, { machinePeerId: body.machinePeerId })
  }

  /** Puts this process into the roster, with where it listens; a command that is about to end leaves no addresses. */
  async announce(listening: readonly Multiaddr[]): Promise<void> {
    const standing = this.#standing
    this.#listening = listening
    // What a revoked owner signed goes into no roster; the membership that takes its place brings the addresses with it.
    if (standing === undefined || this.#trust?.isIssuer(standing.body.issuerId) !== true) return
    const { clock, process } = this.#options
    const isLasting = process.kind !== 'cli'
    const addressRecords = isLasting ? [await this.signAddresses(standing.meshId, listening)] : []
    await this.#roster?.take(
      { membership: standing.membership, addressRecords },
      { vouched: process.peerId, seenAtMs: clock.wallMs() },
    )
  }

  signAddresses(meshId: string, listening: readonly Multiaddr[]): Promise<Uint8Array> {
    const { peerId, kind, hubId } = this.#options.process
    const known = this.#roster?.entryOf(this.facts.machinePeerId)?.records.get(peerId)?.body.seq ?? 0
    return signAddressRecord(this.#options.key, {
      meshId,
      peerId,
      kind,
      ...(hubId === undefined ? {} : { hubId }),
      addresses: listening.map(withoutPeerId),
      relays: [],
      // Wall time, so that a home that was lost and set up anew goes on above what others remember.
      seq: Math.max(known + 1, this.#options.clock.wallMs()),
    })
  }

  /** When a member was last seen is a courtesy: a disk that refuses it shows itself elsewhere. */
  noteSeen(machinePeerId: string): void {
    this.#roster?.seen(machinePeerId, this.#options.clock.wallMs()).catch(() => {})
  }

  /** Resolves once what was learnt is on disk. */
  async close(): Promise<void> {
    this.#trust?.close()
    await this.#roster?.close()
    await this.#home.close()
  }

  #onNews(): void {
    const roster = this.#roster
    if (roster === undefined) return
    this.#raiseSeen(roster.newestIssueMs())
    const own = roster.entryOf(this.facts.machinePeerId)?.membership
    // A disk that refuses shows itself elsewhere; the roster has it still at the next change.
    if (own !== undefined) this.adopt(own).catch(() => {})
    for (const entry of roster.entries()) {
      // Strangers on this very machine are strangers.
      if (entry.membership.body.machinePeerId === this.facts.machinePeerId) continue
      for (const { body } of entry.records.values()) {
        for (const address of body.addresses) this.noteMemberAt(parseQuietly(address))
      }
    }
    this.#options.onNews()
  }

  #raiseSeen(issuedAtMs: number): void {
    if (issuedAtMs <= this.#seenMs) return
    this.#seenMs = issuedAtMs
    // A disk that refuses shows itself elsewhere; the next newer membership is another chance.
    this.#home.files.raiseSeenTime(issuedAtMs).catch(() => {})
  }
}

function parseQuietly(address: string): Multiaddr | undefined {
  try {
    return parsePeerAddress(address)
  } catch {
    return undefined
  }
}

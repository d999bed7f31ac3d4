import type { Connection, Libp2p } from '@libp2p/interface'
import { NfltrError } from '../core/errors.ts'
import { isDueForRenewal, type Membership, mayRenew, type Role } from '../core/membership.ts'
import { renewMembership } from '../identity/renewing.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Revocation } from '../wire/record-codec.ts'
import { withPeerId } from './addresses.ts'
import type { IssuerRole } from './join.ts'
import { type JoinedMesh, type JoinHostOptions, knockAt } from './join-host.ts'
import type { MemberLinks } from './member-links.ts'
import type { OwnPlace } from './own-place.ts'
import { certifyOwner } from './owners.ts'
import type { Refusals } from './refusals.ts'
import { revoke } from './revoking.ts'
import type { RosterEntry } from './roster.ts'

export interface RenewalOptions {
  readonly clock: Clock
  readonly place: OwnPlace
  readonly links: MemberLinks
  readonly refusals: Refusals
  readonly issuer: IssuerRole | undefined
  /** Makes this process's certificate anew; undefined for a node, which has none. */
  readonly certify: ((nowMs: number) => Promise<Uint8Array>) | undefined
  /** How an issuer is asked under the machine's own key; undefined where this process never does. */
  readonly ask: (() => Promise<Asking | undefined>) | undefined
  /** This connection is for asking: no hello is said on it. */
  readonly onAsking: (issuerPeerId: string) => () => void
}

/** A host under the machine's key, and what is said on it. */
export interface Asking {
  readonly host: Libp2p
  readonly options: JoinHostOptions
  /** Lets go of the host, where it was made for asking. */
  readonly close: () => Promise<void>
}

interface Asked extends Asking {
  readonly peerId: string
  readonly own: Membership
}

/** How often terms are looked at; and how often an issuer is asked while this machine's own is over. In milliseconds. */
const lookEveryMs = 3_600_000
const askEveryMs = 60_000
const firstLookMs = 1_000

/** One try at an issuer, in milliseconds. */
const askTimeoutMs = 15_000

/** A member that is connected is noted as seen at least so often, in milliseconds: an issuer renews no machine that is gone. */
const seenEveryMs = 24 * 3_600_000

/**
 * Keeps terms from running out (rule 16): an issuer signs a new one for every member that is about and in the last third of
 * its own, which the roster then carries to it; a machine whose membership is over asks an issuer for one, which is all that
 * it may do; and a process renews its own certificate.
 */
export class Renewal {
  readonly #options: RenewalOptions
  #timer: Timer | undefined
  #running: Promise<void> | undefined
  #isAgain = false
  #isClosed = false
  readonly #closing = new AbortController()

  constructor(options: RenewalOptions) {
    this.#options = options
  }

  /** Looks soon: something changed. */
  start(): void {
    if (this.#isClosed) return
    this.#timer?.cancel()
    this.#timer = this.#options.clock.after(firstLookMs, () => this.look())
  }

  /** Looks now, and again when there may be something to do. */
  look(): void {
    if (this.#isClosed) return
    if (this.#running !== undefined) {
      this.#isAgain = true
      return
    }
    this.#running = this.#look()
      .catch((error: unknown) => this.#options.refusals.addError(error))
      .finally(() => {
        this.#running = undefined
        this.#schedule()
      })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#closing.abort()
    this.#timer?.cancel()
    await this.#running
  }

  #schedule(): void {
    if (this.#isClosed) return
    this.#timer?.cancel()
    const delayMs = this.#isAgain ? firstLookMs : this.#isOver() ? askEveryMs : lookEveryMs
    this.#isAgain = false
    this.#timer = this.#options.clock.after(delayMs, () => this.look())
  }

  async #look(): Promise<void> {
    await this.#certify()
    this.#noteSeen()
    await this.#renewMembers()
    await this.#askForOwn()
  }

  async #certify(): Promise<void> {
    const { place, certify } = this.#options
    if (certify !== undefined && place.isCertificateDue()) await place.setCertificate(await certify(place.wallMs()))
  }

  #noteSeen(): void {
    const { place, links, clock } = this.#options
    for (const { machinePeerId } of links.connected()) {
      const seenAtMs = place.roster?.entryOf(machinePeerId)?.lastSeenAtMs ?? 0
      if (clock.wallMs() - seenAtMs > seenEveryMs) place.noteSeen(machinePeerId)
    }
  }

  async #renewMembers(): Promise<void> {
    const { issuer, place, refusals } = this.#options
    if (issuer === undefined) return
    for (const entry of place.roster?.entries() ?? []) {
      if (this.#isClosed) return
      if (!this.#isWorthRenewing(entry)) continue
      try {
        await renewMember(place, issuer, { membership: entry.membership.body })
      } catch (error) {
        // Its name went to another machine: it stays as it is, and runs out.
        refusals.addError(error)
      }
    }
  }

  #isWorthRenewing({ membership: { body }, lastSeenAtMs = 0 }: RosterEntry): boolean {
    const { place, links } = this.#options
    const wallMs = place.wallMs()
    if (!isDueForRenewal(body, wallMs) || wallMs > body.expiresAtMs) return false
    if (place.trust?.objectionTo(body) !== undefined) return false
    const isOwn = body.machinePeerId === place.facts.machinePeerId
    const isHere = links.connected().some((peer) => peer.machinePeerId === body.machinePeerId)
    return isOwn || isHere || isDueForRenewal(body, lastSeenAtMs)
  }

  #isOver(): boolean {
    const { place, ask } = this.#options
    const own = place.standing?.body
    return ask !== undefined && own !== undefined && (place.wallMs() > own.expiresAtMs || !this.#counts(own))
  }

  /** Whether its issuer is one still: what a revoked owner signed counts no more. */
  #counts(own: Membership): boolean {
    return this.#options.place.trust?.isIssuer(own.issuerId) !== false
  }

  /** Whoever is an owner may be asked, in turn, until one has answered. */
  async #askForOwn(): Promise<void> {
    const { place, ask } = this.#options
    const own = place.standing?.body
    if (ask === undefined || own === undefined) return
    if (this.#counts(own) && !isDueForRenewal(own, place.wallMs())) return
    const issuers = issuersKnown(place)
    const asking = issuers.length === 0 ? undefined : await ask()
    if (asking === undefined) return
    try {
      for (const { address, peerId } of issuers) {
        if (this.#isClosed || (await this.#isAnswered(address, { peerId, own, ...asking }))) return
      }
    } finally {
      await asking.close()
    }
  }

  async #isAnswered(address: string, asked: Asked): Promise<boolean> {
    try {
      await this.#askAt(address, asked)
      return true
    } catch {
      // Not there, or it is no issuer now: the next one, or the next time.
      return false
    }
  }

  async #askAt(address: string, asked: Asked): Promise<void> {
    const { peerId, own, host, options } = asked
    // What is connected has been greeted: there the roster brings what is new.
    if (host.getConnections().some((connection) => connection.remotePeer.toString() === peerId)) return
    const done = this.#options.onAsking(peerId)
    let joined: JoinedMesh | undefined
    try {
      joined = await knockAt(
        {
          address,
          name: own.name,
          roles: own.roles,
          accepts: (meshId) => meshId === own.meshId,
          os: '',
          arch: '',
          signal: AbortSignal.any([this.#closing.signal, AbortSignal.timeout(askTimeoutMs)]),
        },
        options,
      )
      await this.#options.place.adopt({ body: joined.own.body, envelope: joined.own.membership })
    } finally {
      done()
      abort(joined?.connection)
    }
  }
}

/** Signs a new term for a member, and gives it to the roster, which brings it there. @throws {NfltrError} `name_taken` … */
export async function renewMember(
  place: OwnPlace,
  issuer: IssuerRole,
  renewal: { readonly membership: Membership; readonly roles?: readonly Role[] },
): Promise<Membership> {
  const { roster, trust } = place
  if (roster === undefined || trust === undefined) {
    throw new NfltrError('no_mesh', 'This machine belongs to no mesh.')
  }
  const objection = trust.objectionTo(renewal.membership)
  if (objection !== undefined) throw objection
  const { envelope, membership } = await renewMembership(issuer.book, issuer.signer, {
    ...renewal,
    nowMs: place.wallMs(),
    serialAbove: roster.highestSerial(),
  })
  const { machinePeerId } = membership
  const isFurtherOwner = membership.roles.includes('owner') && machinePeerId !== place.facts.machinePeerId
  if (isFurtherOwner && issuer.signer.isMeshKey) {
    await certifyOwner(trust, issuer.signer, { machinePeerId, nowMs: place.wallMs() })
  }
  await roster.take({ membership: envelope, addressRecords: [] })
  return membership
}

/**
 * Voids every membership that these machines have so far. Holds here, and is on disk, when it resolves.
 *
 * @returns the version of this issuer's list
 * @throws {NfltrError} `no_mesh`, `revoked` where this issuer may sign no more
 */
export async function revokeMembers(
  place: OwnPlace,
  issuer: IssuerRole,
  machinePeerIds: readonly string[],
): Promise<number> {
  const { roster, trust } = place
  if (trust === undefined) throw new NfltrError('no_mesh', 'This machine belongs to no mesh.')
  const entries = machinePeerIds.map((peerId) => ({
    peerId,
    serial: roster?.entryOf(peerId)?.membership.body.serial ?? 0,
  }))
  const inherited = await takeOverFrom(place, issuer, machinePeerIds)
  const { book, signer } = issuer
  return await revoke({ book, signer, trust, nowMs: place.wallMs() }, [...entries, ...inherited])
}

/**
 * What an owner that is about to be revoked leaves behind: the members that it let in get a membership of this issuer, since
 * nothing that it signed counts from then on, and what it had revoked stays so.
 *
 * @returns the entries to go into this issuer's list
 */
export async function takeOverFrom(
  place: OwnPlace,
  issuer: IssuerRole,
  machinePeerIds: readonly string[],
): Promise<readonly Revocation[]> {
  const { roster, trust } = place
  const issuerIds = machinePeerIds.flatMap((peerId) => trust?.certificateOf(peerId)?.issuerId ?? [])
  for (const { membership } of roster?.entries() ?? []) {
    const { issuerId, machinePeerId } = membership.body
    if (!issuerIds.includes(issuerId) || machinePeerIds.includes(machinePeerId)) continue
    if (trust?.objectionTo(membership.body) !== undefined || !mayRenew(membership.body, place.wallMs())) continue
    await renewMember(place, issuer, { membership: membership.body })
  }
  return issuerIds.flatMap((issuerId) => trust?.listOf(issuerId).entries ?? [])
}

function issuersKnown(place: OwnPlace): readonly { readonly address: string; readonly peerId: string }[] {
  return (place.roster?.entries() ?? [])
    .filter(({ membership: { body } }) => body.roles.includes('owner') && place.trust?.objectionTo(body) === undefined)
    .flatMap(({ records }) => [...records.values()])
    .filter(({ body }) => body.kind === 'issuer')
    .sort((a, b) => b.body.seq - a.body.seq)
    .flatMap(({ body }) =>
      body.addresses.map((text) => ({ address: withPeerId(text, body.peerId).toString(), peerId: body.peerId })),
    )
}

function abort(connection: Connection | undefined): void {
  connection?.abort(new Error('the issuer has answered'))
}

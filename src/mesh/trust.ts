import { NfltrError } from '../core/errors.ts'
import type { Membership } from '../core/membership.ts'
import type { MeshLine } from '../core/mesh-line.ts'
import { type Issuers, openMembership, openRevocations, type SignedCertificate } from '../identity/envelopes.ts'
import { sha256 } from '../identity/hash.ts'
import type { MeshFiles, RevocationRecord } from '../ports/home.ts'
import type { Unsubscribe } from '../ports/peers.ts'
import type { RevocationVersion } from '../wire/handshake-codec.ts'
import type { Revocation, Revocations } from '../wire/record-codec.ts'
import { Departures } from './departures.ts'
import { type KeptCertificate, OwnerCertificates } from './owner-certificates.ts'
import { Successions } from './successions.ts'

/** The part of a home in which trust lies. */
export type TrustFiles = Pick<
  MeshFiles,
  | 'revocations'
  | 'saveRevocations'
  | 'certificates'
  | 'saveCertificate'
  | 'successions'
  | 'saveSuccession'
  | 'departures'
  | 'saveDeparture'
  | 'removeDeparture'
  | 'watch'
>

export interface TrustOptions {
  readonly meshId: string
  readonly files: TrustFiles
  /** A list or a certificate came: links and members have to be looked at again. */
  readonly onNews: () => void
  /** Something that proves nothing, or plays double, was passed over. */
  readonly onRefused: (error: NfltrError) => void
}

/**
 * An issuer that published two lists of one version: nothing that it signed is accepted any more (rule 15). Or a mesh key that
 * named two successors: nothing of the mesh is (rule 17).
 */
export interface TrustAlarm {
  readonly issuerId: string
  readonly version?: number
  readonly successors?: readonly string[]
}

interface KeptList {
  readonly body: Revocations
  readonly envelope: Uint8Array
  readonly conflict?: { readonly body: Revocations; readonly envelope: Uint8Array }
}

/**
 * Whom this process believes: who may issue, and what was revoked (rules 15, 17). Lists are kept for each issuer by a
 * rising version that is never lowered, also not by another process of this home or by a restart; together they count as one.
 */
export class Trust {
  readonly #options: TrustOptions
  readonly #lists = new Map<string, KeptList>()
  readonly #certificates: OwnerCertificates
  readonly #departures: Departures
  readonly #successions: Successions
  readonly #stopWatching: Unsubscribe
  #isClosed = false

  private constructor(options: TrustOptions) {
    this.#options = options
    this.#departures = new Departures(options)
    this.#successions = new Successions(options)
    this.#certificates = new OwnerCertificates(options, this.#successions)
    this.#stopWatching = options.files.watch(() => {
      // A home that cannot be read is told by whoever needs it; the next change is another chance here.
      this.reload().catch(() => {})
    })
  }

  /** @throws {NfltrError} `store_damaged` where a kept list does not read: what was revoked must not be forgotten */
  static async load(options: TrustOptions): Promise<Trust> {
    const trust = new Trust(options)
    try {
      await trust.reload()
    } catch (error) {
      trust.close()
      throw error
    }
    return trust
  }

  close(): void {
    this.#isClosed = true
    this.#stopWatching()
  }

  /** Who may sign now. */
  issuers(): Issuers {
    const certificates = this.#counting().map(({ body }) => body)
    return { meshId: this.#options.meshId, meshKeys: this.#successions.counting(), certificates }
  }

  /** The keys of the mesh, and whether they are disputed. */
  get line(): MeshLine {
    return this.#successions.line
  }

  /** Why nothing of the mesh counts any more; `undefined` in a mesh that is in order. */
  closed(): NfltrError | undefined {
    return this.#successions.closed()
  }

  /** Everything that is known of which key of the mesh took the place of which. */
  successionEnvelopes(): readonly Uint8Array[] {
    return this.#successions.envelopes()
  }

  /** Takes successions after checking them; applied at once and on disk when it resolves. @returns whether anything was new */
  async takeSuccessions(envelopes: readonly Uint8Array[]): Promise<boolean> {
    return await this.#takeAll(envelopes, (envelope) => this.#successions.take(envelope))
  }

  /** Owners with a certificate that was not revoked, also where a mesh key signed it that was replaced since. */
  furtherOwners(): readonly SignedCertificate[] {
    return this.#certificates.bodies().filter((body) => !this.#isRevokedOwner(body))
  }

  /** In a mesh that is closed nothing is granted, and what was a membership can still be shown. */
  openMembership(envelope: Uint8Array): Promise<Membership> {
    if (this.closed() !== undefined) return this.openFormer(envelope)
    return openMembership(envelope, this.issuers())
  }

  /**
   * Opens a membership also where its issuer was revoked since: it grants nothing, and says which machine it was made for.
   *
   * @throws {NfltrError} `bad_signature` where it never was a membership of this mesh
   */
  openFormer(envelope: Uint8Array): Promise<Membership> {
    return openMembership(envelope, this.#formerIssuers())
  }

  /** Whether what an issuer has signed counts now. */
  isIssuer(issuerId: string): boolean {
    const { meshKeys = [], certificates = [] } = this.issuers()
    return meshKeys.includes(issuerId) || certificates.some((certificate) => certificate.issuerId === issuerId)
  }

  /** Why a membership whose signature holds is not accepted all the same. */
  objectionTo(membership: Membership): NfltrError | undefined {
    const { name, machinePeerId, serial, issuerId } = membership
    const closed = this.closed()
    if (closed !== undefined) return closed
    if (this.#conflictOf(issuerId) !== undefined) {
      return new NfltrError(
        'revoked',
        `The issuer of ${name} published two lists of one version and is believed no more.`,
        {
          hint: 'An owner of the mesh has to publish a newer list: nfltr mesh revoke NAME',
          details: { issuer_id: issuerId },
        },
      )
    }
    const left = this.#departures.of(machinePeerId, serial)
    if (left !== undefined) {
      return new NfltrError('revoked', `${name} left the mesh at ${new Date(left.atMs).toISOString()}.`, {
        hint: 'An owner of the mesh can let the machine in again with a new invite.',
        details: { revoked_at_ms: left.atMs, has_left: true },
      })
    }
    const entry = this.revocationOf(machinePeerId, serial)
    if (entry === undefined) return this.isIssuer(issuerId) ? undefined : formerIssuer(name)
    return new NfltrError(
      'revoked',
      `The membership of ${name} was revoked at ${new Date(entry.atMs).toISOString()}.`,
      {
        hint: 'An owner of the mesh can let the machine in again with a new invite.',
        details: { revoked_at_ms: entry.atMs },
      },
    )
  }

  /** What voids the memberships of a machine up to a serial. */
  revocationOf(machinePeerId: string, serial: number): Revocation | undefined {
    return this.#entries().find((entry) => entry.peerId === machinePeerId && entry.serial >= serial)
  }

  /** When a machine gave up its memberships up to a serial by itself. */
  departureOf(machinePeerId: string, serial: number): { readonly atMs: number } | undefined {
    return this.#departures.of(machinePeerId, serial)
  }

  /** The serial up to which a machine gave its memberships up; 0 where it did not. */
  departedSerial(machinePeerId: string): number {
    return this.#departures.serialOf(machinePeerId)
  }

  /** Departures that somebody who knows of these serials lacks. */
  departuresBeyond(known: (machinePeerId: string) => number): readonly Uint8Array[] {
    return this.#departures.beyond(known)
  }

  /** Takes departures after checking them; applied at once and on disk when it resolves. @returns whether anything was new */
  async takeDepartures(
    envelopes: readonly Uint8Array[],
    isMember: (machinePeerId: string) => boolean,
  ): Promise<boolean> {
    return await this.#takeAll(envelopes, (envelope) => this.#departures.take(envelope, isMember))
  }

  /** What one issuer has revoked so far, with what a list that contradicts it has; version 0 where there is none. */
  listOf(issuerId: string): { readonly version: number; readonly entries: readonly Revocation[] } {
    const kept = this.#lists.get(issuerId)
    if (kept === undefined) return { version: 0, entries: [] }
    return { version: kept.body.version, entries: [...kept.body.entries, ...(kept.conflict?.body.entries ?? [])] }
  }

  alarms(): readonly TrustAlarm[] {
    const { dispute } = this.line
    const closed = dispute === undefined ? [] : [{ issuerId: dispute.keyPeerId, successors: dispute.successors }]
    const contradicted = [...this.#lists].flatMap(([issuerId, { body, conflict }]) =>
      conflict === undefined ? [] : [{ issuerId, version: body.version }],
    )
    return [...closed, ...contradicted]
  }

  versions(): readonly RevocationVersion[] {
    return [...this.#lists].map(([issuerId, kept]) => ({
      issuerId,
      version: kept.body.version,
      digest: digestOf(kept),
    }))
  }

  /** Lists that somebody with these versions lacks; a pair that contradicts itself goes out whole, so that all hear of it. */
  listsBeyond(versions: readonly RevocationVersion[]): readonly Uint8Array[] {
    const known = new Map<string, RevocationVersion>(versions.map((version) => [version.issuerId, version]))
    return [...this.#lists].flatMap(([issuerId, kept]) => {
      // Of a mesh key that was replaced: its successor's list says the same, and is the one that is believed.
      if (this.line.keys.includes(issuerId) && issuerId !== this.line.current) return []
      const theirs = known.get(issuerId) ?? { issuerId, version: 0 }
      if (theirs.version > kept.body.version) return []
      const isSame = theirs.version === kept.body.version && (theirs.digest ?? digestOf(kept)) === digestOf(kept)
      return isSame ? [] : [kept.envelope, ...(kept.conflict === undefined ? [] : [kept.conflict.envelope])]
    })
  }

  /** Of every further owner that there ever was, former ones too: what those signed can still be read, and does not count. */
  everyCertificateEnvelope(): readonly Uint8Array[] {
    return this.#certificates.all().map(({ envelope }) => envelope)
  }

  certificateEnvelopes(): readonly Uint8Array[] {
    return this.#counting().map(({ envelope }) => envelope)
  }

  /** What lets the key of a machine sign now. */
  certificateOf(keyPeerId: string): SignedCertificate | undefined {
    return this.#counting().find(({ body }) => body.keyPeerId === keyPeerId)?.body
  }

  /** Takes certificates after checking them; on disk when it resolves. @returns whether anything was new */
  async takeCertificates(envelopes: readonly Uint8Array[]): Promise<boolean> {
    return await this.#takeAll(envelopes, (envelope) => this.#certificates.take(envelope))
  }

  /** Takes lists after checking them; applied at once and on disk when it resolves. @returns whether anything was new */
  async takeLists(envelopes: readonly Uint8Array[]): Promise<boolean> {
    return await this.#takeAll(envelopes, (envelope) => this.#takeList(envelope))
  }

  async #takeList(envelope: Uint8Array): Promise<boolean> {
    const body = await openRevocations(envelope, this.issuers())
    const known = this.#lists.get(body.issuerId)
    if (known !== undefined && known.body.version > body.version) return false
    if (known !== undefined && known.body.version === body.version) {
      if (known.conflict !== undefined || isSameList(known.body, body)) return false
      this.#lists.set(body.issuerId, { ...known, conflict: { body, envelope } })
      this.#options.onRefused(
        new NfltrError('revoked', `An issuer published two lists of version ${body.version}.`, {
          details: { issuer_id: body.issuerId },
        }),
      )
    } else {
      this.#lists.set(body.issuerId, { body, envelope })
    }
    await this.#save(body.issuerId)
    return true
  }

  async #save(issuerId: string): Promise<void> {
    const kept = this.#lists.get(issuerId)
    if (kept === undefined) return
    const { body, envelope, conflict } = kept
    await this.#options.files.saveRevocations({
      issuerId,
      version: body.version,
      envelope,
      ...(conflict === undefined ? {} : { conflict: conflict.envelope }),
    })
  }

  /** Takes what another process of this home has learnt. @throws {NfltrError} `store_damaged` */
  async reload(): Promise<void> {
    const { files } = this.#options
    if (await this.#successions.reload()) this.#tell()
    await this.takeCertificates((await files.certificates()).map(({ envelope }) => envelope))
    let isNews = await this.#departures.reload()
    for (const record of await files.revocations()) isNews = (await this.#takeStored(record)) || isNews
    if (isNews) this.#tell()
  }

  /** A kept list counts also when its issuer may sign no more. One that is behind what is known here is put right. */
  async #takeStored(record: RevocationRecord): Promise<boolean> {
    const known = this.#lists.get(record.issuerId)
    if (known !== undefined && known.body.version > record.version) {
      if (!this.#isClosed) await this.#save(record.issuerId)
      return false
    }
    const isKnown = known !== undefined && known.body.version === record.version
    if (isKnown && (known.conflict !== undefined || record.conflict === undefined)) return false
    const issuers = this.#formerIssuers()
    const open = async (envelope: Uint8Array) => ({ body: await openRevocations(envelope, issuers), envelope })
    const list = await open(record.envelope)
    const conflict = record.conflict === undefined ? {} : { conflict: await open(record.conflict) }
    this.#lists.set(record.issuerId, { ...list, ...conflict })
    return true
  }

  /** Whatever ever was signed for this mesh can be read by these, and counts for nothing. */
  #formerIssuers(): Issuers {
    return { meshId: this.#options.meshId, meshKeys: this.line.keys, certificates: this.#certificates.bodies() }
  }

  #counting(): readonly KeptCertificate[] {
    return this.#certificates.all().filter(({ body }) => !this.#isVoid(body))
  }

  /** One of a mesh key that was replaced or contradicts itself, or whose own key was revoked. */
  #isVoid(certificate: SignedCertificate): boolean {
    const { meshKey } = certificate
    if (meshKey !== this.line.current || this.#conflictOf(meshKey) !== undefined) return true
    return this.#isRevokedOwner(certificate)
  }

  /** Revoked after the certificate was made; the mesh key itself is not revoked, but replaced. */
  #isRevokedOwner({ keyPeerId, issuerId, issuedAtMs }: SignedCertificate): boolean {
    return [...this.#lists].some(
      ([by, { body }]) =>
        by !== issuerId && body.entries.some((entry) => entry.peerId === keyPeerId && entry.atMs >= issuedAtMs),
    )
  }

  #conflictOf(issuerId: string): KeptList['conflict'] {
    return this.#lists.get(issuerId)?.conflict
  }

  #entries(): readonly Revocation[] {
    return [...this.#lists.values()].flatMap(({ body, conflict }) => [
      ...body.entries,
      ...(conflict?.body.entries ?? []),
    ])
  }

  async #takeAll(envelopes: readonly Uint8Array[], take: (envelope: Uint8Array) => Promise<boolean>): Promise<boolean> {
    let isNews = false
    for (const envelope of envelopes) isNews = (await this.#passOver(() => take(envelope))) || isNews
    if (isNews) this.#tell()
    return isNews
  }

  /** What does not prove itself is counted and passed over: the rest still counts. */
  async #passOver(take: () => Promise<boolean>): Promise<boolean> {
    try {
      return await take()
    } catch (error) {
      if (!(error instanceof NfltrError && refusedCodes.includes(error.code))) throw error
      this.#options.onRefused(error)
      return false
    }
  }

  #tell(): void {
    if (!this.#isClosed) this.#options.onNews()
  }
}

function formerIssuer(name: string): NfltrError {
  return new NfltrError(
    'bad_signature',
    `The membership of ${name} was signed by a key that lets nobody in any more.`,
    {
      hint: 'An owner of the mesh can let the machine in again with a new invite.',
      details: { former_issuer: true },
    },
  )
}

const refusedCodes: readonly string[] = ['bad_signature', 'invalid_frame', 'frame_too_large', 'queue_full']

/** Of one list, or of the pair that contradicts itself, in whichever order it came. */
function digestOf({ envelope, conflict }: KeptList): string {
  const [one = '', other = ''] = [envelope, ...(conflict === undefined ? [] : [conflict.envelope])].map(hexOf).sort()
  return other === '' ? one : hexOf(new TextEncoder().encode(`${one} ${other}`))
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(sha256(bytes)).toString('hex').slice(0, 16)
}

function isSameList(one: Revocations, other: Revocations): boolean {
  return spelt(one) === spelt(other)
}

function spelt({ entries }: Revocations): string {
  return entries
    .map(({ peerId, serial, atMs }) => `${peerId} ${serial} ${atMs}`)
    .sort()
    .join('\n')
}

import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Membership } from '../core/membership.ts'
import { signIssuerCertificate, signSuccession } from '../identity/envelopes.ts'
import { type IssuerKey, meshIssuer } from '../identity/issuer-key.ts'
import { type PrivateKey, peerIdOf } from '../identity/keys.ts'
import { renewMembership } from '../identity/renewing.ts'
import type { IssuerBook, RosterRecord } from '../ports/home.ts'
import type { OwnPlace } from './own-place.ts'
import { revoke } from './revoking.ts'
import type { Roster } from './roster.ts'
import type { Trust } from './trust.ts'

/** The keys of a replacement, and the members as the home has them. */
export interface KeyChange {
  /** The mesh key that signs now; undefined where it named the other one before, and was interrupted after that. */
  readonly predecessor: IssuerKey | undefined
  readonly successor: PrivateKey
  readonly members: readonly RosterRecord[]
}

export interface KeyReplaced {
  /** The new key as an issuer. */
  readonly signer: IssuerKey
  /** The version of its first list of what was revoked: who has that one knows everything of the replacement. */
  readonly version: number
  /** Members that have a membership by the new key, or by an owner that it certified. */
  readonly carried: readonly Membership[]
  /** Machines that own nothing any more: they had the key that was replaced, and no certificate of their own. */
  readonly formerOwners: readonly string[]
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[]
}

interface Work {
  readonly place: OwnPlace
  readonly trust: Trust
  readonly roster: Roster
  readonly book: IssuerBook
  readonly signer: IssuerKey
}

/**
 * Puts another key in the place of the mesh key (rule 17): the key that signs now names it, and it signs anew for every further
 * owner and every member that is known here, and what was revoked. From the moment at which somebody knows of it, the former key
 * grants nothing there, whatever date it writes. Each step can be repeated: done again, it goes on with the same key.
 *
 * @throws {NfltrError} `mesh_closed` where the former key has named another; `no_mesh`; `key_held`
 */
export async function replaceMeshKey(place: OwnPlace, book: IssuerBook, change: KeyChange): Promise<KeyReplaced> {
  const { roster, trust } = place
  if (roster === undefined || trust === undefined) {
    throw new NfltrError('no_mesh', 'This machine belongs to no mesh.')
  }
  const { meshId } = trust.line
  const signer = meshIssuer(change.successor, meshId)
  const { predecessor } = change
  if (predecessor !== undefined) {
    // Before anything is signed: a second name by one key closes the mesh.
    if (trust.line.current !== predecessor.issuerId) throw trust.closed() ?? replacedMeanwhile()
    const succession = { meshId, successorPeerId: peerIdOf(change.successor), atMs: place.wallMs() }
    await trust.takeSuccessions([await signSuccession(predecessor.key, succession)])
  }
  const closed = trust.closed()
  if (closed !== undefined) throw closed
  if (trust.line.current !== signer.issuerId) throw replacedMeanwhile()
  const work = { place, trust, roster, book, signer }
  await certifyOwners(work)
  const members = await carryMembers(work, change.members)
  const inherited = trust.line.keys.flatMap((key) => (key === signer.issuerId ? [] : trust.listOf(key).entries))
  const version = await revoke({ trust, book, signer, nowMs: place.wallMs() }, inherited)
  return { signer, version, ...members }
}

function replacedMeanwhile(): NfltrError {
  return new NfltrError('not_owner', 'The key of the mesh was replaced already: this one lets nobody in any more.', {
    hint: 'Go on where that was done, or bring its key here: nfltr mesh key export FILE there, import here',
  })
}

/** A certificate covers from when it did: what its owner signed stays covered. */
async function certifyOwners({ place, trust, signer }: Work): Promise<void> {
  const expiresAtMs = place.wallMs() + limits.membershipTermMs
  for (const { meshKey, meshId, issuerId, keyPeerId, issuedAtMs } of trust.furtherOwners()) {
    if (meshKey === signer.issuerId) continue
    const body = { meshId, issuerId, keyPeerId, issuedAtMs, expiresAtMs }
    await trust.takeCertificates([await signIssuerCertificate(signer.key, body)])
  }
}

async function carryMembers(
  work: Work,
  records: readonly RosterRecord[],
): Promise<Pick<KeyReplaced, 'carried' | 'formerOwners' | 'leftOut'>> {
  const { place, trust } = work
  const [carried, formerOwners, leftOut] = [
    [] as Membership[],
    [] as string[],
    [] as { name: string; reason: string }[],
  ]
  const ownPeerId = place.facts.machinePeerId
  // This machine before all others: what it says from then on is believed.
  for (const record of [...records].sort((a, b) => Number(b.peerId === ownPeerId) - Number(a.peerId === ownPeerId))) {
    const body = await trust.openFormer(record.membership).catch(() => undefined)
    if (body === undefined || isOut(trust, body)) continue
    if (trust.isIssuer(body.issuerId)) {
      carried.push(body)
      continue
    }
    try {
      const isOwner = body.roles.includes('owner') && (body.machinePeerId === ownPeerId || isCertified(trust, body))
      if (body.roles.includes('owner') && !isOwner) formerOwners.push(body.name)
      carried.push(await carry(work, record, { body, isOwner }))
    } catch (error) {
      if (!(error instanceof NfltrError)) throw error
      leftOut.push({ name: body.name, reason: error.message })
    }
  }
  return { carried, formerOwners, leftOut }
}

async function carry(
  { place, roster, book, signer }: Work,
  record: RosterRecord,
  as: { readonly body: Membership; readonly isOwner: boolean },
): Promise<Membership> {
  const { body, isOwner } = as
  const serialAbove = Math.max(roster.highestSerial(), body.serial)
  const roles = isOwner ? body.roles : body.roles.filter((role) => role !== 'owner')
  const nowMs = place.wallMs()
  const { envelope, membership } = await renewMembership(book, signer, { membership: body, roles, nowMs, serialAbove })
  const addressRecords = record.addresses.map((address) => address.envelope)
  await roster.take({ membership: envelope, addressRecords })
  return membership
}

function isCertified(trust: Trust, { machinePeerId }: Membership): boolean {
  return trust.certificateOf(machinePeerId) !== undefined
}

function isOut(trust: Trust, { machinePeerId, serial }: Membership): boolean {
  return (
    trust.revocationOf(machinePeerId, serial) !== undefined || trust.departureOf(machinePeerId, serial) !== undefined
  )
}

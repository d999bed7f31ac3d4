import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import {
  judgeClaimant,
  type Membership,
  type MembershipRefusal,
  type PeerKind,
  type ProcessCertificate,
} from '../core/membership.ts'
import { openAddressRecord, openProcessCertificate } from '../identity/envelopes.ts'
import type { Hello } from '../wire/handshake-codec.ts'
import { wireRevision } from './hello.ts'
import type { Openers, Signed } from './roster.ts'
import type { Trust } from './trust.ts'

/** What this process shows others: its machine's membership and, unless it is the node, its own certificate. */
export interface Standing {
  /** PeerId of the mesh key. */
  readonly meshId: string
  /** Envelope of the machine's membership. */
  readonly membership: Uint8Array
  /** Envelopes of the certificates of further owners that came with the membership. */
  readonly certificates?: readonly Uint8Array[]
  /** Envelopes of what is known of the keys of the mesh, where they came with the membership. */
  readonly successions?: readonly Uint8Array[]
  /** Envelope of this process's certificate, signed by the machine. A node has none. */
  readonly certificate?: Uint8Array
}

/** A standing whose signatures were checked. */
export interface OwnStanding extends Standing {
  readonly body: Membership
}

/** Who this process is, whatever its standing. */
export interface ProcessFacts {
  readonly peerId: string
  readonly kind: PeerKind
  readonly hubId?: string
  readonly softwareVersion: string
  /** Random for this start of the process. */
  readonly incarnation: string
}

/**
 * Opens what this process shows. Its issuer may have been revoked while this machine was off: then others take it for nothing,
 * and give it the membership that another owner made in its place.
 *
 * @throws {NfltrError} `bad_signature` when the membership is not of this mesh
 */
export async function openStanding(standing: Standing, trust: Trust): Promise<OwnStanding> {
  const body = await trust.openFormer(standing.membership)
  return { ...standing, body }
}

export function openersFor(meshId: string, trust: Pick<Trust, 'openMembership'>): Openers {
  return {
    openMembership: (envelope) => trust.openMembership(envelope),
    openAddressRecord: (envelope) => openAddressRecord(envelope, { meshId }),
  }
}

export function helloOf(
  process: ProcessFacts,
  standing: Standing,
  now: {
    readonly nowMs: number
    readonly trust: Pick<Trust, 'versions' | 'certificateEnvelopes' | 'successionEnvelopes'>
  },
): Hello {
  return {
    type: 'hello',
    revisions: [wireRevision],
    meshId: standing.meshId,
    revocationVersions: now.trust.versions(),
    membership: standing.membership,
    ...(standing.certificate === undefined ? {} : { processCertificate: standing.certificate }),
    issuerCertificates: now.trust.certificateEnvelopes(),
    successions: now.trust.successionEnvelopes(),
    incarnation: process.incarnation,
    kind: process.kind,
    ...(process.hubId === undefined ? {} : { hubId: process.hubId }),
    softwareVersion: process.softwareVersion,
    limits: { frameMaxBytes: limits.sessionFrameMaxBytes },
    nowMs: now.nowMs,
  }
}

/** A peer whose hello was found true. */
export interface ProvenPeer {
  readonly membership: Membership
  readonly membershipEnvelope: Uint8Array
  readonly certificate?: ProcessCertificate
  readonly kind: PeerKind
  readonly hubId?: string
  readonly incarnation: string
  readonly softwareVersion: string
}

/** What a hello is held against. */
export interface Judgement {
  readonly meshId: string
  readonly ownPeerId: string
  /** The PeerId that Noise proved. */
  readonly remotePeerId: string
  /** Wall clock, never before the newest verified issue time seen. */
  readonly wallMs: number
  readonly trust: Trust
  /** The newest membership of a machine that is known here: it counts, also where the machine shows an older one. */
  readonly newestOf: (machinePeerId: string) => Signed<Membership> | undefined
}

/**
 * Checks a hello in the order of the protocol: revision, mesh, the membership's signature and whether it was revoked, the
 * certificate's, and what they say against each other, the clock and the connection.
 *
 * @throws {NfltrError} the first reason to refuse
 */
export async function judgeHello(hello: Hello, against: Judgement): Promise<ProvenPeer> {
  if (!hello.revisions.includes(wireRevision)) {
    throw new NfltrError(
      'unsupported',
      `The peer speaks wire revisions ${hello.revisions.join(', ')}, not ${wireRevision}.`,
      {
        hint: 'Update nfltr on the older machine.',
      },
    )
  }
  if (hello.meshId !== against.meshId) throw new NfltrError('wrong_mesh', 'The peer belongs to another mesh.')
  const { body: membership, envelope } = await newestMembership(hello.membership, against)
  const objection = against.trust.objectionTo(membership)
  if (objection !== undefined) throw objection
  const certificate =
    hello.processCertificate === undefined
      ? undefined
      : await openProcessCertificate(hello.processCertificate, { machinePeerId: membership.machinePeerId })
  const refusal = judgeClaimant({
    remotePeerId: against.remotePeerId,
    ownPeerId: against.ownPeerId,
    meshId: against.meshId,
    membership,
    ...(certificate === undefined ? {} : { certificate }),
    claimedKind: hello.kind,
    ...(hello.hubId === undefined ? {} : { claimedHubId: hello.hubId }),
    wallMs: against.wallMs,
  })
  if (refusal !== undefined) throw new NfltrError(refusal, refusalTexts[refusal])
  return {
    membership,
    membershipEnvelope: envelope,
    ...(certificate === undefined ? {} : { certificate }),
    kind: hello.kind,
    ...(hello.hubId === undefined ? {} : { hubId: hello.hubId }),
    incarnation: hello.incarnation,
    softwareVersion: hello.softwareVersion,
  }
}

/**
 * The newest membership of the machine that shows one. Where the issuer of what it shows was revoked, only another's counts:
 * the owner that revoked it made one for each member that it knew.
 *
 * @throws {NfltrError} `revoked`; `bad_signature` where there is none that counts
 */
async function newestMembership(envelope: Uint8Array, against: Judgement): Promise<Signed<Membership>> {
  const { trust, newestOf } = against
  const former = await trust.openFormer(envelope)
  const newest = newestOf(former.machinePeerId)
  if (newest !== undefined && newest.body.serial > former.serial && trust.isIssuer(newest.body.issuerId)) return newest
  const objection = trust.objectionTo(former)
  if (objection !== undefined) throw objection
  return { body: await trust.openMembership(envelope), envelope }
}

const refusalTexts: Record<MembershipRefusal, string> = {
  own_peer_id: 'The peer showed the PeerId of this process itself.',
  wrong_mesh: 'The membership is of another mesh.',
  membership_expired: 'The membership is not valid at this time.',
  bad_certificate: 'The certificate does not belong to the key that the connection proved.',
  wrong_role: 'The membership does not allow this kind of process.',
}

import { NfltrError } from '../core/errors.ts'
import { isWithin, judgeClaimant, type Membership } from '../core/membership.ts'
import { openAddressRecord, openMembership, openProcessCertificate } from '../identity/envelopes.ts'
import { type Invite, inviteProof, type ProofInput, proofsEqual } from '../identity/invites.ts'
import { issueMembership } from '../identity/issuing.ts'
import type { PrivateKey } from '../identity/keys.ts'
import type { InviteRecord, IssuerBook, OwnMembership } from '../ports/home.ts'
import type { Random } from '../ports/random.ts'
import { encodeHandshake, type JoinChallenge, type JoinProof, type JoinStart } from '../wire/handshake-codec.ts'
import type { FrameStream } from './frame-stream.ts'
import { heedingRefusal, receive, refuse } from './hello.ts'
import type { Roster } from './roster.ts'
import type { OwnStanding } from './standing.ts'

export const joinProtocol = '/nfltr/join/1.0.0'

/** What a process needs to play the issuer: the book, whose lock it holds, and the mesh key. */
export interface IssuerRole {
  readonly book: IssuerBook
  readonly meshKey: PrivateKey
}

export interface IssuerSide {
  readonly role: IssuerRole
  readonly standing: OwnStanding
  readonly roster: Roster
  readonly issuerPeerId: string
  /** The PeerId that Noise proved, which for a joiner is its machine's. */
  readonly joinerPeerId: string
  readonly random: Random
  readonly wallMs: () => number
  /** Called once the joiner proved that it has the invite. */
  readonly onProven: () => void
}

/**
 * The issuer's half of a join (R12, R13). Nothing of the book is touched before the joiner proved the invite;
 * the member is in the roster before it hears that it is one; a joiner that comes again gets the membership that it got.
 *
 * @returns the new member
 * @throws {NfltrError} why the joiner was refused, after telling it
 */
export async function answerJoiner(frames: FrameStream, side: IssuerSide): Promise<Membership> {
  try {
    const start = await receive(frames, 'join_start')
    const invite = await findInvite(side, start)
    const nonce = side.random.bytes(32)
    const proofOf = proofs(side, { invite, issuerNonce: nonce, joinerNonce: start.nonce })
    await frames.send(encodeHandshake(challenge(side, { nonce, proof: proofOf('issuer') })))
    const answer = await receive(frames, 'join_proof')
    if (!proofsEqual(answer.proof, proofOf('joiner'))) {
      throw new NfltrError('invite_invalid', 'The joiner did not prove that it has the invite.')
    }
    side.onProven()
    await checkAddresses(answer, side)
    const { envelope, membership } = await issueMembership(side.role.book, side.role.meshKey, {
      inviteId: invite.inviteId,
      joinerPeerId: side.joinerPeerId,
      nameWanted: answer.nameWanted,
      nowMs: side.wallMs(),
    })
    await side.roster.take(
      { membership: envelope, addressRecords: [answer.addressRecord] },
      { seenAtMs: side.wallMs() },
    )
    const issuerMembership = side.standing.membership
    await frames.send(
      encodeHandshake({ type: 'joined', membership: envelope, issuerMembership, issuerCertificates: [], relays: [] }),
    )
    return membership
  } catch (error) {
    throw await refuse(frames, error)
  }
}

async function findInvite(side: IssuerSide, start: JoinStart): Promise<InviteRecord> {
  if (start.meshId !== undefined && start.meshId !== side.standing.meshId) {
    throw new NfltrError('wrong_mesh', 'The invite is of another mesh than this issuer.')
  }
  if (start.inviteId === undefined) {
    throw new NfltrError('no_invite', 'This mesh is joined with an invite.', {
      hint: 'Ask its owner to run `nfltr mesh invite`.',
    })
  }
  const invite = await side.role.book.findInvite(start.inviteId)
  if (invite === undefined)
    throw new NfltrError('invite_invalid', 'The issuer knows no such invite.', { hint: askAgain })
  return invite
}

const askAgain = 'Ask for a new invite: `nfltr mesh invite` on the owner’s machine.'

function proofs(
  side: IssuerSide,
  of: { readonly invite: InviteRecord; readonly issuerNonce: Uint8Array; readonly joinerNonce: Uint8Array },
): (whose: ProofInput['side']) => Uint8Array {
  const { invite, issuerNonce, joinerNonce } = of
  const { issuerPeerId, joinerPeerId, standing } = side
  return (whose) =>
    inviteProof({
      secret: invite.secret,
      side: whose,
      meshId: standing.meshId,
      inviteId: invite.inviteId,
      issuerPeerId,
      joinerPeerId,
      issuerNonce,
      joinerNonce,
    })
}

function challenge(
  side: IssuerSide,
  proven: { readonly nonce: Uint8Array; readonly proof: Uint8Array },
): JoinChallenge {
  const { meshId, membership, certificate } = side.standing
  return {
    type: 'join_challenge',
    meshId,
    issuerMembership: membership,
    issuerCertificate: certificate ?? new Uint8Array(0),
    ...proven,
  }
}

async function checkAddresses(answer: JoinProof, side: IssuerSide): Promise<void> {
  const record = await openAddressRecord(answer.addressRecord, { meshId: side.standing.meshId })
  if (record.peerId !== side.joinerPeerId) {
    throw new NfltrError('bad_signature', 'The joiner’s address record is of another process.')
  }
}

export interface JoinerSide {
  readonly invite: Invite
  readonly joinerPeerId: string
  /** Proven by Noise, and the one that the invite names. */
  readonly issuerPeerId: string
  readonly nameWanted?: string
  /** Signed for the invite's mesh; the joiner listens before it joins. */
  readonly addressRecord: Uint8Array
  readonly softwareVersion: string
  readonly os: string
  readonly arch: string
  readonly random: Random
  readonly wallMs: () => number
}

/**
 * The joiner's half. It proves the invite only to an issuer that proved it first and that the invite's mesh key vouches for,
 * and takes only a membership for its own key from that mesh.
 *
 * @throws {NfltrError} the issuer's refusal; `bad_signature` or `bad_certificate` where the issuer is not what it should be
 */
export function requestMembership(frames: FrameStream, side: JoinerSide): Promise<JoinedMembership> {
  return heedingRefusal(frames, () => redeem(frames, side))
}

export type JoinedMembership = OwnMembership & { readonly body: Membership }

async function redeem(frames: FrameStream, side: JoinerSide): Promise<JoinedMembership> {
  const { invite } = side
  const nonce = side.random.bytes(32)
  const { meshId, inviteId } = invite
  await frames.send(encodeHandshake({ type: 'join_start', meshId, inviteId, nonce }))
  const challenge = await receive(frames, 'join_challenge')
  const proofOf = (whose: ProofInput['side']): Uint8Array =>
    inviteProof({
      secret: invite.secret,
      side: whose,
      meshId: invite.meshId,
      inviteId: invite.inviteId,
      issuerPeerId: side.issuerPeerId,
      joinerPeerId: side.joinerPeerId,
      issuerNonce: challenge.nonce,
      joinerNonce: nonce,
    })
  await checkIssuer(challenge, side, proofOf('issuer'))
  await frames.send(encodeHandshake(proofMessage(side, proofOf('joiner'))))
  const joined = await receive(frames, 'joined')
  const body = await openMembership(joined.membership, { meshId: invite.meshId })
  if (body.machinePeerId !== side.joinerPeerId) {
    throw new NfltrError('bad_signature', 'The issuer sent a membership of another machine.')
  }
  const { membership, issuerMembership, issuerCertificates, relays } = joined
  return { meshId: invite.meshId, membership, issuerMembership, issuerCertificates, relays, body }
}

async function checkIssuer(challenge: JoinChallenge, side: JoinerSide, proof: Uint8Array): Promise<void> {
  const { meshId } = side.invite
  if (challenge.meshId !== meshId)
    throw new NfltrError('wrong_mesh', 'The issuer belongs to another mesh than the invite.')
  if (!proofsEqual(challenge.proof, proof)) {
    throw new NfltrError('invite_invalid', 'The issuer did not prove that it made the invite.', { hint: askAgain })
  }
  const membership = await openMembership(challenge.issuerMembership, { meshId })
  const certificate = await openProcessCertificate(challenge.issuerCertificate, {
    machinePeerId: membership.machinePeerId,
  })
  const wallMs = side.wallMs()
  const refusal = judgeClaimant({
    remotePeerId: side.issuerPeerId,
    ownPeerId: side.joinerPeerId,
    meshId,
    membership,
    certificate,
    claimedKind: 'issuer',
    wallMs,
  })
  if (refusal === undefined) return
  throw new NfltrError(refusal, 'The issuer is not what the invite says.', {
    ...(isWithin(membership, wallMs) ? {} : { hint: 'Check the clock of this machine.' }),
  })
}

function proofMessage(side: JoinerSide, proof: Uint8Array): JoinProof {
  const { nameWanted, addressRecord, softwareVersion, os, arch } = side
  const facts = { addressRecord, softwareVersion, os, arch }
  return { type: 'join_proof', proof, ...facts, ...(nameWanted === undefined ? {} : { nameWanted }) }
}

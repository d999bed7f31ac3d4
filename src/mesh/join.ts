import { NfltrError } from '../core/errors.ts'
import type { Membership } from '../core/membership.ts'
import { openAddressRecord } from '../identity/envelopes.ts'
import { type Invite, inviteProof, type ProofInput, proofsEqual } from '../identity/invites.ts'
import type { IssuerKey } from '../identity/issuer-key.ts'
import { issueMembership } from '../identity/issuing.ts'
import type { InviteRecord, IssuerBook, OwnMembership } from '../ports/home.ts'
import type { Random } from '../ports/random.ts'
import { encodeHandshake, type JoinChallenge, type JoinProof, type JoinStart } from '../wire/handshake-codec.ts'
import type { FrameStream } from './frame-stream.ts'
import { heedingRefusal, receive, refuse } from './hello.ts'
import { challengeOf, checkIssuer } from './issuer-identity.ts'
import { answerKnock, joinedOf, takeJoined } from './knock.ts'
import { certifyIfOwner, namesIn } from './owners.ts'
import { revoke } from './revoking.ts'
import type { Roster } from './roster.ts'
import type { OwnStanding } from './standing.ts'
import type { Trust } from './trust.ts'

export const joinProtocol = '/nfltr/join/1.0.0'

/** What a process needs to play the issuer: the book, whose lock it holds, and the key that signs. */
export interface IssuerRole {
  readonly book: IssuerBook
  readonly signer: IssuerKey
}

export interface IssuerSide {
  readonly role: IssuerRole
  readonly standing: OwnStanding
  readonly roster: Roster
  readonly trust: Trust
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
    checkMesh(side, start)
    const { inviteId } = start
    if (inviteId === undefined) return await answerKnock(frames, side)
    const invite = await findInvite(side, inviteId)
    const nonce = side.random.bytes(32)
    const proofOf = proofs(side, { invite, issuerNonce: nonce, joinerNonce: start.nonce })
    await frames.send(encodeHandshake(challengeOf(side, { nonce, proof: proofOf('issuer') })))
    const answer = await receive(frames, 'join_proof')
    if (!proofsEqual(answer.proof, proofOf('joiner'))) {
      throw new NfltrError('invite_invalid', 'The joiner did not prove that it has the invite.')
    }
    side.onProven()
    await checkAddresses(answer, side)
    const { envelope, membership } = await issueMembership(side.role.book, side.role.signer, {
      inviteId: invite.inviteId,
      joinerPeerId: side.joinerPeerId,
      nameWanted: answer.nameWanted,
      nowMs: side.wallMs(),
      serialAbove: side.roster.highestSerial(),
      ...namesIn(side),
      retire: (machinePeerId) => retire(side, machinePeerId),
    })
    await certifyIfOwner(side, membership)
    await side.roster.take(
      { membership: envelope, addressRecords: [answer.addressRecord] },
      { seenAtMs: side.wallMs() },
    )
    await frames.send(encodeHandshake(joinedOf(side, envelope)))
    return membership
  } catch (error) {
    throw await refuse(frames, error)
  }
}

/** The machine whose name is taken over: whatever it was a member as, it is no more. */
async function retire(side: IssuerSide, machinePeerId: string): Promise<void> {
  const serial = side.roster.entryOf(machinePeerId)?.membership.body.serial
  if (serial === undefined) return
  const { trust, role } = side
  await revoke({ trust, ...role, nowMs: side.wallMs() }, [{ peerId: machinePeerId, serial }])
}

function checkMesh(side: IssuerSide, { meshId }: JoinStart): void {
  if (meshId === undefined || meshId === side.standing.meshId) return
  throw new NfltrError('wrong_mesh', 'The joiner asks for another mesh than the one of this issuer.')
}

async function findInvite(side: IssuerSide, inviteId: string): Promise<InviteRecord> {
  const invite = await side.role.book.findInvite(inviteId)
  if (invite !== undefined) return invite
  throw new NfltrError('invite_invalid', 'The issuer knows no such invite.', { hint: askAgain })
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

async function checkAddresses(answer: JoinProof, side: IssuerSide): Promise<void> {
  const record = await openAddressRecord(answer.addressRecord, { meshId: side.standing.meshId })
  if (record.peerId !== side.joinerPeerId) {
    throw new NfltrError('bad_signature', 'The joiner’s address record is of another process.')
  }
}

/** What a joiner is and says of itself, with or without an invite. */
export interface JoinerFacts {
  readonly joinerPeerId: string
  /** Proven by Noise. */
  readonly issuerPeerId: string
  readonly nameWanted?: string
  readonly softwareVersion: string
  readonly os: string
  readonly arch: string
  readonly random: Random
  readonly wallMs: () => number
}

export interface JoinerSide extends JoinerFacts {
  /** Names the issuer's key. */
  readonly invite: Invite
  /** Signed for the invite's mesh; the joiner listens before it joins. */
  readonly addressRecord: Uint8Array
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
  await checkInviter(challenge, side, proofOf('issuer'))
  await frames.send(encodeHandshake(proofMessage(side, proofOf('joiner'))))
  const joined = await receive(frames, 'joined')
  return takeJoined(joined, { meshId, joinerPeerId: side.joinerPeerId })
}

async function checkInviter(challenge: JoinChallenge, side: JoinerSide, proof: Uint8Array): Promise<void> {
  const { meshId } = side.invite
  if (challenge.meshId !== meshId)
    throw new NfltrError('wrong_mesh', 'The issuer belongs to another mesh than the invite.')
  if (!proofsEqual(challenge.proof, proof)) {
    throw new NfltrError('invite_invalid', 'The issuer did not prove that it made the invite.', { hint: askAgain })
  }
  await checkIssuer(challenge, {
    meshId,
    issuerPeerId: side.issuerPeerId,
    ownPeerId: side.joinerPeerId,
    wallMs: side.wallMs(),
  })
}

function proofMessage(side: JoinerSide, proof: Uint8Array): JoinProof {
  const { nameWanted, addressRecord, softwareVersion, os, arch } = side
  const facts = { addressRecord, softwareVersion, os, arch, rolesWanted: [] }
  return { type: 'join_proof', proof, ...facts, ...(nameWanted === undefined ? {} : { nameWanted }) }
}

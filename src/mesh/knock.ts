import { NfltrError } from '../core/errors.ts'
import { isDueForRenewal, isMachineName, type Membership, mayRenew, type Role, roles } from '../core/membership.ts'
import { admitKnocker, type Issued } from '../identity/admission.ts'
import { openAddressRecord, openMembership } from '../identity/envelopes.ts'
import { fingerprintOf } from '../identity/keys.ts'
import { renewMembership } from '../identity/renewing.ts'
import type { KnockRecord } from '../ports/home.ts'
import { encodeHandshake, type JoinChallenge, type Joined, type JoinProof } from '../wire/handshake-codec.ts'
import type { FrameStream } from './frame-stream.ts'
import { heedingRefusal, receive } from './hello.ts'
import { challengeOf, checkIssuer, issuersShown } from './issuer-identity.ts'
import type { IssuerSide, JoinedMembership, JoinerFacts } from './join.ts'
import { certifyIfOwner, namesIn } from './owners.ts'

/** A knock proves nothing but its key; the field is not optional on the wire. */
const noProof = new Uint8Array(32)

/**
 * The issuer's half of a knock: a machine without an invite asks to be let in. It is remembered for the owner to see, and
 * told to come again, until an owner has answered; then the owner's answer counts and nothing that the machine says.
 *
 * @returns the new member
 * @throws {NfltrError} `knock_pending`, `knock_denied`, `queue_full`, `name_taken`
 */
export async function answerKnock(frames: FrameStream, side: IssuerSide): Promise<Membership> {
  await frames.send(encodeHandshake(challengeOf(side, { nonce: side.random.bytes(32), proof: noProof })))
  const said = await receive(frames, 'join_proof')
  const { book, signer } = side.role
  const record = await openAddressRecord(said.addressRecord, { meshId: side.standing.meshId })
  if (record.peerId !== side.joinerPeerId) {
    throw new NfltrError('bad_signature', 'The address record is of another process.')
  }
  const nowMs = side.wallMs()
  const member = await memberAgain(side)
  if (member !== undefined) return await letIn(frames, side, { ...member, addressRecord: said.addressRecord })
  const answer = await book.findAnswer(side.joinerPeerId, nowMs)
  if (answer === undefined) {
    await book.addKnock(knockOf(said, { peerId: side.joinerPeerId, address: record.addresses[0], nowMs }))
    throw new NfltrError('knock_pending', 'No owner has answered yet.', {
      hint: 'On the owner’s machine: nfltr mesh pending, then nfltr mesh approve',
    })
  }
  side.onProven()
  const serialAbove = side.roster.highestSerial()
  const holder = namesIn(side).holderOf(answer.name)
  if (answer.isApproved && holder !== undefined && holder !== answer.peerId) throw nameTaken(answer.name)
  const issued = await admitKnocker(book, signer, { answer, nowMs, serialAbove })
  return await letIn(frames, side, { ...issued, addressRecord: said.addressRecord })
}

function nameTaken(name: string): NfltrError {
  return new NfltrError('name_taken', `The name ${name} belongs to another machine of the mesh.`, {
    hint: 'Let the owner approve it under another: nfltr mesh approve FINGERPRINT --name NAME',
    details: { name },
  })
}

/** A machine that is a member, was perhaps away for too long, and was not revoked: it gets its newest membership, renewed. */
async function memberAgain(side: IssuerSide): Promise<Issued | undefined> {
  const known = side.roster.entryOf(side.joinerPeerId)?.membership
  const nowMs = side.wallMs()
  if (known === undefined || !mayRenew(known.body, nowMs)) return undefined
  if (side.trust.objectionTo(known.body) !== undefined) return undefined
  side.onProven()
  if (!isDueForRenewal(known.body, nowMs)) return { envelope: known.envelope, membership: known.body }
  const { book, signer } = side.role
  return await renewMembership(book, signer, {
    membership: known.body,
    nowMs,
    serialAbove: side.roster.highestSerial(),
  })
}

async function letIn(
  frames: FrameStream,
  side: IssuerSide,
  issued: Issued & { readonly addressRecord: Uint8Array },
): Promise<Membership> {
  const { envelope, membership, addressRecord } = issued
  await certifyIfOwner(side, membership)
  await side.roster.take({ membership: envelope, addressRecords: [addressRecord] }, { seenAtMs: side.wallMs() })
  await frames.send(encodeHandshake(joinedOf(side, envelope)))
  return membership
}

export function joinedOf(side: IssuerSide, membership: Uint8Array): Joined {
  const { trust, standing } = side
  const issuerCertificates = trust.certificateEnvelopes()
  const successions = trust.successionEnvelopes()
  const issuerMembership = standing.membership
  return { type: 'joined', membership, issuerMembership, issuerCertificates, relays: [], successions }
}

/** What is kept of a knock: texts that could be anything are checked against what they should be, or left out. */
function knockOf(
  said: JoinProof,
  from: { readonly peerId: string; readonly address: string | undefined; readonly nowMs: number },
): KnockRecord {
  const name = said.nameWanted ?? ''
  return {
    peerId: from.peerId,
    fingerprint: fingerprintOf(from.peerId),
    ...(isMachineName(name) ? { name } : {}),
    roles: roles.filter((role) => said.rolesWanted.includes(role)),
    ...(from.address === undefined ? {} : { address: from.address }),
    sinceMs: from.nowMs,
  }
}

export interface KnockerSide extends JoinerFacts {
  /** Decides by what the issuer proved whether this is the mesh that was meant. Nothing is said to another. */
  readonly accepts: (meshId: string) => boolean
  readonly rolesWanted: readonly Role[]
  readonly addressRecordFor: (meshId: string) => Promise<Uint8Array>
}

/**
 * The knocking machine's half, up to the point where the issuer has proven which mesh it issues for.
 *
 * @returns that mesh's id
 * @throws {NfltrError} as `checkIssuer`
 */
export function meetIssuer(frames: FrameStream, side: JoinerFacts): Promise<JoinChallenge> {
  return heedingRefusal(frames, async () => {
    await frames.send(encodeHandshake({ type: 'join_start', nonce: side.random.bytes(32) }))
    const challenge = await receive(frames, 'join_challenge')
    await checkIssuer(challenge, {
      meshId: challenge.meshId,
      issuerPeerId: side.issuerPeerId,
      ownPeerId: side.joinerPeerId,
      wallMs: side.wallMs(),
    })
    return challenge
  })
}

/**
 * Asks once to be let in.
 *
 * @throws {NfltrError} `knock_pending` while nobody has answered; `knock_denied`; `wrong_mesh` where another mesh answered
 *   than the one that was meant, before anything was said to it
 */
export function knockOnce(frames: FrameStream, side: KnockerSide): Promise<JoinedMembership> {
  return heedingRefusal(frames, async () => {
    const { meshId } = await meetIssuer(frames, side)
    if (!side.accepts(meshId)) {
      throw new NfltrError(
        'wrong_mesh',
        `The mesh ${fingerprintOf(meshId)} answered, which is not the one that was named.`,
        {
          hint: 'Compare the fingerprint with `nfltr mesh show` on the owner’s machine.',
          details: { mesh_fingerprint: fingerprintOf(meshId) },
        },
      )
    }
    const { nameWanted, softwareVersion, os, arch, rolesWanted } = side
    await frames.send(
      encodeHandshake({
        type: 'join_proof',
        proof: noProof,
        addressRecord: await side.addressRecordFor(meshId),
        softwareVersion,
        os,
        arch,
        rolesWanted,
        ...(nameWanted === undefined ? {} : { nameWanted }),
      }),
    )
    return takeJoined(await receive(frames, 'joined'), { meshId, joinerPeerId: side.joinerPeerId })
  })
}

/** Takes only a membership for its own key from the mesh that was meant. @throws {NfltrError} `bad_signature` */
export async function takeJoined(
  joined: Joined,
  expected: { readonly meshId: string; readonly joinerPeerId: string },
): Promise<JoinedMembership> {
  const { meshId } = expected
  const { membership, issuerMembership, issuerCertificates, relays, successions } = joined
  const body = await openMembership(membership, await issuersShown(joined, meshId))
  if (body.machinePeerId !== expected.joinerPeerId) {
    throw new NfltrError('bad_signature', 'The issuer sent a membership of another machine.')
  }
  const line = successions.length === 0 ? {} : { successions }
  return { meshId, membership, issuerMembership, issuerCertificates, relays, ...line, body }
}

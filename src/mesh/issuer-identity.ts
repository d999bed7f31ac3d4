import { NfltrError } from '../core/errors.ts'
import { isWithin, judgeClaimant } from '../core/membership.ts'
import { openIssuerCertificate, openMembership, openProcessCertificate } from '../identity/envelopes.ts'
import type { JoinChallenge } from '../wire/handshake-codec.ts'
import type { IssuerCertificate } from '../wire/record-codec.ts'
import type { OwnStanding } from './standing.ts'
import type { Trust } from './trust.ts'

/** What an issuer shows of itself to a machine that is no member. */
export function challengeOf(
  side: { readonly standing: OwnStanding; readonly trust: Trust },
  proven: { readonly nonce: Uint8Array; readonly proof: Uint8Array },
): JoinChallenge {
  const { meshId, membership, certificate } = side.standing
  return {
    type: 'join_challenge',
    meshId,
    issuerMembership: membership,
    issuerCertificate: certificate ?? new Uint8Array(0),
    issuerCertificates: side.trust.certificateEnvelopes(),
    ...proven,
  }
}

/**
 * Checks that the process at the other end issues for a mesh: its machine's membership chains to the mesh key, and its
 * certificate is for the key that the connection proved.
 *
 * @throws {NfltrError} `bad_signature`, or why it is not what it says
 */
export async function checkIssuer(
  challenge: JoinChallenge,
  expected: {
    readonly meshId: string
    readonly issuerPeerId: string
    readonly ownPeerId: string
    readonly wallMs: number
  },
): Promise<void> {
  const { meshId, issuerPeerId, ownPeerId, wallMs } = expected
  const certificates = await certificatesOf(challenge.issuerCertificates, meshId)
  const membership = await openMembership(challenge.issuerMembership, { meshId, certificates })
  const certificate = await openProcessCertificate(challenge.issuerCertificate, {
    machinePeerId: membership.machinePeerId,
  })
  const refusal = judgeClaimant({
    remotePeerId: issuerPeerId,
    ownPeerId,
    meshId,
    membership,
    certificate,
    claimedKind: 'issuer',
    wallMs,
  })
  if (refusal === undefined) return
  throw new NfltrError(refusal, 'The issuer is not what it should be.', {
    ...(isWithin(membership, wallMs) ? {} : { hint: 'Check the clock of this machine.' }),
  })
}

/** @throws {NfltrError} `bad_signature` for one that the mesh key did not sign */
export function certificatesOf(
  envelopes: readonly Uint8Array[],
  meshId: string,
): Promise<readonly IssuerCertificate[]> {
  return Promise.all(envelopes.map((envelope) => openIssuerCertificate(envelope, { meshId })))
}

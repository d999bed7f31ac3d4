import { NfltrError } from '../core/errors.ts'
import { isWithin, judgeClaimant } from '../core/membership.ts'
import { countingKeys } from '../core/mesh-line.ts'
import { type Issuers, openIssuerCertificate, openMembership, openProcessCertificate } from '../identity/envelopes.ts'
import { lineOf, meshClosed } from '../identity/mesh-keys.ts'
import type { JoinChallenge } from '../wire/handshake-codec.ts'
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
    successions: side.trust.successionEnvelopes(),
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
  const membership = await openMembership(challenge.issuerMembership, await issuersShown(challenge, meshId))
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

/**
 * Who may sign, by what an issuer shows of it to a machine that knows nothing but the first key of the mesh.
 *
 * @throws {NfltrError} `bad_signature` for a certificate that the mesh key did not sign; `mesh_closed`
 */
export async function issuersShown(
  shown: Pick<JoinChallenge, 'issuerCertificates' | 'successions'>,
  meshId: string,
): Promise<Issuers> {
  const line = await lineOf(meshId, shown.successions)
  if (line.dispute !== undefined) throw meshClosed(line.dispute)
  const meshKeys = countingKeys(line)
  const open = (envelope: Uint8Array) => openIssuerCertificate(envelope, { meshId, meshKeys })
  return { meshId, meshKeys, certificates: await Promise.all(shown.issuerCertificates.map(open)) }
}

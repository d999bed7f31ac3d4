import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { byHolder, isDueForRenewal, type Membership, mayRenew } from '../core/membership.ts'
import { signIssuerCertificate } from '../identity/envelopes.ts'
import type { IssuerKey } from '../identity/issuer-key.ts'
import type { IssuerSide } from './join.ts'
import type { Trust } from './trust.ts'

/**
 * Lets a further owner's machine sign for the mesh (rule 17): its own key, under an issuer's id, serials and list of its
 * own. A certificate that is young enough stands; an older one goes on with a later end, so that what it covered stays
 * covered. Known here, and on disk, when it resolves; the roster brings it to everybody else.
 *
 * @throws {NfltrError} `not_owner` where the mesh key is not here: no owner makes owners but by it
 */
export async function certifyOwner(
  trust: Trust,
  signer: IssuerKey,
  owner: { readonly machinePeerId: string; readonly nowMs: number },
): Promise<void> {
  const { meshId, key, isMeshKey } = signer
  const { machinePeerId, nowMs } = owner
  if (!isMeshKey) throw onlyMeshKey()
  const known = trust.certificateOf(machinePeerId)
  if (known !== undefined && !isDueForRenewal(known, nowMs)) return
  const envelope = await signIssuerCertificate(key, {
    meshId,
    issuerId: machinePeerId,
    keyPeerId: machinePeerId,
    issuedAtMs: known?.issuedAtMs ?? nowMs,
    expiresAtMs: nowMs + limits.membershipTermMs,
  })
  await trust.takeCertificates([envelope])
}

/** Names as the whole mesh has them: a name belongs to whoever has it and is live, whichever owner let it in. */
export function namesIn(side: IssuerSide): {
  readonly holderOf: (name: string) => string | undefined
  readonly isOut: (machinePeerId: string) => boolean
} {
  const { roster, trust } = side
  const isLive = (membership: Membership): boolean =>
    trust.objectionTo(membership) === undefined && mayRenew(membership, side.wallMs())
  return {
    holderOf: (name) =>
      roster
        .entries()
        .map((entry) => entry.membership.body)
        .filter((body) => body.name === name && isLive(body))
        .sort(byHolder)[0]?.machinePeerId,
    isOut: (machinePeerId) => {
      const known = roster.entryOf(machinePeerId)?.membership.body
      return known !== undefined && !isLive(known)
    },
  }
}

/** An owner signs for the mesh with its own key, under a certificate of the mesh key. */
export async function certifyIfOwner(side: IssuerSide, membership: Membership): Promise<void> {
  if (!membership.roles.includes('owner') || membership.machinePeerId === side.standing.body.machinePeerId) return
  const { machinePeerId } = membership
  await certifyOwner(side.trust, side.role.signer, { machinePeerId, nowMs: side.wallMs() })
}

export function onlyMeshKey(): NfltrError {
  return new NfltrError('not_owner', 'Only the mesh key makes owners, and it is not on this machine.', {
    hint: 'Run it on the machine that ran `nfltr mesh create`, or that imported its key.',
  })
}

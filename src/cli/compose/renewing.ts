import type { Membership } from '../../core/membership.ts'
import { loadIssuerKey } from '../../identity/issuer-key.ts'
import { fingerprintOf } from '../../identity/keys.ts'
import type { Home } from '../../ports/home.ts'
import type { Context } from '../compose.ts'
import { findMember } from './find-member.ts'
import { instant } from './instant.ts'
import { openMeshProcess } from './mesh-process.ts'
import { untilHeard } from './until-heard.ts'

type Document = Readonly<Record<string, unknown>>

/**
 * `nfltr mesh renew`: a new term for a member, which takes it from whoever it meets.
 *
 * @throws {NfltrError} `not_owner`, `not_found`, `revoked`, `membership_expired` where it is over for too long
 */
export async function renewByName(context: Context, home: Home, name: string): Promise<Document> {
  const signer = await loadIssuerKey(home)
  const around = await openMeshProcess(context, { home, kind: 'cli' })
  try {
    const { mesh, machine } = around
    const member = findMember(mesh.members(), name)
    const { machinePeerId } = member
    const renewed = await mesh.renew({ book: home.issuer, signer }, { machinePeerId })
    const isOwn = machinePeerId === machine.peerId
    const heard = isOwn
      ? new Set()
      : await untilHeard(mesh, [machinePeerId], (said) => said.ownSerial >= renewed.serial)
    return { renewed: membershipDocument(renewed), delivered: isOwn || heard.has(machinePeerId) }
  } finally {
    await around.close()
  }
}

export function membershipDocument(membership: Membership): Document {
  const { name, machinePeerId, roles, issuedAtMs, expiresAtMs } = membership
  return {
    name,
    peer_id: machinePeerId,
    fingerprint: fingerprintOf(machinePeerId),
    roles,
    issued_at: instant(issuedAtMs),
    expires_at: instant(expiresAtMs),
  }
}

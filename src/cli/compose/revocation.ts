import { NfltrError } from '../../core/errors.ts'
import { loadIssuerKey } from '../../identity/issuer-key.ts'
import { fingerprintOf } from '../../identity/keys.ts'
import type { MeshHost } from '../../mesh/peers.ts'
import type { Home } from '../../ports/home.ts'
import type { MemberFacts } from '../../ports/peers.ts'
import type { Context } from '../compose.ts'
import { findMember } from './find-member.ts'
import { instant } from './instant.ts'
import { type MeshProcess, openMeshProcess } from './mesh-process.ts'
import { untilHeard } from './until-heard.ts'

type Document = Readonly<Record<string, unknown>>

/** How long members are listened to before a list is published, in milliseconds. */
export const listenFirstMs = 1_500

/**
 * `nfltr mesh revoke`: takes a machine's membership away. It holds on this machine when the list is on disk; the others are
 * told here and now as far as they can be reached, and hear it from any member that has it when they come back.
 *
 * @throws {NfltrError} `not_owner`, `not_found`, `invalid_argument` for this machine itself
 */
export async function revokeMember(context: Context, home: Home, name: string): Promise<Document> {
  const signer = await loadIssuerKey(home)
  const around = await openMeshProcess(context, { home, kind: 'cli' })
  try {
    const { mesh, machine } = around
    const member = findMember(mesh.members(), name)
    if (member.machinePeerId === machine.peerId) {
      throw new NfltrError('invalid_argument', 'This machine cannot revoke itself.', {
        hint: 'Revoke it from the machine of another owner.',
        details: { argument: 'name' },
      })
    }
    // What this issuer has published elsewhere, before its key came here or its home was put back, is not to be contradicted.
    await untilHeard(mesh, otherMembers(mesh, machine.peerId), () => true, { withinMs: listenFirstMs, firstPassMs: 0 })
    const version = await mesh.revoke({ book: home.issuer, signer }, [member.machinePeerId])
    return {
      revoked: { ...nameOf(member), fingerprint: fingerprintOf(member.machinePeerId), roles: member.roles },
      ...(await whoHeard(around, { issuerId: signer.issuerId, version })),
    }
  } finally {
    await around.close()
  }
}

/** Takes an issuer's list to the other members. @returns who has said that it has it, and who has not */
export async function whoHeard(
  { mesh, machine }: Pick<MeshProcess, 'mesh' | 'machine'>,
  list: { readonly issuerId: string; readonly version: number },
): Promise<Document> {
  const { issuerId, version } = list
  const asked = new Set(otherMembers(mesh, machine.peerId))
  const others = mesh.members().filter(({ machinePeerId }) => asked.has(machinePeerId))
  const confirmed = await untilHeard(mesh, [...asked], ({ revocations }) => (revocations.get(issuerId) ?? 0) >= version)
  const own = { name: machine.membership.name, peer_id: machine.peerId }
  return {
    version,
    confirmed: [own, ...others.filter(({ machinePeerId }) => confirmed.has(machinePeerId)).map(nameOf)],
    unconfirmed: others
      .filter(({ machinePeerId }) => !confirmed.has(machinePeerId))
      .map((one) => ({
        ...nameOf(one),
        ...(one.lastSeenAtMs === undefined ? {} : { last_seen_at: instant(one.lastSeenAtMs) }),
      })),
  }
}

/** Machines of every member that is one, but this. */
export function otherMembers(mesh: MeshHost, ownPeerId: string): readonly string[] {
  return mesh
    .members()
    .filter((one) => one.revokedAtMs === undefined && one.machinePeerId !== ownPeerId)
    .map((one) => one.machinePeerId)
}

function nameOf(member: MemberFacts): { readonly name: string; readonly peer_id: string } {
  return { name: member.name, peer_id: member.machinePeerId }
}

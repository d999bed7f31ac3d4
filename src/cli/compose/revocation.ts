import { NfltrError } from '../../core/errors.ts'
import { loadIssuerKey } from '../../identity/issuer-key.ts'
import { fingerprintOf } from '../../identity/keys.ts'
import type { MeshHost } from '../../mesh/peers.ts'
import type { Home } from '../../ports/home.ts'
import type { MemberFacts } from '../../ports/peers.ts'
import type { Context } from '../compose.ts'
import { findMember } from './find-member.ts'
import { instant } from './instant.ts'
import { openMeshProcess } from './mesh-process.ts'

type Document = Readonly<Record<string, unknown>>

/** How long members are looked for before they count as not having confirmed, in milliseconds. */
const confirmWithinMs = 5_000

/** How often the confirmations are looked at, in milliseconds. */
const lookEveryMs = 50

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
    const version = await mesh.revoke({ book: home.issuer, signer }, [member.machinePeerId])
    const others = mesh.members().filter((one) => one.revokedAtMs === undefined && one.machinePeerId !== machine.peerId)
    const confirmed = await confirmations(mesh, others, { issuerId: signer.issuerId, version })
    const own = { name: machine.membership.name, peer_id: machine.peerId }
    return {
      revoked: { ...nameOf(member), fingerprint: fingerprintOf(member.machinePeerId), roles: member.roles },
      version,
      confirmed: [own, ...others.filter(({ machinePeerId }) => confirmed.has(machinePeerId)).map(nameOf)],
      unconfirmed: others
        .filter(({ machinePeerId }) => !confirmed.has(machinePeerId))
        .map((one) => ({
          ...nameOf(one),
          ...(one.lastSeenAtMs === undefined ? {} : { last_seen_at: instant(one.lastSeenAtMs) }),
        })),
    }
  } finally {
    await around.close()
  }
}

/** The machines of which a process has said, after it applied the list, that it has it. */
async function confirmations(
  mesh: MeshHost,
  members: readonly MemberFacts[],
  list: { readonly issuerId: string; readonly version: number },
): Promise<ReadonlySet<string>> {
  for (const { machinePeerId } of members) mesh.want(machinePeerId)
  const confirmed = new Set<string>()
  for (let waitedMs = 0; waitedMs < confirmWithinMs && confirmed.size < members.length; waitedMs += lookEveryMs) {
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
    for (const { peerId, machinePeerId } of mesh.connected()) {
      if ((mesh.appliedBy(peerId).get(list.issuerId) ?? 0) >= list.version) confirmed.add(machinePeerId)
    }
  }
  return confirmed
}

function nameOf(member: MemberFacts): { readonly name: string; readonly peer_id: string } {
  return { name: member.name, peer_id: member.machinePeerId }
}

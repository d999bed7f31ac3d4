import type { MeshHost } from '../../mesh/peers.ts'

/**
 * Whether a member that was greeted needs this process no more: it has heard of everybody who is a member here, or has gone by
 * itself. Whoever let it in may be the only one that it can reach.
 */
export function isSettledIn(
  mesh: Pick<MeshHost, 'connected' | 'appliedBy' | 'members'>,
  machinePeerId: string,
): boolean {
  const link = mesh.connected().find((peer) => peer.machinePeerId === machinePeerId)
  if (link === undefined) return true
  const heardOf = mesh.appliedBy(link.peerId)?.members
  const others = mesh.members().filter((member) => member.revokedAtMs === undefined)
  return heardOf !== undefined && others.every((member) => heardOf.has(member.machinePeerId))
}

import type { Applied, MeshHost } from '../../mesh/peers.ts'

/** How long members are looked for before they count as not having heard, in milliseconds. */
const heardWithinMs = 5_000

/** How often it is looked at, in milliseconds. */
const lookEveryMs = 50

/**
 * Takes news to members, and waits a bounded time for their word that they have it.
 *
 * @returns the machines of which a process has said, after it applied the news, that it has them
 */
export async function untilHeard(
  mesh: MeshHost,
  machinePeerIds: readonly string[],
  hasHeard: (applied: Applied) => boolean,
  withinMs: number = heardWithinMs,
): Promise<ReadonlySet<string>> {
  for (const machinePeerId of machinePeerIds) mesh.want(machinePeerId)
  const asked = new Set(machinePeerIds)
  const heard = new Set<string>()
  for (let waitedMs = 0; waitedMs < withinMs && heard.size < asked.size; waitedMs += lookEveryMs) {
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
    for (const { peerId, machinePeerId } of mesh.connected()) {
      const applied = mesh.appliedBy(peerId)
      if (applied !== undefined && asked.has(machinePeerId) && hasHeard(applied)) heard.add(machinePeerId)
    }
  }
  return heard
}

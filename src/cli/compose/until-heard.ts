import type { Applied, MeshHost } from '../../mesh/peers.ts'

/** How long members are looked for before they count as not having heard, in milliseconds. */
const heardWithinMs = 5_000

/** What eight stale addresses of a member cost, each with its time, and a little; in milliseconds. */
const everyAddressTriedMs = 15_000

/** How often it is looked at, in milliseconds. */
const lookEveryMs = 50

export interface HearingOptions {
  readonly withinMs?: number
  /**
   * How long, where it is longer, members are waited for that are connected and have not said it yet, or of which not every
   * address has been tried, in milliseconds: on a busy machine that may take longer than the time for those that are away.
   */
  readonly firstPassMs?: number
  /** Whether a member shows in another way that it has the news. */
  readonly hasShown?: (machinePeerId: string) => boolean
}

/**
 * Takes news to members, and waits a bounded time for their word that they have it.
 *
 * @returns the machines of which a process has said, after it applied the news, that it has them
 */
export async function untilHeard(
  mesh: Pick<MeshHost, 'want' | 'connected' | 'appliedBy' | 'whyNotConnected'>,
  machinePeerIds: readonly string[],
  hasHeard: (applied: Applied) => boolean,
  { withinMs = heardWithinMs, firstPassMs = everyAddressTriedMs, hasShown = () => false }: HearingOptions = {},
): Promise<ReadonlySet<string>> {
  for (const machinePeerId of machinePeerIds) mesh.want(machinePeerId)
  const asked = new Set(machinePeerIds)
  const heard = new Set<string>()
  const isUntried = (machinePeerId: string): boolean =>
    !heard.has(machinePeerId) && mesh.whyNotConnected(machinePeerId) === undefined
  const isTime = (waitedMs: number): boolean =>
    waitedMs < withinMs || (waitedMs < firstPassMs && machinePeerIds.some(isUntried))
  for (let waitedMs = 0; heard.size < asked.size && isTime(waitedMs); waitedMs += lookEveryMs) {
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
    for (const { peerId, machinePeerId } of mesh.connected()) {
      const applied = mesh.appliedBy(peerId)
      if (applied !== undefined && asked.has(machinePeerId) && hasHeard(applied)) heard.add(machinePeerId)
    }
    for (const machinePeerId of machinePeerIds) if (hasShown(machinePeerId)) heard.add(machinePeerId)
  }
  return heard
}

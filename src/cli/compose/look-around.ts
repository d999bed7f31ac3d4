import type { LanStatus, RefusalNotice, RosterEntry, TrustAlarm } from '../../mesh/peers.ts'
import type { Home } from '../../ports/home.ts'
import type { MemberFacts } from '../../ports/peers.ts'
import type { Context } from '../compose.ts'
import { openMeshProcess } from './mesh-process.ts'

/** How long a look around listens for members before it says what it knows, in milliseconds. */
const lookAroundMs = 1_500

export interface Surroundings {
  /** Names of all members but this machine and those that were revoked. */
  readonly others: readonly string[]
  /** Names of those that answered a hello just now. */
  readonly online: readonly string[]
  /** Their machines' PeerIds. */
  readonly onlinePeerIds: ReadonlySet<string>
  /** Everything the roster has, revoked members too. */
  readonly members: readonly MemberFacts[]
  readonly directory: readonly RosterEntry[]
  readonly alarms: readonly TrustAlarm[]
  readonly lan: LanStatus
  /** What refused hellos said while this looked. */
  readonly refusals: readonly RefusalNotice[]
  /** Why a member did not answer, where an attempt failed. */
  readonly whyNot: (machinePeerId: string) => string | undefined
}

/** Says hello to every member that can be reached, so that *online* is a fact and not a memory. */
export async function lookAround(context: Context, home: Home): Promise<Surroundings> {
  const around = await openMeshProcess(context, { home, kind: 'cli' })
  try {
    const { mesh, machine } = around
    const others = mesh
      .members()
      .filter((member) => member.machinePeerId !== machine.peerId && member.revokedAtMs === undefined)
    const missing = new Set(others.map((member) => member.machinePeerId))
    for (const peerId of missing) mesh.want(peerId)
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, lookAroundMs)
      const done = (): void => {
        clearTimeout(timer)
        resolve()
      }
      if (missing.size === 0) done()
      const heard = (peerId: string): void => {
        missing.delete(peerId)
        if (missing.size === 0) done()
      }
      mesh.watch({ up: (peer) => heard(peer.machinePeerId), down: () => undefined })
    })
    const onlinePeerIds = new Set(mesh.connected().map((peer) => peer.machinePeerId))
    const reasons = new Map(
      others.flatMap(({ machinePeerId }) => {
        const why = mesh.whyNotConnected(machinePeerId)
        return why === undefined ? [] : [[machinePeerId, why.message] as const]
      }),
    )
    return {
      others: others.map((member) => member.name),
      online: others.filter((member) => onlinePeerIds.has(member.machinePeerId)).map((member) => member.name),
      onlinePeerIds,
      members: mesh.members(),
      directory: mesh.directory(),
      alarms: mesh.alarms(),
      lan: mesh.lanStatus(),
      refusals: mesh.refusalNotices(),
      whyNot: (machinePeerId) => reasons.get(machinePeerId),
    }
  } finally {
    await around.close()
  }
}

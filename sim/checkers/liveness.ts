import type { OpenEntry } from '../../src/core/inbox-state.ts'
import type { NodeAttempt } from '../../src/core/node-attempt-state.ts'
import type { HubProcess } from '../hub-process.ts'
import type { NodeProcess } from '../node-process.ts'
import { laneOn, recordsOn, type Scene } from '../scene.ts'
import type { Checker } from './checker.ts'

/** After everything healed, all work ends and is read, and nothing is left over (V1, V2). */
export function liveness(): Checker {
  return {
    name: 'liveness',
    atEnd(scene, fail) {
      for (const reason of whatIsLeft(scene)) fail(reason)
    },
  }
}

/** What still has to happen before the world is at rest: empty when it is. */
export function whatIsLeft({ hubs, nodes, workloads }: Scene): readonly string[] {
  const waiting = workloads.flatMap(({ hub, isDone }) => (isDone ? [] : [`${hub.name} has not read everything`]))
  return [
    ...waiting,
    ...hubs.flatMap((hub) => leftOfHub(hub, nodes)),
    ...nodes.flatMap((node) => leftOfNode(node, hubs)),
  ]
}

function leftOfHub(hub: HubProcess, nodes: readonly NodeProcess[]): readonly string[] {
  const open = recordsOn<OpenEntry>(hub.disk, 'hub/open/')
  return [
    ...(hub.hub === undefined ? [`${hub.name} is not up`] : []),
    ...open.map(({ value }) => `entry ${value.deliveryId} of ${hub.name} is ${value.state}`),
    ...nodes.flatMap((node) => undelivered(hub, { as: hub.hubId, to: node, remote: node.self.peerId })),
  ]
}

function leftOfNode(node: NodeProcess, hubs: readonly HubProcess[]): readonly string[] {
  const attempts = recordsOn<NodeAttempt>(node.disk, 'node/attempt/').map(({ value }) => value)
  const unsettled = attempts.filter(
    ({ phase, receipt, end }) => phase !== 'declined' && receipt === undefined && end?.keeperGone === undefined,
  )
  return [
    ...(node.node === undefined ? [`${node.name} is not up`] : []),
    ...unsettled.map(({ phase, ref }) => `the attempt ${ref.attemptId} is ${phase} on ${node.name}, without a receipt`),
    ...node.machine.live.map(({ attemptId }) => `the keeper of ${attemptId} still runs on ${node.name}`),
    ...hubs.flatMap((hub) => undelivered(node, { as: node.self.peerId, to: hub, remote: hub.hubId })),
  ]
}

type Party = HubProcess | NodeProcess

/** Messages that one side has numbered and the other has not applied. */
function undelivered(
  from: Party,
  lane: { readonly as: string; readonly to: Party; readonly remote: string },
): readonly string[] {
  const sent = laneOn(from.disk, lane.remote)?.sent ?? 0
  const received = laneOn(lane.to.disk, lane.as)?.received ?? 0
  return sent === received ? [] : [`${lane.to.name} has ${received} of ${sent} messages of ${from.name}`]
}

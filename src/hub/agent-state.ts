import type { AgentState } from '../core/model.ts'
import { type Agent, agentStateOf } from '../core/task-record.ts'
import type { EndedAs } from './records.ts'
import type { HubWorld } from './world.ts'

/**
 * The state that is shown of an agent. One that could go on is closed for as long as its machine is no node of the mesh: no
 * message reaches it. Were the machine let in again, what it kept is there to go on with.
 */
export function agentState(world: Pick<HubWorld, 'nodes'>, agent: Agent): AgentState {
  return shownState(world, endedAs(agent))
}

/** The same from what the index says of an agent that has ended. */
export function shownState({ nodes }: Pick<HubWorld, 'nodes'>, ended: EndedAs): AgentState {
  return shownWhere(ended, (peerId) => nodes.gone(peerId) !== undefined)
}

/** @param isGone - whether a machine left: what is idle there cannot go on */
export function shownWhere({ state, peerId }: EndedAs, isGone: (peerId: string) => boolean): AgentState {
  return state === 'idle' && peerId !== '' && isGone(peerId) ? 'closed' : state
}

export function endedAs(agent: Agent): EndedAs {
  return { state: agentStateOf(agent), peerId: agent.home?.peerId ?? '' }
}

/** Whether the machine that has the agent's session left the mesh or was revoked. */
export function isHomeGone({ nodes }: Pick<HubWorld, 'nodes'>, agent: Agent): boolean {
  return agent.home !== undefined && nodes.gone(agent.home.peerId) !== undefined
}

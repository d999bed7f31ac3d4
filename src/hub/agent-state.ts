import type { AgentState } from '../core/model.ts'
import { type Agent, agentStateOf } from '../core/task-record.ts'
import type { HubWorld } from './world.ts'

/**
 * The state that is shown of an agent. One that could go on is closed for as long as its machine is no node of the mesh: no
 * message reaches it. Were the machine let in again, what it kept is there to go on with.
 */
export function agentState(world: Pick<HubWorld, 'nodes'>, agent: Agent): AgentState {
  const state = agentStateOf(agent)
  return state === 'idle' && isHomeGone(world, agent) ? 'closed' : state
}

/** Whether the machine that has the agent's session left the mesh or was revoked. */
export function isHomeGone({ nodes }: Pick<HubWorld, 'nodes'>, agent: Agent): boolean {
  return agent.home !== undefined && nodes.gone(agent.home.peerId) !== undefined
}

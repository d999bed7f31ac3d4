import { type AgentState, noUsage, type Usage } from '../core/model.ts'
import { unsettledAttempts } from '../core/task.ts'
import { type Agent, agentStateOf, isActive, usageOf } from '../core/task-record.ts'

/**
 * All agents by their ids, and apart from them those that something may still come of: a hub keeps the records of a hundred
 * thousand that ended, and asks with every message and every second what runs.
 */
export class AgentIndex {
  /** In the order in which they were spawned. */
  readonly #all: Map<string, Agent>
  readonly #open = new Map<string, Agent>()
  /** Of all that are not open: whoever attaches to a hub asks for the sums first. */
  readonly #closedStates = new Map<string, { readonly state: AgentState; readonly peerId: string; count: number }>()
  #closedUsage: Usage = noUsage
  #newest: Agent | undefined

  /** @param agents - oldest first */
  constructor(agents: readonly Agent[]) {
    this.#all = new Map(agents.map((agent) => [agent.agentId, agent]))
    for (const agent of agents) {
      if (isOpen(agent)) this.#open.set(agent.agentId, agent)
      else this.#count(agent, 1)
    }
    this.#newest = agents.at(-1)
  }

  get(agentId: string): Agent | undefined {
    return this.#all.get(agentId)
  }

  set(agent: Agent): void {
    const before = this.#all.get(agent.agentId)
    if (before !== undefined && !this.#open.has(agent.agentId)) this.#count(before, -1)
    this.#all.set(agent.agentId, agent)
    if (isOpen(agent)) this.#open.set(agent.agentId, agent)
    else {
      this.#open.delete(agent.agentId)
      this.#count(agent, 1)
    }
    if (agent.no >= (this.#newest?.no ?? 0)) this.#newest = agent
  }

  /** Oldest first. */
  all(): readonly Agent[] {
    return [...this.#all.values()]
  }

  /** Agents with a turn that has not ended, or an attempt whose end was never told; oldest first. */
  open(): readonly Agent[] {
    return [...this.#open.values()].sort((a, b) => a.no - b.no)
  }

  /**
   * How many agents are in each state.
   *
   * @param isGone - whether a machine left: what is idle there cannot go on
   */
  states(isGone: (peerId: string) => boolean): Readonly<Record<string, number>> {
    const states: Record<string, number> = {}
    const count = (state: AgentState, peerId: string, more: number): void => {
      const shown = state === 'idle' && peerId !== '' && isGone(peerId) ? 'closed' : state
      if (more > 0) states[shown] = (states[shown] ?? 0) + more
    }
    for (const { state, peerId, count: closed } of this.#closedStates.values()) count(state, peerId, closed)
    for (const agent of this.#open.values()) count(agentStateOf(agent), agent.home?.peerId ?? '', 1)
    return states
  }

  /** What all turns of all agents used. */
  usage(): Usage {
    return [...this.#open.values()].map(usageOf).reduce((sum, one) => added(sum, one, 1), this.#closedUsage)
  }

  #count(agent: Agent, sign: 1 | -1): void {
    const state = agentStateOf(agent)
    const peerId = agent.home?.peerId ?? ''
    const known = this.#closedStates.get(`${state} ${peerId}`) ?? { state, peerId, count: 0 }
    known.count += sign
    this.#closedStates.set(`${state} ${peerId}`, known)
    this.#closedUsage = added(this.#closedUsage, usageOf(agent), sign)
  }

  /** The number that the next agent takes. */
  get nextNo(): number {
    return (this.#newest?.no ?? 0) + 1
  }
}

/** Costs are sums of fractions: what is taken away again must not leave a trace of rounding. */
function added(sum: Usage, one: Usage, sign: 1 | -1): Usage {
  return {
    inputTokens: sum.inputTokens + sign * one.inputTokens,
    outputTokens: sum.outputTokens + sign * one.outputTokens,
    costUsd: Math.round((sum.costUsd + sign * one.costUsd) * 1e9) / 1e9,
    durationMs: sum.durationMs + sign * one.durationMs,
  }
}

function isOpen(agent: Agent): boolean {
  return isActive(agent) || unsettledAttempts(agent).length > 0
}

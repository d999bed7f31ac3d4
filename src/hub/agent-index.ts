import { unsettledAttempts } from '../core/task.ts'
import { type Agent, isActive } from '../core/task-record.ts'

/**
 * All agents by their ids, and apart from them those that something may still come of: a hub keeps the records of a hundred
 * thousand that ended, and asks with every message and every second what runs.
 */
export class AgentIndex {
  /** In the order in which they were spawned. */
  readonly #all: Map<string, Agent>
  readonly #open = new Map<string, Agent>()
  #newest: Agent | undefined

  /** @param agents - oldest first */
  constructor(agents: readonly Agent[]) {
    this.#all = new Map(agents.map((agent) => [agent.agentId, agent]))
    for (const agent of agents) if (isOpen(agent)) this.#open.set(agent.agentId, agent)
    this.#newest = agents.at(-1)
  }

  get(agentId: string): Agent | undefined {
    return this.#all.get(agentId)
  }

  set(agent: Agent): void {
    this.#all.set(agent.agentId, agent)
    if (isOpen(agent)) this.#open.set(agent.agentId, agent)
    else this.#open.delete(agent.agentId)
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

  /** The number that the next agent takes. */
  get nextNo(): number {
    return (this.#newest?.no ?? 0) + 1
  }
}

function isOpen(agent: Agent): boolean {
  return isActive(agent) || unsettledAttempts(agent).length > 0
}

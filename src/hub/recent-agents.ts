import type { Agent } from '../core/task-record.ts'
import type { Transaction } from '../runtime/engine.ts'

/** Agents that ended and stay in memory, since what ended last is asked for next; a few KiB each. */
const recentMax = 256

/** The agents that ended last, or were asked for last. One whose change is not on disk yet stays, whatever their number. */
export class RecentAgents {
  /** The one that was not asked for the longest first. */
  readonly #agents = new Map<string, Agent>()
  /** Changes of an agent that are not on disk yet. */
  readonly #unsynced = new Map<string, number>()

  get(agentId: string): Agent | undefined {
    const agent = this.#agents.get(agentId)
    if (agent !== undefined) this.add(agent)
    return agent
  }

  /** As it is on disk, or will be by a change that {@link holdUntilDurable} knows of. */
  add(agent: Agent): void {
    this.#agents.delete(agent.agentId)
    this.#agents.set(agent.agentId, agent)
    this.#trim()
  }

  delete(agentId: string): void {
    this.#agents.delete(agentId)
  }

  holdUntilDurable(tx: Transaction, agentId: string): void {
    this.#unsynced.set(agentId, (this.#unsynced.get(agentId) ?? 0) + 1)
    tx.afterDurable(() => {
      const left = (this.#unsynced.get(agentId) ?? 1) - 1
      if (left > 0) this.#unsynced.set(agentId, left)
      else this.#unsynced.delete(agentId)
      this.#trim()
    })
  }

  #trim(): void {
    if (this.#agents.size <= recentMax) return
    for (const agentId of this.#agents.keys()) {
      if (this.#unsynced.has(agentId)) continue
      this.#agents.delete(agentId)
      if (this.#agents.size <= recentMax) return
    }
  }
}

import { isGoneFor, whyGone } from '../core/membership.ts'
import type { MemberFacts, Peers, Unsubscribe } from '../ports/peers.ts'
import type { Engine, Transaction } from '../runtime/engine.ts'
import type { Agents } from './agents.ts'

export interface MembersGoneParts {
  readonly engine: Engine
  readonly peers: Peers
  readonly agents: Agents
  /** Empties the outbox of a node. */
  readonly voidAll: (tx: Transaction, peerId: string) => void
  /** Places have to be looked for again: what waits for a node that is gone waits no longer. */
  readonly changed: () => void
}

/**
 * Ends what runs on machines that are no nodes of the mesh any more (rule 8, `member_gone`): at once, without waiting for
 * their silence, because what an owner revoked is no longer believed whatever it says, and what left says nothing any more. What was still to be sent there
 * is emptied (rule 15).
 */
export class MembersGone {
  readonly #parts: MembersGoneParts
  readonly #done = new Set<string>()
  #stopWatching: Unsubscribe = () => undefined

  constructor(parts: MembersGoneParts) {
    this.#parts = parts
  }

  start(): void {
    this.#stopWatching = this.#parts.peers.watchMembers(() => this.#look())
    this.#look()
  }

  close(): void {
    this.#stopWatching()
  }

  #look(): void {
    const { peers } = this.#parts
    let isChanged = false
    for (const member of peers.members()) {
      const { machinePeerId } = member
      if (!isGoneFor('node', member)) {
        this.#done.delete(machinePeerId)
      } else if (!this.#done.has(machinePeerId)) {
        this.#done.add(machinePeerId)
        this.#end(member)
        isChanged = true
      }
    }
    if (isChanged) this.#parts.changed()
  }

  #end(member: MemberFacts): void {
    const { machinePeerId: peerId, name } = member
    const { engine, agents, voidAll } = this.#parts
    void engine.transact((tx) => {
      const message = `${name} is no node of the mesh any more: ${whyGone(member)}.`
      const event = { type: 'lost', ground: 'member_gone', message } as const
      for (const { agent, attempt } of agents.aliveOn(peerId)) {
        agents.apply(tx, agent.agentId, { type: 'attempt', attemptId: attempt.attemptId, event })
      }
      voidAll(tx, peerId)
    })
  }
}

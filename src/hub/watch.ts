import { isSilentFor } from '../core/lease.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Peers } from '../ports/peers.ts'
import type { Engine } from '../runtime/engine.ts'
import type { Agents } from './agents.ts'
import type { Nodes } from './nodes.ts'

export interface WatchParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly peers: Peers
  readonly agents: Agents
  readonly nodes: Nodes
  readonly owedSinceMs: (peerId: string) => number | undefined
  /** A node's state changed. */
  readonly changed: () => void
}

const tickMs = 1_000

/** The one-second tick, there only while some contact is in doubt or work depends on it: decides what silence means. */
export class Watch {
  readonly #parts: WatchParts
  #timer: Timer | undefined
  #isClosed = false

  constructor(parts: WatchParts) {
    this.#parts = parts
  }

  /** Ticks from now on if there is anything to watch. */
  kick(): void {
    if (this.#timer !== undefined || this.#isClosed || this.#parts.nodes.watched().length === 0) return
    this.#timer = this.#parts.clock.after(tickMs, () => {
      this.#timer = undefined
      this.#tick()
      this.kick()
    })
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
  }

  #tick(): void {
    const { nodes, clock, owedSinceMs, changed } = this.#parts
    const atMs = clock.nowMs()
    let isChanged = false
    for (const peerId of nodes.watched()) {
      const owed = owedSinceMs(peerId)
      const isLinkProven = this.#isLinkProven(peerId)
      const event = {
        type: 'checked',
        atMs,
        isLinkProven,
        ...(owed === undefined ? {} : { owedSinceMs: owed }),
      } as const
      if (nodes.step(peerId, event)) isChanged = true
      this.#declareLost(peerId)
    }
    if (isChanged) changed()
  }

  /** Silence for the whole of `lost_after`, while the hub could have heard: the only loss that the hub itself declares. */
  #declareLost(peerId: string): void {
    const { agents, nodes, engine } = this.#parts
    const contact = nodes.contactOf(peerId)
    const lost = agents.aliveOn(peerId).filter(({ agent }) => isSilentFor(contact, agent.lostAfterMs))
    if (lost.length === 0) return
    void engine.transact((tx) => {
      for (const { agent, attempt } of lost) {
        const message = `Nothing was heard of ${attempt.machine} for ${agent.lostAfterMs} ms.`
        const event = { type: 'lost', ground: 'silent', message } as const
        agents.apply(tx, agent.agentId, { type: 'attempt', attemptId: attempt.attemptId, event })
      }
    })
  }

  /**
   * Whether the hub's own link works (rule 8): another machine answers. Where the silent one is the only other member,
   * there is nobody to ask, and a hub that is awake has to do.
   */
  #isLinkProven(peerId: string): boolean {
    const { peers } = this.#parts
    const self = peers.self.machinePeerId
    const isOther = (machine: string): boolean => machine !== self && machine !== peerId
    if (peers.connected().some((peer) => isOther(peer.machinePeerId))) return true
    return !peers.members().some((member) => isOther(member.machinePeerId))
  }
}

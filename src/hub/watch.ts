import { isSilentFor } from '../core/lease.ts'
import type { Agent } from '../core/task-record.ts'
import { missedMs, type Readings } from '../core/wakefulness.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Liveness } from '../ports/liveness.ts'
import type { Engine } from '../runtime/engine.ts'
import type { Agents } from './agents.ts'
import type { LinkProof } from './link-proof.ts'
import type { Nodes } from './nodes.ts'

export interface WatchParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly liveness: Liveness
  readonly proof: LinkProof
  readonly agents: Agents
  readonly nodes: Nodes
  readonly owedSinceMs: (peerId: string) => number | undefined
  /** A node's state changed. */
  readonly changed: () => void
  /** This process was not running for so long: every link has to prove itself, and every wait begins again. */
  readonly woke: (missedMs: number) => void
  /** Every second, after all that: whoever waits for a time to pass needs no timer of its own. */
  readonly ticked: () => void
}

const tickMs = 1_000

/**
 * The one-second tick: notices that this process was not running (rule 29), and decides what silence means (rule 8). Beside
 * heartbeats it is the only timer of a hub that has nothing to do.
 */
export class Watch {
  readonly #parts: WatchParts
  #timer: Timer | undefined
  #readings: Readings | undefined
  #isClosed = false

  constructor(parts: WatchParts) {
    this.#parts = parts
  }

  start(): void {
    if (this.#isClosed) return
    this.#readings ??= this.#parts.liveness.clocks()
    this.#timer = this.#parts.clock.after(tickMs, () => {
      this.#tick()
      this.#parts.ticked()
      this.start()
    })
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
  }

  #tick(): void {
    const { nodes, clock, owedSinceMs, changed, proof, liveness, woke } = this.#parts
    const atMs = clock.nowMs()
    // One reading a tick: each opens a file.
    const readings = liveness.clocks()
    const missed = this.#readings === undefined ? undefined : missedMs(this.#readings, readings, tickMs)
    this.#readings = readings
    if (missed !== undefined) {
      nodes.wasNotRunning(atMs)
      woke(missed)
      changed()
      return
    }
    let isChanged = false
    const link = proof.look()
    for (const peerId of nodes.watched()) {
      const owed = owedSinceMs(peerId)
      link.seek(peerId)
      const isLinkProven = link.isProven(peerId)
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
    const bound = (agent: Agent): number => nodes.lostAfterMs(peerId, agent)
    const lost = agents.aliveOn(peerId).filter(({ agent }) => isSilentFor(contact, bound(agent)))
    if (lost.length === 0) return
    void engine.transact((tx) => {
      for (const { agent, attempt } of lost) {
        const message = `Nothing was heard of ${attempt.machine} for ${bound(agent)} ms.`
        const event = { type: 'lost', ground: 'silent', message } as const
        agents.apply(tx, agent.agentId, { type: 'attempt', attemptId: attempt.attemptId, event })
      }
    })
  }
}

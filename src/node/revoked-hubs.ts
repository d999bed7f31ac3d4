import { isGoneFor } from '../core/membership.ts'
import { isOpen } from '../core/node-attempt-step.ts'
import type { Peers, Unsubscribe } from '../ports/peers.ts'
import type { Engine } from '../runtime/engine.ts'
import type { Attempts } from './attempts.ts'

export interface RevokedHubsParts {
  readonly engine: Engine
  readonly peers: Peers
  readonly attempts: Attempts
  /** The machine that a hub belongs to. */
  readonly machineOf: (hubId: string) => string | undefined
  /** How far an attempt's driver has read, where it can be given inputs now. */
  readonly liveAt: (attemptId: string) => number | undefined
  readonly wallMs: () => number
  readonly noted: (hubId: string, attemptId: string) => void
}

/**
 * Stops the turns of hubs whose machine may be a hub no longer (rule 15). Their folders, journals and results stay on
 * this machine as evidence; nothing is sent to anyone.
 */
export class RevokedHubs {
  readonly #parts: RevokedHubsParts
  #stopWatching: Unsubscribe = () => undefined

  constructor(parts: RevokedHubsParts) {
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
    const { engine, peers, attempts, machineOf, liveAt, wallMs, noted } = this.#parts
    const gone = new Set(
      peers
        .members()
        .filter((member) => isGoneFor('hub', member))
        .map((member) => member.machinePeerId),
    )
    if (gone.size === 0) return
    const running = attempts.all().filter((state) => {
      const machine = machineOf(state.hubId)
      return isOpen(state) && state.stop === undefined && machine !== undefined && gone.has(machine)
    })
    if (running.length === 0) return
    void engine.transact((tx) => {
      for (const { hubId, ref, fence } of running) {
        const { attemptId } = ref
        const commandId = `${attemptId}.revoked`
        // The node's own word: whatever epoch the hub has reached, this counts.
        const message = { type: 'stop', commandId, ref: { ...ref, epoch: fence } } as const
        attempts.dispatch(
          tx,
          { hubId, attemptId },
          { type: 'stop', message, liveAt: liveAt(attemptId), atMs: wallMs() },
        )
        noted(hubId, attemptId)
      }
    })
  }
}

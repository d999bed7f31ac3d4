import { isGoneFor } from '../core/membership.ts'
import type { Peers, Unsubscribe } from '../ports/peers.ts'
import { type StoppingParts, stopOpen } from './stopping.ts'

export interface RevokedHubsParts extends StoppingParts {
  readonly peers: Peers
  /** The machine that a hub belongs to. */
  readonly machineOf: (hubId: string) => string | undefined
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
    const { peers, machineOf, noted } = this.#parts
    const gone = new Set(
      peers
        .members()
        .filter((member) => isGoneFor('hub', member))
        .map((member) => member.machinePeerId),
    )
    if (gone.size === 0) return
    const isOfGone = (hubId: string): boolean => gone.has(machineOf(hubId) ?? '')
    void stopOpen(this.#parts, { why: 'revoked', concerns: ({ hubId }) => isOfGone(hubId), noted })
  }
}

import { type ClaimPolicy, resultReservedBytes } from '../core/node-attempt-claim.ts'
import type { Decline } from '../core/node-attempt-state.ts'
import { heldBy } from '../core/slots.ts'
import { freeFor, leaveTurns, noTurns, slotFreed, type Turns, turnMs, waitForTurn } from '../core/turns.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Attempts } from './attempts.ts'

export interface SharingParts {
  readonly clock: Clock
  readonly attempts: Attempts
  readonly maxAgentsPerHub: number | undefined
  /** What a hub has not acknowledged. */
  readonly outboxBytes: (hubId: string) => number
  /** A turn that was not taken is over: the slot is everybody's. */
  readonly turnOver: () => void
}

/** How several hubs share this node: slots in turn, a bound for each, and room for every result before a turn is taken in. */
export class Sharing {
  readonly #parts: SharingParts
  #turns: Turns = noTurns
  #heldBefore = 0
  #timer: Timer | undefined

  constructor(parts: SharingParts) {
    this.#parts = parts
  }

  policyFor(hubId: string): Pick<ClaimPolicy, 'hubId' | 'maxAgentsPerHub' | 'freeForHub' | 'outboxBytes'> {
    const { attempts, maxAgentsPerHub, outboxBytes } = this.#parts
    this.look()
    const open = attempts.open().filter((state) => state.hubId === hubId).length
    return {
      hubId,
      maxAgentsPerHub,
      freeForHub: this.#inTurn(hubId),
      outboxBytes: outboxBytes(hubId) + open * resultReservedBytes,
    }
  }

  /** Free slots as this hub may use them now. */
  freeFor(hubId: string): number {
    const { attempts, maxAgentsPerHub } = this.#parts
    const own =
      maxAgentsPerHub === undefined ? Number.POSITIVE_INFINITY : maxAgentsPerHub - heldBy(attempts.slots, hubId)
    return Math.max(0, Math.min(this.#inTurn(hubId), own))
  }

  /** A claim of the hub was answered: it has its slot, or waits for one. */
  answered(hubId: string, decline: Decline | undefined): void {
    if (decline === undefined) this.#turns = leaveTurns(this.#turns, hubId)
    else if (decline.reason === 'declined' && !decline.isPermanent) {
      this.#turns = waitForTurn(this.#turns, hubId, this.#parts.clock.nowMs())
    }
  }

  /** Notices slots that became free. */
  look(): void {
    const { attempts, clock } = this.#parts
    const held = attempts.slots.held.size
    const isFreed = held < this.#heldBefore
    this.#heldBefore = held
    if (!isFreed) return
    this.#turns = slotFreed(this.#turns, clock.nowMs())
    if (this.#turns.waiting.length === 0) return
    this.#timer?.cancel()
    this.#timer = clock.after(turnMs + 1, () => this.#parts.turnOver())
  }

  close(): void {
    this.#timer?.cancel()
  }

  #inTurn(hubId: string): number {
    const { attempts, clock } = this.#parts
    const { slots } = attempts
    const free = Math.max(0, slots.maxAgents - slots.held.size)
    return freeFor(this.#turns, { hubId, free, nowMs: clock.nowMs() })
  }
}

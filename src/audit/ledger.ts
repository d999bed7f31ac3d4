import type { HistoryEvent } from '../core/history.ts'
import type { Outcome } from '../core/model.ts'
import type { AuditEvent } from './events.ts'

/** How often a result was accepted and given out, and when, by its hub's history. Times are the hub's wall clock. */
export interface ResultAccount {
  readonly taskId: string
  readonly turn: number
  readonly outcome: Outcome
  readonly deliveryId: number
  readonly isLate: boolean
  readonly accepted: number
  readonly acceptedAtMs: number
  /** Replies that carried it and of which something was written. */
  readonly delivered: number
  readonly deliveredAtMs?: number
  readonly confirmedAtMs?: number
  /** It may not have been read, and every reply names it until one that did is. */
  readonly isNamed: boolean
  readonly isSettled: boolean
}

export interface AgentAccount {
  readonly agentId: string
  readonly turns: number
  readonly receipts: number
  readonly results: readonly ResultAccount[]
}

interface Result extends Omit<ResultAccount, 'isNamed' | 'isSettled' | 'accepted' | 'delivered'> {
  accepted: number
  delivered: number
  deliveredAtMs?: number
  confirmedAtMs?: number
  isNamed: boolean
  isSettled: boolean
}

/** What became of each agent's results: accepted once, delivered once, and when. */
export class Ledger {
  readonly #agents = new Map<string, { turns: number; receipts: number; readonly results: Result[] }>()
  readonly #results = new Map<number, Result>()
  readonly #offers = new Map<string, readonly number[]>()

  see(event: AuditEvent): void {
    if (event.type === 'decided') this.#decided(event.event)
  }

  /** In the order in which the agents were asked for. */
  agents(): readonly AgentAccount[] {
    return [...this.#agents].map(([agentId, account]) => ({ agentId, ...account }))
  }

  #decided(event: HistoryEvent): void {
    switch (event.type) {
      case 'turn_asked':
        this.#of(event.agentId).turns += 1
        break
      case 'receipt_taken':
        this.#of(event.agentId).receipts += 1
        break
      case 'result':
        this.#accepted(event)
        break
      case 'offered':
        this.#offers.set(event.offerId, event.carries)
        for (const result of this.#carriedBy(event.offerId)) {
          result.delivered += 1
          result.deliveredAtMs = event.atMs
        }
        break
      case 'withdrawn':
        for (const result of this.#carriedBy(event.offerId)) result.delivered -= 1
        break
      case 'confirmed':
        for (const result of this.#carriedBy(event.offerId)) result.confirmedAtMs = event.atMs
        break
      case 'doubted':
        for (const deliveryId of event.deliveryIds) this.#change(deliveryId, (result) => (result.isNamed = true))
        break
      case 'settled':
        for (const deliveryId of event.deliveryIds) {
          this.#change(deliveryId, (result) => {
            result.isNamed = false
            result.isSettled = true
          })
        }
        break
      default:
    }
  }

  #accepted(event: Extract<HistoryEvent, { type: 'result' }>): void {
    const { agentId, taskId, turn, outcome, deliveryId, isLate, atMs } = event
    const { results } = this.#of(agentId)
    const same = results.find((result) => result.taskId === taskId && result.isLate === (isLate === true))
    if (same !== undefined) {
      same.accepted += 1
      return
    }
    const result: Result = {
      taskId,
      turn,
      outcome,
      deliveryId,
      isLate: isLate === true,
      accepted: 1,
      acceptedAtMs: atMs,
      delivered: 0,
      isNamed: false,
      isSettled: false,
    }
    results.push(result)
    this.#results.set(deliveryId, result)
  }

  #carriedBy(offerId: string): readonly Result[] {
    return (this.#offers.get(offerId) ?? []).flatMap((deliveryId) => this.#results.get(deliveryId) ?? [])
  }

  #change(deliveryId: number, change: (result: Result) => void): void {
    const result = this.#results.get(deliveryId)
    if (result !== undefined) change(result)
  }

  #of(agentId: string) {
    const known = this.#agents.get(agentId)
    if (known !== undefined) return known
    const fresh = { turns: 0, receipts: 0, results: [] as Result[] }
    this.#agents.set(agentId, fresh)
    return fresh
  }
}

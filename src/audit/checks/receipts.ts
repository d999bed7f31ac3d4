import type { Check, Fail, Watch } from '../check.ts'
import type { KeptReceipt, KeptTask } from '../events/records.ts'
import type { AuditEvent } from '../events.ts'

/**
 * Receipts of one node and hub form one chain, each signed by its node, without a fork or a gap; an attempt has one; none
 * that was taken is missing.
 */
export const receipts: Check = { name: 'receipts', begin: () => new Receipts() }

class Receipts implements Watch {
  readonly #chains = new Map<string, Map<string, KeptReceipt>>()
  readonly #ids = new Set<string>()
  readonly #agentOf = new Map<string, string>()
  readonly #tasks: { readonly agentId: string; readonly task: KeptTask }[] = []
  /** Where in the history a receipt was taken, and up to where that was over when the record was begun to be read. */
  readonly #takenAt = new Map<string, number>()
  #recordedUpTo = 0
  #isOfHub = false

  see(event: AuditEvent, fail: Fail): void {
    switch (event.type) {
      case 'receipt_kept': {
        const key = `${event.node} ${event.hubId}`
        const chain = this.#chains.get(key) ?? new Map<string, KeptReceipt>()
        this.#chains.set(key, chain.set(event.receiptId, event))
        this.#ids.add(event.receiptId)
        break
      }
      case 'receipt_refused': {
        const { agentId, message, receiptId } = event
        this.#ids.add(receiptId)
        fail({ message, ...(agentId === undefined ? {} : { agentId }) })
        break
      }
      case 'agent_kept':
        for (const task of event.tasks) {
          this.#tasks.push({ agentId: event.agentId, task })
          for (const { attemptId } of task.attempts) this.#agentOf.set(attemptId, event.agentId)
        }
        break
      case 'decided':
        if (event.event.type === 'receipt_taken') this.#takenAt.set(event.event.receiptId, event.event.seq)
        break
      case 'history_read':
        this.#isOfHub = true
        this.#recordedUpTo = event.recordedUpTo
        break
      default:
    }
  }

  end(fail: Fail): void {
    for (const chain of this.#chains.values()) this.#checkChain(chain, fail)
    if (!this.#isOfHub) return
    for (const { agentId, task } of this.#tasks) {
      const { receiptId, turn } = task
      if (receiptId === undefined || this.#ids.has(receiptId)) continue
      fail({ agentId, message: `the receipt ${receiptId} of turn ${turn} of ${agentId} is missing` })
    }
  }

  #checkChain(chain: ReadonlyMap<string, KeptReceipt>, fail: Fail): void {
    const followed = new Set<string>()
    const settled = new Set<string>()
    // Receipts that were handed over may be a later part of a chain: then the first one follows what is not there.
    let mayBegin = !this.#isOfHub && ![...chain.values()].some(({ previousHash }) => previousHash === '')
    for (const { receiptId, previousHash, attemptId, node, hubId } of chain.values()) {
      const agentId = this.#agentOf.get(attemptId)
      const about = agentId === undefined ? {} : { agentId }
      if (followed.has(previousHash)) {
        fail({ ...about, message: `two receipts of ${node} for ${hubId} follow ${previousHash || 'the beginning'}` })
      }
      // Receipts are read page by page: of a hub that works on, one may come behind the place that was read last, and the one
      // that follows it before.
      const isSince = (this.#takenAt.get(previousHash) ?? 0) > this.#recordedUpTo
      if (previousHash !== '' && !this.#ids.has(previousHash) && !isSince) {
        if (!mayBegin) fail({ ...about, message: `the receipt before ${receiptId} (${attemptId}) is missing` })
        mayBegin = false
      }
      if (settled.has(attemptId)) fail({ ...about, message: `the attempt ${attemptId} has two receipts` })
      followed.add(previousHash)
      settled.add(attemptId)
    }
  }
}

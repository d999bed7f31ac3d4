import type { HistoryEvent } from '../../core/history.ts'
import type { Check, Fail } from '../check.ts'
import type { KeptReceipt } from '../events/records.ts'

/** What is accepted of an attempt comes from the machine it was given to, under the epoch it was given (D7, L3). */
export const owner: Check = {
  name: 'owner',
  begin() {
    const owners = new Map<string, { readonly peerId: string; readonly epoch: number }>()
    // An account has its receipts before the history that says whose the attempts were.
    const receipts: KeptReceipt[] = []
    return {
      see(event, fail) {
        if (event.type === 'decided') judge(owners, event.event, fail)
        if (event.type === 'attempt_on_node') {
          const given = owners.get(event.attemptId)
          const { agentId, attemptId, node, epoch } = event
          if (given !== undefined && given.peerId !== node) {
            fail({ agentId, message: `${node} has the attempt ${attemptId}, which was given to ${given.peerId}` })
          } else if (given !== undefined && given.epoch !== epoch) {
            fail({ agentId, message: `${node} has ${attemptId} at epoch ${epoch}, and it was given at ${given.epoch}` })
          }
        }
        if (event.type === 'receipt_kept') receipts.push(event)
      },
      end(fail) {
        for (const { attemptId, node, receiptId } of receipts) {
          const given = owners.get(attemptId)
          if (given === undefined || given.peerId === node) continue
          fail({ message: `the receipt ${receiptId} of ${attemptId} is signed by ${node}, not by ${given.peerId}` })
        }
      },
    }
  },
}

function judge(
  owners: Map<string, { readonly peerId: string; readonly epoch: number }>,
  event: HistoryEvent,
  fail: Fail,
): void {
  if (event.type === 'attempt_made') {
    owners.set(event.attemptId, { peerId: event.peerId, epoch: event.epoch })
    return
  }
  if (event.type !== 'attempt_became' && event.type !== 'result' && event.type !== 'receipt_taken') return
  const given = event.attemptId === undefined ? undefined : owners.get(event.attemptId)
  if (given === undefined) return
  const { agentId, seq, by } = event
  const what = event.type === 'attempt_became' ? `that it became ${event.phase}` : `a ${event.type.replace('_', ' ')}`
  if (by !== undefined && by !== given.peerId) {
    fail({ agentId, seq, message: `${by} told ${what} of ${event.attemptId}, which was given to ${given.peerId}` })
  }
  if (event.type === 'result' && event.epoch !== undefined && event.epoch !== given.epoch) {
    const message = `a result of ${event.attemptId} was accepted at epoch ${event.epoch}, and it was given at ${given.epoch}`
    fail({ agentId, seq, message })
  }
}

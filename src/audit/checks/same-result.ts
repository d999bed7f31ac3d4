import type { Check } from '../check.ts'

/** A turn has the same result everywhere: as it was accepted, as it is kept, as its node has it and as it signed it (D6). */
export const sameResult: Check = {
  name: 'same-result',
  begin() {
    const accepted = new Map<string, { readonly agentId: string; readonly hash: string; readonly seq: number }>()
    const byAttempt = new Map<string, { readonly agentId: string; readonly hash: string }>()
    const kept: { readonly key: string; readonly hash: string; readonly deliveryId: number }[] = []
    const elsewhere: { readonly attemptId: string; readonly hash: string; readonly who: string }[] = []
    return {
      see(event) {
        if (event.type === 'decided' && event.event.type === 'result') {
          const { deliveryId, agentId, textHash: hash, seq, attemptId, outcome, reason } = event.event
          accepted.set(`${event.hubId} ${deliveryId}`, { agentId, hash, seq })
          // Neither is its node's word: a loss, and an end that could not be applied and was told as that.
          const isItsNodes = outcome !== 'node_lost' && reason !== 'dead_letter'
          if (attemptId !== undefined && isItsNodes) byAttempt.set(attemptId, { agentId, hash })
        }
        if (event.type === 'entry_kept' && event.result?.textHash !== undefined) {
          const { hubId, deliveryId, result } = event
          kept.push({ key: `${hubId} ${deliveryId}`, hash: result.textHash ?? '', deliveryId })
        }
        if (event.type === 'receipt_kept' && event.outcome !== 'node_lost') {
          const { attemptId, resultHash: hash, receiptId } = event
          elsewhere.push({ attemptId, hash, who: `the receipt ${receiptId}` })
        }
        if (event.type === 'attempt_on_node' && event.textHash !== undefined) {
          elsewhere.push({ attemptId: event.attemptId, hash: event.textHash, who: event.node })
        }
      },
      end(fail) {
        for (const { key, hash, deliveryId } of kept) {
          const then = accepted.get(key)
          if (then === undefined || then.hash === hash) continue
          const { agentId, seq } = then
          fail({ agentId, seq, message: `the text of entry ${deliveryId} is not the one that was accepted` })
        }
        for (const { attemptId, hash, who } of elsewhere) {
          const then = byAttempt.get(attemptId)
          if (then === undefined || then.hash === hash) continue
          fail({ agentId: then.agentId, message: `${who} has another result of ${attemptId} than was accepted` })
        }
      },
    }
  },
}

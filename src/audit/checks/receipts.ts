import type { Check } from '../check.ts'
import type { KeptReceipt } from '../events/records.ts'

/** Receipts of one node and hub form one chain without a fork or a gap, and an attempt has one. */
export const receipts: Check = {
  name: 'receipts',
  begin() {
    const chains = new Map<string, Map<string, KeptReceipt>>()
    return {
      see(event) {
        if (event.type !== 'receipt_kept') return
        const key = `${event.node} ${event.hubId}`
        const chain = chains.get(key) ?? new Map<string, KeptReceipt>()
        chains.set(key, chain.set(event.receiptId, event))
      },
      end(fail) {
        for (const chain of chains.values()) {
          const followed = new Set<string>()
          const settled = new Set<string>()
          for (const { receiptId, previousHash, attemptId, node, hubId } of chain.values()) {
            if (followed.has(previousHash)) {
              fail({ message: `two receipts of ${node} for ${hubId} follow ${previousHash || 'the beginning'}` })
            }
            if (previousHash !== '' && !chain.has(previousHash)) {
              fail({ message: `the receipt before ${receiptId} (${attemptId}) is missing` })
            }
            if (settled.has(attemptId)) fail({ message: `the attempt ${attemptId} has two receipts` })
            followed.add(previousHash)
            settled.add(attemptId)
          }
        }
      },
    }
  },
}

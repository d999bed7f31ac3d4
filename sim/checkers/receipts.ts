import type { ReceiptBody, StoredReceipt } from '../../src/core/receipt.ts'
import { decodeRecord } from '../../src/core/record-json.ts'
import type { Checker } from './checker.ts'

/** Receipts of one node and hub form one chain without a fork or a gap. */
export function receipts(): Checker {
  const byId = new Map<string, { readonly body: ReceiptBody; readonly from: string }>()
  return {
    name: 'receipts',
    onFrame({ message, process }) {
      if (message?.work.type !== 'receipt') return
      const { receiptId, envelope } = message.work.receipt satisfies StoredReceipt
      byId.set(receiptId, { body: decodeRecord<ReceiptBody>(envelope), from: process })
    },
    atEnd({ nodes, hubs }, fail) {
      for (const node of nodes) {
        for (const hub of hubs) {
          const own = [...byId].filter(([, { body, from }]) => from === node.name && body.hubId === hub.hubId)
          const previous = new Set<string>()
          for (const [receiptId, { body }] of own) {
            const { previousHash, attemptId } = body
            if (previous.has(previousHash))
              fail(`two receipts of ${node.name} follow ${previousHash || 'the beginning'}`)
            previous.add(previousHash)
            if (previousHash !== '' && !byId.has(previousHash))
              fail(`the receipt before ${receiptId} (${attemptId}) is missing`)
          }
        }
      }
    },
  }
}

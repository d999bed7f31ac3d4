import { describe, expect, test } from 'vitest'
import { checkChain, type ReceiptBody } from '../../src/core/receipt.ts'

function receipt(receiptId: string, previousHash: string, more: Partial<ReceiptBody> = {}) {
  const body: ReceiptBody = {
    hubId: 'hub_1',
    agentId: 'agt_1',
    taskId: `tsk_${receiptId}`,
    attemptId: `att_${receiptId}`,
    attempt: 1,
    owner: 'peer-vm1',
    inputsHash: '00',
    outcome: 'completed',
    resultHash: '00',
    claimedAtMs: 1,
    endedAtMs: 2,
    settledAtMs: 3,
    previousHash,
    ...more,
  }
  return { receiptId, body }
}

describe('a chain of receipts', () => {
  test('is intact when each follows the one before, in whatever order they are shown', () => {
    expect(checkChain([receipt('c', 'b'), receipt('a', ''), receipt('b', 'a')])).toEqual([])
    expect(checkChain([])).toEqual([])
  })

  test('shows a receipt that is missing', () => {
    expect(checkChain([receipt('a', ''), receipt('c', 'b')])).toEqual([{ receiptId: 'c', fault: 'missing_previous' }])
  })

  test('shows a node that signed two histories', () => {
    expect(checkChain([receipt('a', ''), receipt('b', 'a'), receipt('x', 'a')])).toEqual([
      { receiptId: 'x', fault: 'fork' },
    ])
    expect(checkChain([receipt('a', ''), receipt('b', '')])).toEqual([{ receiptId: 'b', fault: 'fork' }])
  })

  test('shows an attempt that was settled twice', () => {
    expect(checkChain([receipt('a', ''), receipt('b', 'a', { attemptId: 'att_a' })])).toEqual([
      { receiptId: 'b', fault: 'attempt_twice' },
    ])
  })
})

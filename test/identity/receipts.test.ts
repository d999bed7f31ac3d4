import { describe, expect, test } from 'vitest'
import type { ReceiptBody, StoredReceipt } from '../../src/core/receipt.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../../src/identity/keys.ts'
import { checkReceipt, checkReceiptChain, makeReceipt } from '../../src/identity/receipts.ts'

const key = await generateKey()
const machinePeerId = peerIdOf(key)

function body(attempt: number, previousHash: string): ReceiptBody {
  return {
    hubId: 'hub',
    agentId: 'agt_1',
    taskId: `tsk_${attempt}`,
    attemptId: `att_${attempt}`,
    attempt,
    owner: machinePeerId,
    inputsHash: 'aa',
    outcome: 'completed',
    resultHash: 'bb',
    claimedAtMs: 1,
    startedAtMs: 2,
    endedAtMs: 3,
    settledAtMs: 4,
    previousHash,
  }
}

async function chain(length: number, signer: PrivateKey = key): Promise<StoredReceipt[]> {
  const receipts: StoredReceipt[] = []
  for (let attempt = 1; attempt <= length; attempt++) {
    receipts.push(await makeReceipt(signer, body(attempt, receipts.at(-1)?.receiptId ?? '')))
  }
  return receipts
}

describe('receipts', () => {
  test('are named by the hash of their bytes', async () => {
    const [receipt] = await chain(1)
    if (receipt === undefined) throw new Error('no receipt')

    expect(receipt.receiptId).toMatch(/^rcp_[0-9a-f]{64}$/)
    expect(await checkReceipt(receipt, { machinePeerId })).toEqual(body(1, ''))
    await expect(
      checkReceipt({ ...receipt, receiptId: `rcp_${'0'.repeat(64)}` }, { machinePeerId }),
    ).rejects.toMatchObject({
      code: 'bad_signature',
    })
  })

  test('form a chain', async () => {
    const receipts = await chain(4)

    expect(await checkReceiptChain(receipts, { machinePeerId, hubId: 'hub' })).toHaveLength(4)
  })

  test.each([0, 1, 2])('a chain without receipt %i is noticed there', async (missing) => {
    const receipts = (await chain(4)).toSpliced(missing, 1)

    await expect(checkReceiptChain(receipts, { machinePeerId, hubId: 'hub' })).rejects.toMatchObject({
      code: 'bad_signature',
      details: { index: missing },
    })
  })

  test('of another machine, or for another hub, do not pass', async () => {
    const forged = await chain(1, await generateKey())

    await expect(checkReceiptChain(forged, { machinePeerId, hubId: 'hub' })).rejects.toMatchObject({
      code: 'bad_signature',
    })
    await expect(checkReceiptChain(await chain(1), { machinePeerId, hubId: 'other' })).rejects.toMatchObject({
      code: 'bad_signature',
    })
  })
})

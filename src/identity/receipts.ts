import { NfltrError } from '../core/errors.ts'
import type { ReceiptBody, StoredReceipt } from '../core/receipt.ts'
import { openReceipt, sealReceipt } from './envelopes.ts'
import { sha256 } from './hash.ts'
import type { PrivateKey } from './keys.ts'
import type { VerifySignature } from './signatures.ts'

/** `rcp_` and the SHA-256 of the envelope in hex: whoever holds the bytes can name them. */
export function receiptIdOf(envelope: Uint8Array): string {
  return `rcp_${Buffer.from(sha256(envelope)).toString('hex')}`
}

/** Signs what became of an attempt, with the key of the machine that did it. */
export async function makeReceipt(machineKey: PrivateKey, body: ReceiptBody): Promise<StoredReceipt> {
  const envelope = await sealReceipt(machineKey, body)
  return { receiptId: receiptIdOf(envelope), envelope }
}

/**
 * @param verify - does the arithmetic elsewhere, for whoever has many to check
 * @throws {NfltrError} `bad_signature` when id, signature or machine do not fit
 */
export async function checkReceipt(
  receipt: StoredReceipt,
  expected: { machinePeerId: string },
  verify?: VerifySignature,
): Promise<ReceiptBody> {
  if (receiptIdOf(receipt.envelope) !== receipt.receiptId) {
    throw new NfltrError('bad_signature', `Receipt ${receipt.receiptId} did not have the id of its bytes.`)
  }
  return openReceipt(receipt.envelope, expected, verify)
}

/**
 * Checks a whole chain of one node and one hub, oldest first, from its very beginning.
 *
 * @returns the bodies, in order
 * @throws {NfltrError} `bad_signature`, with the position of the first receipt that does not follow in `details.index`
 */
export async function checkReceiptChain(
  receipts: readonly StoredReceipt[],
  expected: { machinePeerId: string; hubId: string },
): Promise<readonly ReceiptBody[]> {
  const bodies: ReceiptBody[] = []
  let previousHash = ''
  for (const [index, receipt] of receipts.entries()) {
    const body = await checkReceipt(receipt, expected)
    if (body.previousHash !== previousHash || body.hubId !== expected.hubId) {
      throw new NfltrError('bad_signature', `Receipt ${receipt.receiptId} did not follow the one before it.`, {
        details: { index },
      })
    }
    previousHash = receipt.receiptId
    bodies.push(body)
  }
  return bodies
}

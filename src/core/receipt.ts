import type { Outcome, Reason } from './model.ts'

/**
 * What a node signs about a finished attempt. Receipts of one node and hub form a chain: each carries the hash of the
 * one before, so a missing one shows. A task with a receipt is never done again.
 */
export interface ReceiptBody {
  readonly hubId: string
  readonly agentId: string
  readonly taskId: string
  readonly attemptId: string
  readonly attempt: number
  /** The machine that did the work, by PeerId. */
  readonly owner: string
  /** SHA-256 over the brief's UTF-8 bytes, hex. */
  readonly inputsHash: string
  readonly outcome: Outcome
  readonly reason?: Reason
  /** SHA-256 over the result text's UTF-8 bytes, hex. */
  readonly resultHash: string
  /** Wall-clock milliseconds at the node for each stage it saw. */
  readonly claimedAtMs: number
  readonly startedAtMs?: number
  readonly endedAtMs: number
  readonly settledAtMs: number
  /** `receipt_id` of the receipt before this one of the same node and hub; empty for the first. */
  readonly previousHash: string
}

/** A receipt as it is kept and sent: `receiptId` is `rcp_` and the hash of the envelope. */
export interface StoredReceipt {
  readonly receiptId: string
  readonly envelope: Uint8Array
}

/** What is wrong with a receipt's place in its chain. */
export interface ChainFault {
  readonly receiptId: string
  readonly fault: /** The receipt that it follows is not there: one was lost or withheld. */
    | 'missing_previous'
    /** Another receipt follows the same one: the node signed two histories. */
    | 'fork'
    /** The attempt has another receipt: it was settled twice. */
    | 'attempt_twice'
}

/**
 * Checks the receipts of one node and one hub, in any order, against each other. An intact chain has no faults; which of
 * its receipts is the newest nobody else can know, so a chain that was cut off at its end looks intact.
 */
export function checkChain(
  receipts: readonly { readonly receiptId: string; readonly body: ReceiptBody }[],
): readonly ChainFault[] {
  const ids = new Set(receipts.map((receipt) => receipt.receiptId))
  const followed = new Set<string>()
  const settled = new Set<string>()
  return receipts.flatMap(({ receiptId, body }) => {
    const faults: ChainFault['fault'][] = []
    if (body.previousHash !== '' && !ids.has(body.previousHash)) faults.push('missing_previous')
    if (followed.has(body.previousHash)) faults.push('fork')
    if (settled.has(body.attemptId)) faults.push('attempt_twice')
    followed.add(body.previousHash)
    settled.add(body.attemptId)
    return faults.map((fault) => ({ receiptId, fault }))
  })
}

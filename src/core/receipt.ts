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

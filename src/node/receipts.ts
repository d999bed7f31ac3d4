import type { NodeAttempt } from '../core/node-attempt-state.ts'
import type { ReceiptBody } from '../core/receipt.ts'
import type { Attempts } from './attempts.ts'
import { sha256Hex } from './digest.ts'
import type { NodePorts } from './ports.ts'
import { readResult } from './records.ts'
import type { Sessions } from './sessions.ts'

/**
 * Makes the receipt of each attempt that a hub has collected. Receipts of one hub form a chain, so they are made one after
 * the other; the chain's head moves in the batch that keeps the receipt, so a crash between signing and keeping leaves no
 * gap: the next run signs again, and the envelope that nobody saw does not exist.
 */
export class Receipts {
  readonly #ports: NodePorts
  readonly #attempts: Attempts
  readonly #sessions: Sessions
  readonly #queues = new Map<string, Promise<void>>()

  constructor(ports: NodePorts, attempts: Attempts, sessions: Sessions) {
    this.#ports = ports
    this.#attempts = attempts
    this.#sessions = sessions
  }

  make(attemptId: string): void {
    const hubId = this.#attempts.get(attemptId)?.hubId
    if (hubId === undefined) return
    const queue = (this.#queues.get(hubId) ?? Promise.resolve()).then(() =>
      this.#make(hubId, attemptId).catch((error: unknown) => {
        // Asked for again with the next `collected`, and at the next start.
        this.#ports.note?.({ event: 'receipt_failed', fields: { attempt_id: attemptId, error: String(error) } })
      }),
    )
    this.#queues.set(hubId, queue)
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#queues.values())
  }

  async #make(hubId: string, attemptId: string): Promise<void> {
    const state = this.#attempts.get(attemptId)
    if (state?.phase !== 'collected' || state.receipt !== undefined) return
    const result = await readResult(this.#ports.store, attemptId)
    const previousHash = this.#sessions.record(hubId)?.receiptHead ?? ''
    const receipt = await this.#ports.signReceipt(this.#bodyOf(state, { text: result?.text ?? '', previousHash }))
    const atMs = this.#ports.clock.wallMs()
    await this.#ports.engine.transact((tx) => {
      this.#sessions.setReceiptHead(tx, hubId, receipt.receiptId)
      this.#attempts.dispatch(tx, { hubId, attemptId }, { type: 'receipt', receipt, atMs })
    })
  }

  #bodyOf(state: NodeAttempt, facts: { readonly text: string; readonly previousHash: string }): ReceiptBody {
    const { agentId, taskId, attemptId, epoch } = state.ref
    const nowMs = this.#ports.clock.wallMs()
    const { end, startedAtMs } = state
    return {
      hubId: state.hubId,
      agentId,
      taskId,
      attemptId,
      attempt: epoch,
      owner: this.#ports.peers.self.machinePeerId,
      inputsHash: sha256Hex(state.claim?.request.brief ?? ''),
      // A turn whose keeper is gone counts as lost: that is what the hub was told.
      outcome: end?.keeperGone === undefined ? (end?.outcome ?? 'failed') : 'node_lost',
      ...(end?.reason === undefined ? {} : { reason: end.reason }),
      resultHash: sha256Hex(facts.text),
      claimedAtMs: state.claimedAtMs,
      ...(startedAtMs === undefined ? {} : { startedAtMs }),
      endedAtMs: end?.endedAtMs ?? nowMs,
      settledAtMs: nowMs,
      previousHash: facts.previousHash,
    }
  }
}

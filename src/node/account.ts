import type { NodeAccount, NodeAttemptAccount } from '../core/node-account.ts'
import type { NodeAttempt } from '../core/node-attempt-state.ts'
import { isOpen } from '../core/node-attempt-step.ts'
import type { Store } from '../ports/store.ts'
import { sha256Hex } from './digest.ts'
import { readResult } from './records.ts'

/** What this node has on record of a hub's attempts, tombstones included. Reads only. */
export async function nodeAccount(
  of: { readonly peerId: string; readonly store: Store; readonly attempts: readonly NodeAttempt[] },
  hubId: string,
): Promise<NodeAccount> {
  const attempts: NodeAttemptAccount[] = []
  for (const state of of.attempts) {
    if (state.hubId !== hubId || state.phase === 'declined') continue
    const { agentId, taskId, attemptId, epoch } = state.ref
    // An end that the hub was told as a loss is evidence: the hub has another one.
    const result = state.end?.keeperGone === undefined ? await readResult(of.store, attemptId) : undefined
    attempts.push({
      agentId,
      taskId,
      attemptId,
      epoch,
      hubId,
      isOpen: isOpen(state),
      ...(result === undefined ? {} : { textHash: sha256Hex(result.text) }),
      ...(state.receipt === undefined ? {} : { receiptId: state.receipt.receiptId }),
    })
  }
  return { peerId: of.peerId, attempts }
}

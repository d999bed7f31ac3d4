import { limits } from '../core/limits.ts'
import type { AttemptSummary, NodeMessage, SessionAccept } from '../core/messages.ts'
import type { NodeAttempt } from '../core/node-attempt-state.ts'
import { isOpen } from '../core/node-attempt-step.ts'

type Inventory = (SessionAccept & { readonly type: 'accept' })['inventory']

/** What the node has of a hub: everything that may still run, and every end that the hub has not collected. */
export function inventoryOf(attempts: readonly NodeAttempt[], hubId: string): Inventory {
  const own = attempts.filter((state) => state.hubId === hubId)
  const open = own.filter(isOpen).map((state) => {
    const { attemptId } = state.ref
    if (state.phase === 'claimed') return { attemptId, state: 'claimed', keeper: 'none' } as const
    return { attemptId, state: 'running', keeper: 'live' } as const
  })
  const ended = own
    .filter((state) => state.phase === 'ended')
    .map((state) => ({ attemptId: state.ref.attemptId, state: 'ended', keeper: 'ended' }) as const)
  // Open ones come first: an answer that does not hold all leaves the last ones out, and says so.
  return [...open, ...ended]
}

/**
 * All that the node knows of a hub's attempts, as messages of bounded length: what the hub reconciles by after one of the two
 * stores was lost or put back (rule 6). Oldest first, so that turns come in their order.
 *
 * @param about - `over`: attempts that the store forgot and of which nothing runs any more: their end is still to be read, and
 *   may have been told before
 */
export function wholeInventory(
  attempts: readonly NodeAttempt[],
  about: { readonly hubId: string; readonly orphans: readonly string[]; readonly over: ReadonlySet<string> },
): readonly NodeMessage[] {
  const { hubId, orphans, over } = about
  const own = attempts
    .filter((state) => state.hubId === hubId && state.phase !== 'declined')
    .sort((a, b) => a.claimedAtMs - b.claimedAtMs || a.turn - b.turn)
    .map((state) => summaryOf(state, over))
  const pages: AttemptSummary[][] = []
  for (let from = 0; from === 0 || from < own.length; from += limits.inventoryPageMax) {
    pages.push(own.slice(from, from + limits.inventoryPageMax))
  }
  return pages.map((page, index) => {
    const isLast = index === pages.length - 1
    return {
      type: 'inventory',
      attempts: page,
      orphans: isLast ? orphans.slice(0, limits.inventoryPageMax) : [],
      isLast,
    }
  })
}

function summaryOf(state: NodeAttempt, over: ReadonlySet<string>): AttemptSummary {
  const { ref, turn, claim, claimedAtMs } = state
  const isOver = !isOpen(state) || over.has(ref.attemptId)
  const report = isOver ? 'ended' : state.phase === 'claimed' ? 'claimed' : 'running'
  return { ref, turn, state: report, claimedAtMs, ...(claim?.title === undefined ? {} : { title: claim.title }) }
}

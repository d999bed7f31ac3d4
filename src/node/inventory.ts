import type { SessionAccept } from '../core/messages.ts'
import type { NodeAttempt } from '../core/node-attempt-state.ts'
import { isOpen } from '../core/node-attempt-step.ts'

type Inventory = (SessionAccept & { readonly type: 'accept' })['inventory']

/** Attempts that one opening of a session lists at most; the wire's bound. Open ones come first. */
const inventoryMax = 1000

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
  return [...open, ...ended].slice(0, inventoryMax)
}

/**
 * Serves hubs in turn (rule 28): a hub that was declined for want of a slot gets one of those that become free before a hub
 * that has had one since. Its turn is a short reservation, so that a hub that no longer wants it holds nobody up.
 */
export interface Turns {
  /** Hubs that wait, by when they began to: the first is next. */
  readonly waiting: readonly { readonly hubId: string; readonly sinceMs: number }[]
  /** Monotonic time when a slot became free last. */
  readonly freedAtMs: number
}

/** How long a hub whose turn it is has to claim a slot that became free, in milliseconds. */
export const turnMs = 2_000

export const noTurns: Turns = { waiting: [], freedAtMs: Number.NEGATIVE_INFINITY }

/** A hub was declined for want of a slot: it is in the queue, where it was or at its end. */
export function waitForTurn(turns: Turns, hubId: string, nowMs: number): Turns {
  if (turns.waiting.some((one) => one.hubId === hubId)) return turns
  return { ...turns, waiting: [...turns.waiting, { hubId, sinceMs: nowMs }] }
}

/** A hub got a slot, or went away: the next time it waits it is last. */
export function leaveTurns(turns: Turns, hubId: string): Turns {
  const waiting = turns.waiting.filter((one) => one.hubId !== hubId)
  return waiting.length === turns.waiting.length ? turns : { ...turns, waiting }
}

/** A slot became free: the time of whoever waits for it begins. Those who let an earlier one pass are dropped. */
export function slotFreed(turns: Turns, nowMs: number): Turns {
  const isOver = nowMs - turns.freedAtMs > turnMs
  const waiting = isOver ? turns.waiting.filter((one) => one.sinceMs > turns.freedAtMs) : turns.waiting
  return { waiting, freedAtMs: nowMs }
}

/** How many of the free slots this hub may take: those before it in the queue have one each for as long as their turn is. */
export function freeFor(
  turns: Turns,
  hub: { readonly hubId: string; readonly free: number; readonly nowMs: number },
): number {
  if (hub.nowMs - turns.freedAtMs > turnMs) return hub.free
  const place = turns.waiting.findIndex((one) => one.hubId === hub.hubId)
  const ahead = place === -1 ? turns.waiting.length : place
  return Math.max(0, hub.free - ahead)
}

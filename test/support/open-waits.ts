/**
 * What tests of this process wait for just now. A test that runs out of time says only that it did; test/support/tell-waits.ts
 * adds what was waited for, and the last that was seen of it.
 */
const open = new Set<() => string>()

/**
 * Waits for an event.
 *
 * @param tell - what is waited for, and the last that was seen of it; asked when the time is over
 * @param boundMs - for waits in hooks, whose own time-out tells nothing: the wait fails after this time, and tells
 */
export async function waitingFor<T>(tell: () => string, event: Promise<T>, boundMs?: number): Promise<T> {
  open.add(tell)
  const late = Promise.withResolvers<never>()
  const fail = (): void => late.reject(new Error(`It did not happen within ${boundMs} ms: ${tell()}`))
  const timer = boundMs === undefined ? undefined : setTimeout(fail, boundMs)
  try {
    return await (timer === undefined ? event : Promise.race([event, late.promise]))
  } finally {
    clearTimeout(timer)
    open.delete(tell)
  }
}

export function openWaits(): readonly string[] {
  return [...open].map((tell) => tell())
}

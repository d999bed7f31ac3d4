import { setTimeout as delay } from 'node:timers/promises'

const lookEveryMs = 4

/** Looks until there is something, for a bounded time. @throws {Error} that names what did not happen */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined> | T | undefined,
  boundMs = 30_000,
): Promise<T> {
  const endMs = performance.now() + boundMs
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    if (performance.now() > endMs) throw new Error(`within ${boundMs / 1_000} s it did not happen that ${what}`)
    await delay(lookEveryMs)
  }
}

/** As {@link until}, for a condition. */
export async function untilTrue(what: string, look: () => Promise<boolean> | boolean, boundMs?: number): Promise<void> {
  await until(what, async () => ((await look()) ? true : undefined), boundMs)
}

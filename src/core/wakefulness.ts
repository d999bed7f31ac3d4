/**
 * Whether this process was running (rule 29). No single clock tells: Linux stops the monotonic one in a sleep, a paused
 * virtual machine finds only its wall clock moved on, and a stopped process finds all of them moved. So a tick is late if
 * it is late by any of them.
 */
export interface Readings {
  readonly monotonicMs: number
  readonly wallMs: number
  readonly uptimeMs: number
}

/** A tick that is this late means that the process was not running, in milliseconds. */
export const notRunningMs = 5_000

/**
 * By how much a tick came late, where that means that the process was not running; undefined where it was.
 *
 * @param intervalMs - between two ticks as they were asked for
 */
export function missedMs(before: Readings, now: Readings, intervalMs: number): number | undefined {
  const elapsedMs = Math.max(
    now.monotonicMs - before.monotonicMs,
    now.wallMs - before.wallMs,
    now.uptimeMs - before.uptimeMs,
  )
  const lateMs = elapsedMs - intervalMs
  return lateMs > notRunningMs ? lateMs : undefined
}

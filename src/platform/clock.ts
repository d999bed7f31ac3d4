import process from 'node:process'
import type { Clock, Timer } from '../ports/clock.ts'

/** Longest delay a timer of Node takes; a longer one would fire at once. */
const timerMaxMs = 2 ** 31 - 1

/**
 * The machine's clocks.
 *
 * `nowMs` is CLOCK_MONOTONIC on Linux, which stands still while the machine sleeps. On macOS the same call counts sleep
 * as well; there it is awake time only together with the tick that notices sleep (rule 29).
 */
export function systemClock(): Clock {
  return {
    nowMs: () => Number(process.hrtime.bigint()) / 1e6,
    wallMs: () => Date.now(),
    after: (delayMs, callback) => startTimer(Math.max(0, delayMs), callback),
  }
}

function startTimer(delayMs: number, callback: () => void): Timer {
  let handle: NodeJS.Timeout | undefined
  const startAtMs = process.hrtime.bigint()
  const arm = (): void => {
    const leftMs = delayMs - Number(process.hrtime.bigint() - startAtMs) / 1e6
    handle = leftMs > timerMaxMs ? setTimeout(arm, timerMaxMs) : setTimeout(fire, Math.max(0, Math.ceil(leftMs)))
  }
  // Timers of Node may fire a fraction of a millisecond early by this clock.
  const fire = (): void => {
    if (delayMs - Number(process.hrtime.bigint() - startAtMs) / 1e6 > 0.5) arm()
    else callback()
  }
  arm()
  return { cancel: () => clearTimeout(handle) }
}

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** A start is over by then, and so is the first question that it was for. */
const settledMs = 10_000

/**
 * Gives back once what a start left behind. Loading the program doubles the heap, and a process that then mostly sleeps
 * allocates so little that the runtime would keep the garbage of it for hours.
 */
export function giveBackAfterStart(): void {
  setTimeout(() => {
    setFlagsFromString('--expose-gc')
    const collect: unknown = runInNewContext('gc')
    setFlagsFromString('--no-expose-gc')
    // The kind that also gives pages back to the system. It takes some tens of milliseconds.
    if (typeof collect === 'function') collect({ type: 'major', flavor: 'last-resort' })
  }, settledMs).unref()
}

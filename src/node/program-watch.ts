import type { Clock, Timer } from '../ports/clock.ts'

/** How long after a look that found no program the next one is: it doubles up to the cap. Milliseconds. */
const lookAgainMs = { first: 5_000, cap: 60_000 } as const

/**
 * Looks for the agent program again while there is none: it may have been killed at its first answer, be slow at boot, or be
 * installed only now. Where it was found nothing is looked at any more.
 */
export class ProgramWatch {
  readonly #clock: Clock
  readonly #isMissing: () => boolean
  readonly #look: (signal: AbortSignal) => Promise<void>
  readonly #closing = new AbortController()
  #timer: Timer | undefined
  #delayMs: number = lookAgainMs.first

  /** @param options - `look`: asks the program again, and changes what `isMissing` says */
  constructor(options: {
    readonly clock: Clock
    readonly isMissing: () => boolean
    readonly look: (signal: AbortSignal) => Promise<void>
  }) {
    this.#clock = options.clock
    this.#isMissing = options.isMissing
    this.#look = options.look
  }

  start(): void {
    if (this.#closing.signal.aborted || !this.#isMissing()) return
    this.#timer = this.#clock.after(this.#delayMs, () => {
      this.#look(this.#closing.signal)
        .catch(() => undefined)
        .finally(() => this.start())
    })
    this.#delayMs = Math.min(lookAgainMs.cap, 2 * this.#delayMs)
  }

  close(): void {
    this.#closing.abort()
    this.#timer?.cancel()
  }
}

import type { Clock } from '../ports/clock.ts'
import type { Transaction } from '../runtime/engine.ts'

export interface WaitOptions {
  /** Awake monotonic time at which the wait ends by itself. */
  readonly untilMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * Tells waiting calls that something they may wait for is durable. Nobody polls: whoever is told looks again.
 */
export class Changes {
  readonly #clock: Clock
  readonly #listeners = new Set<() => void>()
  /** Decisions that end with the word of them already. */
  readonly #announced = new WeakSet<Transaction>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  notify(): void {
    for (const listener of [...this.#listeners]) listener()
  }

  /** Tells of a decision once it is on disk; once, whatever it is made up of. */
  notifyAfter(tx: Transaction): void {
    if (this.#announced.has(tx)) return
    this.#announced.add(tx)
    tx.afterDurable(() => this.notify())
  }

  /** Calls back at every change, for as long as this lives. */
  subscribe(listener: () => void): void {
    this.#listeners.add(listener)
  }

  /** Resolves at the next change, at `untilMs`, or when the signal aborts; the caller looks which. */
  next({ untilMs, signal }: WaitOptions): Promise<void> {
    if (signal?.aborted === true) return Promise.resolve()
    return new Promise((resolve) => {
      const finish = (): void => {
        timer?.cancel()
        signal?.removeEventListener('abort', finish)
        this.#listeners.delete(finish)
        resolve()
      }
      this.#listeners.add(finish)
      signal?.addEventListener('abort', finish, { once: true })
      const timer =
        untilMs === undefined ? undefined : this.#clock.after(Math.max(0, untilMs - this.#clock.nowMs()), finish)
    })
  }

  /**
   * Looks until `look` finds something.
   *
   * @returns what was found, or undefined at `untilMs` or when the signal aborted
   */
  async until<T>(look: () => T | undefined, options: WaitOptions): Promise<T | undefined> {
    for (;;) {
      const found = look()
      if (found !== undefined) return found
      if (options.signal?.aborted === true) return undefined
      if (options.untilMs !== undefined && this.#clock.nowMs() >= options.untilMs) return undefined
      await this.next(options)
    }
  }
}

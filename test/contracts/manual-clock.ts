import type { Clock, Timer } from '../../src/ports/clock.ts'

/** A clock that stands still until the test moves it. */
export class ManualClock implements Clock {
  #nowMs = 1_000
  #wallAheadMs = 0
  readonly #timers = new Set<{ readonly atMs: number; readonly callback: () => void }>()

  nowMs(): number {
    return this.#nowMs
  }

  wallMs(): number {
    return 1_700_000_000_000 + this.#nowMs + this.#wallAheadMs
  }

  /** Moves the wall clock alone, as a machine finds it that slept. */
  stepWall(byMs: number): void {
    this.#wallAheadMs += byMs
  }

  after(delayMs: number, callback: () => void): Timer {
    const timer = { atMs: this.#nowMs + delayMs, callback }
    this.#timers.add(timer)
    return { cancel: () => this.#timers.delete(timer) }
  }

  /** Timers that wait. */
  get pending(): number {
    return this.#timers.size
  }

  /** Moves on, and runs what falls due in the order of its time, letting everything that is ready run in between. */
  async advance(byMs: number): Promise<void> {
    const untilMs = this.#nowMs + byMs
    for (;;) {
      const [next] = [...this.#timers].filter((timer) => timer.atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)
      if (next === undefined) break
      this.#timers.delete(next)
      this.#nowMs = Math.max(this.#nowMs, next.atMs)
      next.callback()
      await settle()
    }
    this.#nowMs = untilMs
    await settle()
  }
}

/** Lets everything that is ready run, and what it makes ready. */
export async function settle(turns = 20): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise<void>((resolve) => setImmediate(resolve))
}

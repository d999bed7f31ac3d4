import { systemClock } from '../../src/platform/clock.ts'
import type { Clock, Timer } from '../../src/ports/clock.ts'

interface Held {
  readonly delayMs: number
  readonly callback: () => void
}

/**
 * The machine's clock, but for some timers: they wait until the test lets them go. So a test shows what a bound ends,
 * and what happens without it, and no slow machine reaches the bound before the test is where it wants to be.
 */
export class HeldClock implements Clock {
  readonly #isHeld: (delayMs: number) => boolean
  readonly #real = systemClock()
  readonly #held = new Set<Held>()
  readonly #waiting = new Set<() => void>()

  #wallAheadMs = 0

  /** @param held - which timers are held: those of this delay in milliseconds, or of these */
  constructor(held: number | ((delayMs: number) => boolean)) {
    this.#isHeld = typeof held === 'number' ? (delayMs) => delayMs === held : held
  }

  nowMs(): number {
    return this.#real.nowMs()
  }

  wallMs(): number {
    return this.#real.wallMs() + this.#wallAheadMs
  }

  stepWall(byMs: number): void {
    this.#wallAheadMs += byMs
  }

  after(delayMs: number, callback: () => void): Timer {
    if (!this.#isHeld(delayMs)) return this.#real.after(delayMs, callback)
    const held = { delayMs, callback }
    this.#held.add(held)
    for (const look of [...this.#waiting]) look()
    return { cancel: () => this.#held.delete(held) }
  }

  /** Delays of the timers that are held, in milliseconds. */
  get delaysMs(): readonly number[] {
    return [...this.#held].map(({ delayMs }) => delayMs)
  }

  /** Resolves while this many timers are held. */
  holds(count: number): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (this.#held.size < count) return
        this.#waiting.delete(look)
        resolve()
      }
      this.#waiting.add(look)
      look()
    })
  }

  /** Lets every timer that is held run out now. */
  letGo(): void {
    for (const held of [...this.#held]) {
      this.#held.delete(held)
      held.callback()
    }
  }
}

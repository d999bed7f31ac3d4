import type { Clock } from '../../src/ports/clock.ts'
import type { ClockReadings, Liveness } from '../../src/ports/liveness.ts'

/** The clocks of a machine that runs, each of which a test may move on its own; and a network that it may take away. */
export class ManualLiveness implements Liveness {
  readonly #clock: Clock
  readonly #skippedMs = { monotonicMs: 0, wallMs: 0, uptimeMs: 0 }
  isOnNetwork = true

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** One clock moves on and the others do not. */
  skip(name: keyof ClockReadings, byMs: number): void {
    this.#skippedMs[name] += byMs
  }

  clocks(): ClockReadings {
    const nowMs = this.#clock.nowMs()
    const { monotonicMs, wallMs, uptimeMs } = this.#skippedMs
    return { monotonicMs: nowMs + monotonicMs, wallMs: nowMs + wallMs, uptimeMs: nowMs + uptimeMs }
  }

  hasRoute(): boolean {
    return this.isOnNetwork
  }
}

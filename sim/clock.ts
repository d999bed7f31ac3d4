import type { Clock, Timer } from '../src/ports/clock.ts'
import type { ClockReadings, Liveness } from '../src/ports/liveness.ts'
import type { Life } from './life.ts'
import type { Scheduled } from './schedule.ts'

/** Where virtual time begins on the wall: a label and nothing else. */
const epochMs = Date.UTC(2026, 0, 1)

/** The clocks of one process: its own beginning of monotonic time, and a wall clock that is off by `skewMs`. */
export class SimClock implements Clock, Liveness {
  readonly #life: Life
  readonly #startMs: number
  readonly #skewMs: number
  #looks = 0
  /** Timers that wait: none but heartbeats and ticks may be left in an idle process. */
  pending = 0

  constructor(life: Life, skewMs: number) {
    this.#life = life
    this.#startMs = life.world.nowMs
    this.#skewMs = skewMs
  }

  nowMs(): number {
    return 1_000 + this.#life.world.nowMs - this.#startMs - this.#life.sleptMs
  }

  /** Each look finds it a millisecond on where clocks are not steady, so that a decision that looks twice shows. */
  wallMs(): number {
    if (!this.#life.world.hasSteadyClocks) this.#looks += 1
    return this.#looks + Math.floor(epochMs + this.#life.world.nowMs + this.#skewMs + this.#life.wallOffMs)
  }

  clocks(): ClockReadings {
    return { monotonicMs: this.nowMs(), wallMs: this.wallMs(), uptimeMs: this.#life.world.nowMs }
  }

  /** Networks clog, and interfaces stay. */
  hasRoute(): boolean {
    return true
  }

  after(delayMs: number, callback: () => void): Timer {
    this.pending += 1
    let isOver = false
    const finish = (): boolean => {
      if (isOver) return false
      isOver = true
      this.pending -= 1
      return true
    }
    // As the system's timers: whole milliseconds, at least one, never early, and by the monotonic clock.
    const dueMs = this.nowMs() + Math.max(1, Math.ceil(delayMs))
    const plan = (inMs: number): Scheduled => this.#life.world.after(inMs, () => this.#life.reach(ring))
    const ring = (): void => {
      if (isOver) return
      const leftMs = dueMs - this.nowMs()
      if (leftMs > roundingMs) scheduled = plan(leftMs)
      else if (finish()) callback()
    }
    let scheduled = plan(dueMs - this.nowMs())
    return {
      cancel: () => {
        scheduled.isCancelled = true
        finish()
      },
    }
  }
}

/** How far sums of virtual instants may be off, in milliseconds. */
const roundingMs = 1e-3

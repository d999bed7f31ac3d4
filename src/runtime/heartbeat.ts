import type { Clock, Timer } from '../ports/clock.ts'

export interface HeartbeatLimits {
  readonly heartbeatBusyMs: number
  readonly heartbeatIdleMs: number
  readonly heartbeatMissesMax: number
}

/**
 * Keeps a link proven. Each interval a heartbeat goes out; an interval without a byte from the peer is a miss, and asks
 * for an answer at once, since the peer's own interval may be the long one. Counting ticks and not time, a process that
 * was not running for a while misses once.
 */
export class Heartbeat {
  readonly #options: HeartbeatOptions
  #timer: Timer | undefined
  #isBusy = false
  #isStopped = false
  #heardAtMs: number
  #misses = 0

  constructor(options: HeartbeatOptions) {
    this.#options = options
    this.#heardAtMs = options.lastHeardAtMs()
    this.#arm()
  }

  /** Busy: work runs or waits on this link, so its loss matters soon. */
  setBusy(isBusy: boolean): void {
    if (isBusy === this.#isBusy || this.#isStopped) return
    this.#isBusy = isBusy
    this.#arm()
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  #arm(): void {
    this.#timer?.cancel()
    const { clock, limits } = this.#options
    this.#timer = clock.after(this.#isBusy ? limits.heartbeatBusyMs : limits.heartbeatIdleMs, () => this.#tick())
  }

  #tick(): void {
    if (this.#isStopped) return
    const heardAtMs = this.#options.lastHeardAtMs()
    this.#misses = heardAtMs > this.#heardAtMs ? 0 : this.#misses + 1
    this.#heardAtMs = heardAtMs
    if (this.#misses >= this.#options.limits.heartbeatMissesMax) {
      this.stop()
      this.#options.onDead()
      return
    }
    if (this.#misses > 0) this.#options.ask()
    else this.#options.beat()
    this.#arm()
  }
}

export interface HeartbeatOptions {
  readonly clock: Clock
  readonly limits: HeartbeatLimits
  /** Monotonic time of the last byte from the peer. */
  readonly lastHeardAtMs: () => number
  readonly beat: () => void
  /** Sends something that the peer answers at once. */
  readonly ask: () => void
  readonly onDead: () => void
}

/**
 * What tells a process whether it was running, and whether its machine is on a network (rules 8 and 29). Implementations:
 * `platform` and the simulator's.
 */
export interface Liveness {
  /** The clocks whose jumps tell of a sleep, a pause or a freeze; read at one moment. */
  clocks(): ClockReadings

  /**
   * Whether an interface that is up leads to one of these addresses' networks: proof enough of a machine's own link where
   * there is nobody to ask. Addresses are multiaddrs; loopback leads to loopback alone.
   */
  hasRoute(addresses: readonly string[]): boolean
}

/** In milliseconds, each with its own beginning. */
export interface ClockReadings {
  /** Stands still while Linux sleeps, and while a virtual machine is paused. */
  readonly monotonicMs: number
  readonly wallMs: number
  /** Time since the machine's start, sleep included on most systems. */
  readonly uptimeMs: number
}

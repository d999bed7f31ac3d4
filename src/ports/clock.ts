/** Time. Two clocks, because durations decide and dates only label (rule 29). Implementations: `platform` and the simulator's. */
export interface Clock {
  /** Awake, monotonic milliseconds. The only time that may decide anything but a membership's expiry. */
  nowMs(): number

  /** Wall clock, milliseconds since 1970: for labels, and for memberships. */
  wallMs(): number

  /** Calls back once, `delayMs` from now or later. Late calls are normal; the callee checks whether it still matters. */
  after(delayMs: number, callback: () => void): Timer
}

export interface Timer {
  cancel(): void
}

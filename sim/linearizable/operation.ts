/**
 * One call as its caller saw it. `call` and `return` are ticks of one counter, taken before the request left and after its
 * answer was there; `return` is Infinity where the answer never came: it may have had its effect at any time since, or none.
 */
export interface Operation<Input, Output> {
  readonly key: string
  readonly call: number
  readonly return: number
  readonly input: Input
  /** Absent where nobody knows. */
  readonly output?: Output
}

/** What an object does if it does one thing after the other. Objects of different keys know nothing of each other. */
export interface Model<State, Input, Output> {
  readonly initial: State
  /**
   * The state after an operation; undefined where the object could not have given this output.
   *
   * @param output undefined where nobody knows it
   */
  step(state: State, input: Input, output: Output | undefined): State | undefined
  /** Equal for equal states only. */
  nameOf(state: State): string
}

/** How many operations of the same key were under way at the same time as each, in the mean. Open ones do not count. */
export function meanOverlap(history: readonly Operation<unknown, unknown>[]): number {
  let pairs = 0
  let count = 0
  for (const operations of Map.groupBy(history, ({ key }) => key).values()) {
    const closed = operations.filter((one) => one.return !== Number.POSITIVE_INFINITY).sort((a, b) => a.call - b.call)
    count += closed.length
    for (const [index, one] of closed.entries()) {
      for (let next = index + 1; (closed[next]?.call ?? Number.POSITIVE_INFINITY) < one.return; next++) pairs += 2
    }
  }
  return count === 0 ? 0 : pairs / count
}

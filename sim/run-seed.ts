import { type Outcome, type SimulateOptions, simulate } from './simulate.ts'

/** Every so many seeds are run twice: one seed has to be one history. */
const replayEvery = 25
/** Lines of a stack that explains a failure. */
const stackLines = 25

/**
 * Refusals are part of every run, and a fifth of what a run costs was their stacks. So none is taken until a promise is
 * broken, and then the seed is run again.
 */
export function leaveOutStacks(): void {
  Error.stackTraceLimit = 0
}

/**
 * One seed, checked against a second run of itself where it failed, where its number says so, or where asked.
 *
 * @param options - `isReplayed`: it is run twice in any case
 */
export async function runSeed(
  seed: number,
  { isReplayed, ...options }: SimulateOptions & { readonly isReplayed?: boolean } = {},
): Promise<Outcome> {
  leaveOutStacks()
  const outcome = await simulate(seed, options)
  const isFailed = outcome.violations.length > 0
  if (!isFailed && isReplayed !== true && seed % replayEvery !== 0) return outcome
  if (isFailed) Error.stackTraceLimit = stackLines
  const again = await simulate(seed, withoutWatching(options))
  leaveOutStacks()
  if (again.traceHash === outcome.traceHash) return again
  const message = `the seed gave ${outcome.traceHash} and then ${again.traceHash}`
  const replay = { checker: 'replay', atMs: 0, message }
  return { ...outcome, violations: [...outcome.violations, replay] }
}

function withoutWatching({ onTrace: _trace, onEnd: _end, ...rest }: SimulateOptions): SimulateOptions {
  return rest
}

import { leaveOutStacks } from './run-seed.ts'
import type { Scenario } from './scenario.ts'
import { type Outcome, simulate } from './simulate.ts'

export interface Shrunk {
  /** The faults and calls without which the promise holds. */
  readonly kept: readonly string[]
  /** What happens when only these are done. */
  readonly outcome: Outcome
  readonly runs: number
}

/** After so many runs the shortest story so far is told, where nothing else is asked for. */
const defaultRunsMax = 200

/**
 * The shortest story of a failure: leaves out faults and calls of the seed, many at a time and then fewer, as long as the
 * same check still fails. (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input".)
 */
export async function shrink(
  failed: Outcome,
  { scenario, runsMax = defaultRunsMax }: { readonly scenario?: Scenario | undefined; readonly runsMax?: number } = {},
): Promise<Shrunk> {
  leaveOutStacks()
  const checkers = new Set(failed.violations.map(({ checker }) => checker))
  const best = { kept: failed.planned, outcome: failed, runs: 0 }
  const stillFails = async (kept: readonly string[]): Promise<boolean> => {
    best.runs += 1
    const outcome = await simulate(failed.seed, {
      kept: new Set(kept),
      ...(scenario === undefined ? {} : { scenario }),
    })
    if (!outcome.violations.some(({ checker }) => checkers.has(checker))) return false
    // What was never come to is no part of the story.
    Object.assign(best, { kept: outcome.planned, outcome })
    return true
  }
  for (let parts = 2; best.runs < runsMax; ) {
    const size = Math.ceil(best.kept.length / parts)
    const wasShortened = await dropOneOf(partsOf(best.kept, size), stillFails, () => best.runs < runsMax)
    if (wasShortened) parts = Math.max(2, parts - 1)
    else if (size <= 1) break
    else parts = Math.min(best.kept.length, 2 * parts)
  }
  return best
}

/** Tries the story without each part in turn. @returns whether one of them could go */
async function dropOneOf(
  parts: readonly (readonly string[])[],
  stillFails: (kept: readonly string[]) => Promise<boolean>,
  mayGoOn: () => boolean,
): Promise<boolean> {
  for (const part of parts) {
    if (!mayGoOn()) return false
    if (await stillFails(parts.filter((other) => other !== part).flat())) return true
  }
  return false
}

function partsOf(all: readonly string[], size: number): readonly (readonly string[])[] {
  const parts: (readonly string[])[] = []
  for (let from = 0; from < all.length; from += size) parts.push(all.slice(from, from + size))
  return parts
}

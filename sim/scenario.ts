import type { FaultWeights } from './fault-mix.ts'

/** A world that is asked for by name, in place of the default one: a file of `sim/regressions/`. */
export interface Scenario {
  /** Which story it tells, and why it is kept. */
  readonly what?: string
  readonly hubs?: number
  readonly nodes?: number
  /** Spawns and messages of all projects. */
  readonly tasks?: number
  /** Weights of the faults, in place of those that each seed draws. */
  readonly faults?: Partial<FaultWeights>
  /** Checks that do not hold in it, and why. */
  readonly excused?: Readonly<Record<string, string>>
  /** Hubs are audited so often while things go wrong, in milliseconds of virtual time; absent: never. */
  readonly auditsEveryMs?: number
  /** What a run of it takes where nothing else is asked for. */
  readonly seeds?: { readonly from: number; readonly count: number }
  /** What is done of what the seed plans; absent: all of it. */
  readonly kept?: readonly string[]
}

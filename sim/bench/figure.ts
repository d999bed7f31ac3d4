import type { Summary } from './statistics.ts'

/** How a value has to be held to what was promised. */
export interface Floor {
  readonly kind: 'at_most' | 'at_least'
  readonly value: number
}

/** One line of what was promised, measured. */
export interface Result {
  readonly name: string
  /** What is compared with what, in words. */
  readonly what: string
  /** `x` for a ratio. */
  readonly unit: string
  readonly value: number
  /** Absent for a line that is only told beside the others. */
  readonly floor?: Floor
  /** The series behind it: what was measured and the raw probes, in milliseconds unless the name says otherwise. */
  readonly series: Readonly<Record<string, Summary>>
}

/** A figure that could not be measured here, and why. */
export interface Unmeasured {
  readonly name: string
  readonly why: string
}

export interface BenchOptions {
  /** Few rounds: shows that it runs, says little. */
  readonly isQuick: boolean
  /** How often each thing is done that is done again and again. */
  readonly rounds: number
  readonly idleSeconds: number
  /** The program that is measured: a build, since that is what is published. */
  readonly main: string
  /** The script that plays the agent program, from the same build. */
  readonly agent: string
  /** Everything that is written lies below it. */
  readonly folder: string
}

export interface Figure {
  readonly name: string
  measure(options: BenchOptions): Promise<readonly (Result | Unmeasured)[]>
}

/** A figure says by this that something it needs is not there. */
export class NotHere extends Error {}

export function isMet({ value, floor }: Result): boolean {
  if (floor === undefined) return true
  return floor.kind === 'at_most' ? value <= floor.value : value >= floor.value
}

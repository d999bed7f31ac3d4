import { appendFileSync, existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Outcome } from './simulate.ts'

/** What makes two runs parts of one: the same code and the same worlds, from the same seed on. How far each goes is its own. */
interface RunName {
  readonly commit: string
  readonly from: number
  readonly scenario: string | undefined
  readonly keep: string | undefined
}

interface OutcomeLine extends Omit<Outcome, 'counts'> {
  readonly counts: readonly (readonly [string, number])[]
  /** Since the part of the run began that this seed belongs to, in milliseconds. */
  readonly spentMs: number
}

/**
 * Where a long run of seeds stands: a file with a line for each outcome, in order, after one that names the run. A run that
 * was killed goes on behind the last whole line; what was cut off is run again.
 */
export class Checkpoint {
  readonly #path: string
  readonly #startMs = performance.now()
  /** What was run before. */
  readonly outcomes: readonly Outcome[]
  readonly #earlierMs: number

  /** @throws {TypeError} where the file is of another run */
  constructor(path: string, { commit, from, scenario, keep }: RunName) {
    this.#path = path
    const name = JSON.stringify({ commit, from, scenario, keep })
    const lines = existsSync(path) ? wholeLines(path) : []
    const [first, ...rest] = lines
    if (first === undefined) {
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, `${name}\n`)
    } else if (first !== name) {
      throw new TypeError(`${path} is of another run: ${first.slice(0, 200)}`)
    }
    const known = rest.map((line) => JSON.parse(line) as OutcomeLine)
    this.outcomes = known.map(({ spentMs: _, ...outcome }) => ({ ...outcome, counts: new Map(outcome.counts) }))
    // A part is over where the next line counts from the beginning again.
    this.#earlierMs = known.reduce((sum, { spentMs }, index) => {
      const isLastOfPart = (known[index + 1]?.spentMs ?? 0) < spentMs
      return isLastOfPart ? sum + spentMs : sum
    }, 0)
  }

  /** How long all parts took together, in milliseconds. */
  get spentMs(): number {
    return Math.round(this.#earlierMs + performance.now() - this.#startMs)
  }

  add(outcome: Outcome): void {
    const isGood = outcome.violations.length === 0
    const line: OutcomeLine = {
      ...outcome,
      counts: [...outcome.counts],
      // What went before is only looked at where something failed.
      ...(isGood ? { lastTrace: [], planned: [] } : {}),
      spentMs: Math.round(performance.now() - this.#startMs),
    }
    appendFileSync(this.#path, `${JSON.stringify(line)}\n`)
  }
}

/** The lines that are whole; what a kill left of one more is cut off. */
function wholeLines(path: string): readonly string[] {
  const bytes = readFileSync(path)
  const end = bytes.lastIndexOf(10) + 1
  if (end < bytes.length) truncateSync(path, end)
  return bytes.subarray(0, end).toString('utf8').split('\n').slice(0, -1)
}

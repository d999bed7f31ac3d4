import { createHash } from 'node:crypto'
import type { Outcome } from './simulate.ts'

/** Seeds whose histories one hash of the figures stands for. */
export const blockSeeds = 200

export interface Summary {
  readonly seeds: number
  readonly failed: readonly Pick<Outcome, 'seed' | 'violations'>[]
  readonly steps: number
  readonly seconds: number
  readonly virtual_seconds: number
  /** Names all histories in the order of their seeds: two runs with equal hashes saw the same. */
  readonly trace_hash: string
  readonly counts: Readonly<Record<string, number>>
}

/** What all outcomes come to. */
export class Tally {
  readonly counts = new Map<string, number>()
  readonly #startMs = performance.now()
  readonly #failed: Pick<Outcome, 'seed' | 'violations'>[] = []
  readonly #hash = createHash('sha256')
  readonly #blocks: string[] = []
  #block = createHash('sha256')
  #seeds = 0
  #steps = 0
  #virtualMs = 0

  add(outcome: Outcome): void {
    this.#seeds += 1
    this.#steps += outcome.steps
    this.#virtualMs += outcome.virtualMs
    const line = `${outcome.seed} ${outcome.traceHash}\n`
    this.#hash.update(line)
    this.#block.update(line)
    if (this.#seeds % blockSeeds === 0) this.#endBlock()
    for (const [name, times] of outcome.counts) this.counts.set(name, (this.counts.get(name) ?? 0) + times)
    if (outcome.violations.length === 0) return
    this.#failed.push({ seed: outcome.seed, violations: outcome.violations })
  }

  get failures(): number {
    return this.#failed.length
  }

  /** A hash for each 200 seeds, in order; the last may stand for fewer. */
  blocks(): readonly string[] {
    if (this.#seeds % blockSeeds !== 0) this.#endBlock()
    return this.#blocks
  }

  summary(): Summary {
    return {
      seeds: this.#seeds,
      failed: this.#failed,
      steps: this.#steps,
      seconds: Number(((performance.now() - this.#startMs) / 1_000).toFixed(1)),
      virtual_seconds: Math.round(this.#virtualMs / 1_000),
      trace_hash: this.#hash.copy().digest('hex').slice(0, 32),
      counts: Object.fromEntries([...this.counts].sort(([a], [b]) => (a < b ? -1 : 1))),
    }
  }

  #endBlock(): void {
    this.#blocks.push(this.#block.digest('hex').slice(0, 16))
    this.#block = createHash('sha256')
  }
}

/**
 * `npm run sim`: runs seeds and tells which broke a promise. `--seed N` runs one, and `--trace` shows all of it; `--seeds N`
 * runs N from `--from` on; `--workers N` in so many threads; `--stop` ends with the first that failed; `--json` prints one
 * document; `--report FILE` leaves the counts where `.ci/run` adds them up. The last line counts.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import { runSeed } from './run-seed.ts'
import { runSeeds } from './seeds.ts'
import type { Outcome } from './simulate.ts'

const defaultSeeds = 500
const traceShown = 120

interface Options {
  readonly seeds: readonly number[]
  readonly workers: number
  readonly isJson: boolean
  readonly isTrace: boolean
  readonly isStop: boolean
  readonly report: string | undefined
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      seeds: { type: 'string' },
      from: { type: 'string' },
      workers: { type: 'string' },
      json: { type: 'boolean', default: false },
      trace: { type: 'boolean', default: false },
      stop: { type: 'boolean', default: false },
      report: { type: 'string' },
    },
  })
  const from = count('from', values.from ?? '1')
  const seeds =
    values.seed === undefined
      ? Array.from({ length: count('seeds', values.seeds ?? String(defaultSeeds)) }, (_, index) => from + index)
      : [count('seed', values.seed)]
  // Who wants the first failure alone gets no use out of the seeds that others run meanwhile.
  const workers = count('workers', values.workers ?? String(values.stop ? 1 : availableParallelism()))
  return { seeds, workers, isJson: values.json, isTrace: values.trace, isStop: values.stop, report: values.report }
}

function count(name: string, text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 0) return value
  throw new TypeError(`--${name} takes a whole number, not ${text}`)
}

function explain(outcome: Outcome): string {
  const { seed, violations, lastTrace } = outcome
  const broken = violations.map(({ checker, atMs, message }) => `  ${checker} at ${atMs.toFixed(0)} ms: ${message}`)
  return [
    `seed ${seed} broke ${violations.length} promise(s); the end of its trace:`,
    ...lastTrace.slice(-traceShown).map((line) => `  ${line}`),
    ...broken,
    `  replay: npm run sim -- --seed ${seed} --trace`,
  ].join('\n')
}

interface Summary {
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
class Tally {
  readonly #startMs = performance.now()
  readonly #counts = new Map<string, number>()
  readonly #failed: Outcome[] = []
  readonly #hash = createHash('sha256')
  #seeds = 0
  #steps = 0
  #virtualMs = 0

  add(outcome: Outcome): void {
    this.#seeds += 1
    this.#steps += outcome.steps
    this.#virtualMs += outcome.virtualMs
    this.#hash.update(`${outcome.seed} ${outcome.traceHash}\n`)
    for (const [name, times] of outcome.counts) this.#counts.set(name, (this.#counts.get(name) ?? 0) + times)
    if (outcome.violations.length > 0) this.#failed.push(outcome)
  }

  get failures(): number {
    return this.#failed.length
  }

  summary(): Summary {
    return {
      seeds: this.#seeds,
      failed: this.#failed.map(({ seed, violations }) => ({ seed, violations })),
      steps: this.#steps,
      seconds: Number(((performance.now() - this.#startMs) / 1_000).toFixed(1)),
      virtual_seconds: Math.round(this.#virtualMs / 1_000),
      trace_hash: this.#hash.digest('hex').slice(0, 32),
      counts: Object.fromEntries([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1))),
    }
  }
}

async function runAll(options: Options): Promise<Summary> {
  const tally = new Tally()
  const take = (outcome: Outcome): boolean => {
    tally.add(outcome)
    if (outcome.violations.length === 0) return true
    if (!options.isJson && tally.failures <= 3) console.log(explain(outcome))
    return !options.isStop
  }
  const [only] = options.seeds
  if (options.seeds.length === 1 && only !== undefined) {
    const onTrace = options.isTrace ? { onTrace: (line: string) => console.log(line) } : {}
    take(await runSeed(only, { isReplayed: true, ...onTrace }))
  } else {
    await runSeeds(options.seeds, { workers: options.workers, take })
  }
  return tally.summary()
}

function print(summary: Summary): void {
  const { seeds, failed, steps, seconds, virtual_seconds: virtualSeconds, trace_hash: traceHash, counts } = summary
  const perMinute = Math.round((60 * seeds) / Math.max(seconds, 0.1))
  console.log(`${steps} events, ${virtualSeconds} virtual seconds in ${seconds} s, ${perMinute} seeds a minute`)
  for (const [name, times] of Object.entries(counts)) console.log(`  ${String(times).padStart(7)} ${name}`)
  console.log(`trace hash ${traceHash}`)
  if (failed.length > 0) console.log(`failed seeds: ${failed.map(({ seed }) => seed).join(', ')}`)
  console.log(`${seeds - failed.length} passed, ${failed.length} failed`)
}

function report(file: string, { seeds, failed }: Summary): void {
  mkdirSync(dirname(file), { recursive: true })
  const counts = {
    numPassedTests: seeds - failed.length,
    numFailedTests: failed.length,
    numFailedTestSuites: failed.length > 0 ? 1 : 0,
  }
  writeFileSync(file, JSON.stringify(counts))
}

async function main(): Promise<void> {
  const options = readOptions()
  const summary = await runAll(options)
  if (options.isJson) console.log(JSON.stringify(summary))
  else print(summary)
  if (options.report !== undefined) report(options.report, summary)
  if (summary.failed.length > 0) process.exitCode = 1
}

await main()

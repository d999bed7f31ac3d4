/**
 * `npm run sim`: runs seeds and tells which broke a promise. `--seed N` runs one, and `--trace` shows all of it; `--seeds N`
 * runs N from `--from` on; `--stop` ends with the first that failed; `--json` prints one document; `--report FILE` leaves
 * the counts where `.ci/run` adds them up. The last line counts.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import { type Outcome, simulate } from './simulate.ts'

const defaultSeeds = 500
/** Every so many seeds are run twice: one seed has to be one history. */
const replayEvery = 25
const traceShown = 120
/** Refusals are part of every run, and most of what they cost is their stack. */
Error.stackTraceLimit = 6

interface Options {
  readonly seeds: readonly number[]
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
  return { seeds, isJson: values.json, isTrace: values.trace, isStop: values.stop, report: values.report }
}

function count(name: string, text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 0) return value
  throw new TypeError(`--${name} takes a whole number, not ${text}`)
}

async function runSeed(seed: number, options: Options): Promise<Outcome> {
  const outcome = await simulate(seed, options.isTrace ? { onTrace: (line) => console.log(line) } : {})
  const isReplayed = seed % replayEvery === 0 || options.seeds.length === 1
  if (!isReplayed || outcome.violations.length > 0) return outcome
  const again = await simulate(seed)
  if (again.traceHash === outcome.traceHash) return outcome
  const message = `the seed gave ${outcome.traceHash} and then ${again.traceHash}`
  return { ...outcome, violations: [{ checker: 'replay', atMs: 0, message }] }
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
  readonly counts: Readonly<Record<string, number>>
}

async function runAll(options: Options): Promise<Summary> {
  const startMs = performance.now()
  const counts = new Map<string, number>()
  const failed: Outcome[] = []
  let [seeds, steps, virtualMs] = [0, 0, 0]
  for (const seed of options.seeds) {
    const outcome = await runSeed(seed, options)
    seeds += 1
    steps += outcome.steps
    virtualMs += outcome.virtualMs
    for (const [name, times] of outcome.counts) counts.set(name, (counts.get(name) ?? 0) + times)
    if (outcome.violations.length === 0) continue
    failed.push(outcome)
    if (!options.isJson && failed.length <= 3) console.log(explain(outcome))
    if (options.isStop) break
  }
  return {
    seeds,
    failed: failed.map(({ seed, violations }) => ({ seed, violations })),
    steps,
    seconds: Number(((performance.now() - startMs) / 1_000).toFixed(1)),
    virtual_seconds: Math.round(virtualMs / 1_000),
    counts: Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1))),
  }
}

function print(summary: Summary): void {
  const { seeds, failed, steps, seconds, virtual_seconds: virtualSeconds, counts } = summary
  console.log(`${steps} events, ${virtualSeconds} virtual seconds in ${seconds} s`)
  for (const [name, times] of Object.entries(counts)) console.log(`  ${String(times).padStart(7)} ${name}`)
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

/**
 * `npm run sim`: runs seeds and tells which broke a promise. `--seed N` runs one, and `--trace` shows all of it; `--seeds N`
 * runs N from `--from` on; `--scenario NAME` in a world of `sim/regressions/`; `--keep A,B` does only these of what the seed
 * plans; `--workers N` in so many threads; `--stop` ends with the first that failed; `--json` prints one document;
 * `--figures` writes docs/reference/figures/sim.json, or sim-from-N.json for seeds from N on; `--resume FILE` notes there what
 * was run, and goes on where an earlier run with this file was ended; `--report FILE` leaves the counts where `.ci/run` adds
 * them up. The last line counts.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import { Checkpoint } from './checkpoint.ts'
import { originOf, writeFigures } from './figures.ts'
import { runSeed } from './run-seed.ts'
import { readScenario } from './scenarios.ts'
import { runSeeds, type SeedPlan } from './seeds.ts'
import { shrink } from './shrink.ts'
import type { Outcome } from './simulate.ts'
import { neverTaken, sometimes } from './sometimes.ts'
import { blockSeeds, type Summary, Tally } from './tally.ts'

const defaultSeeds = 500
const traceShown = 120
/** A run of so many seeds has to take every rare path. */
const sometimesSeeds = 500

interface Options {
  readonly seeds: readonly number[]
  readonly plan: SeedPlan
  readonly scenario: string | undefined
  readonly workers: number
  readonly isJson: boolean
  readonly isTrace: boolean
  readonly isStop: boolean
  readonly isFigures: boolean
  readonly report: string | undefined
  readonly checkpoint: Checkpoint | undefined
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      seeds: { type: 'string' },
      from: { type: 'string' },
      scenario: { type: 'string' },
      keep: { type: 'string' },
      workers: { type: 'string' },
      json: { type: 'boolean', default: false },
      trace: { type: 'boolean', default: false },
      stop: { type: 'boolean', default: false },
      figures: { type: 'boolean', default: false },
      report: { type: 'string' },
      resume: { type: 'string' },
    },
  })
  const scenario = values.scenario === undefined ? undefined : readScenario(values.scenario)
  const kept = values.keep?.split(',') ?? scenario?.kept
  const from = count('from', values.from ?? String(scenario?.seeds?.from ?? 1))
  const seeds = count('seeds', values.seeds ?? String(scenario?.seeds?.count ?? defaultSeeds))
  // Who wants the first failure alone gets no use out of the seeds that others run meanwhile.
  const workers = count('workers', values.workers ?? String(values.stop ? 1 : availableParallelism()))
  return {
    seeds: values.seed === undefined ? range(from, seeds) : [count('seed', values.seed)],
    plan: {
      ...(scenario === undefined ? {} : { scenario }),
      ...(kept === undefined ? {} : { kept: new Set(kept) }),
    },
    scenario: values.scenario,
    workers,
    isJson: values.json,
    isTrace: values.trace,
    isStop: values.stop,
    isFigures: values.figures,
    report: values.report,
    checkpoint:
      values.resume === undefined
        ? undefined
        : new Checkpoint(values.resume, {
            commit: originOf().commit,
            from,
            scenario: values.scenario,
            keep: values.keep,
          }),
  }
}

function range(from: number, length: number): readonly number[] {
  return Array.from({ length }, (_, index) => from + index)
}

function count(name: string, text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 0) return value
  throw new TypeError(`--${name} takes a whole number, not ${text}`)
}

/** Runs all, and gives the first outcomes that failed. */
async function runAll(options: Options, tally: Tally): Promise<readonly Outcome[]> {
  const failed: Outcome[] = []
  const take = (outcome: Outcome): boolean => {
    tally.add(outcome)
    if (outcome.violations.length === 0) return true
    if (failed.length < 3) failed.push(outcome)
    return !options.isStop
  }
  const { plan, workers, checkpoint } = options
  const earlier = checkpoint?.outcomes.slice(0, options.seeds.length) ?? []
  for (const outcome of earlier) take(outcome)
  const left = options.seeds.slice(earlier.length)
  const keep = (outcome: Outcome): boolean => {
    checkpoint?.add(outcome)
    return take(outcome)
  }
  const [only] = options.seeds
  if (options.seeds.length === 1 && only !== undefined) {
    const onTrace = options.isTrace ? { onTrace: (line: string) => console.log(line) } : {}
    take(await runSeed(only, { ...plan, ...onTrace, isReplayed: true }))
  } else {
    await runSeeds(left, { workers, take: keep, plan })
  }
  return failed
}

/** The shortest story of a failure, and how it is told again. */
async function explain(failed: Outcome, { scenario, plan }: Options): Promise<string> {
  const { seed, violations } = failed
  const inScenario = scenario === undefined ? '' : ` --scenario ${scenario}`
  const canShrink = plan.kept === undefined && violations.some(({ checker }) => checker !== 'replay')
  const shrunk = canShrink
    ? await shrink(failed, { scenario: plan.scenario })
    : { kept: failed.planned, outcome: failed, runs: 0 }
  const broken = violations.map(({ checker, atMs, message }) => `  ${checker} at ${atMs.toFixed(0)} ms: ${message}`)
  const about = `${shrunk.kept.length} of ${failed.planned.length} faults and calls after ${shrunk.runs} runs`
  return [
    `seed ${seed} of commit ${originOf().commit} broke ${violations.length} promise(s):`,
    ...broken,
    `  the end of the shortest trace in which it breaks: ${about}`,
    ...shrunk.outcome.lastTrace.slice(-traceShown).map((line) => `  ${line}`),
    `  replay all of it: npm run sim --${inScenario} --seed ${seed} --trace`,
    `  replay the shortest: npm run sim --${inScenario} --seed ${seed} --keep ${shrunk.kept.join(',')} --trace`,
  ].join('\n')
}

function print(summary: Summary): void {
  const { seeds, failed, steps, seconds, virtual_seconds: virtualSeconds, trace_hash: traceHash, counts } = summary
  const perMinute = Math.round((60 * seeds) / Math.max(seconds, 0.1))
  console.log(`${steps} events, ${virtualSeconds} virtual seconds in ${seconds} s, ${perMinute} seeds a minute`)
  for (const [name, times] of Object.entries(counts)) console.log(`  ${String(times).padStart(7)} ${name}`)
  console.log(`trace hash ${traceHash}`)
  if (failed.length > 0) console.log(`failed seeds: ${failed.map(({ seed }) => seed).join(', ')}`)
}

function report(file: string, failures: number, { seeds, failed }: Summary): void {
  mkdirSync(dirname(file), { recursive: true })
  const counts = {
    numPassedTests: seeds - failed.length,
    numFailedTests: failures,
    numFailedTestSuites: failures > 0 ? 1 : 0,
  }
  writeFileSync(file, JSON.stringify(counts))
}

async function main(): Promise<void> {
  const options = readOptions()
  const origin = options.isFigures ? originOf() : undefined
  const tally = new Tally()
  const failed = await runAll(options, tally)
  const summary = tally.summary()
  const isWhole = options.plan.scenario === undefined && options.plan.kept === undefined && !options.isStop
  const missing = isWhole && summary.seeds >= sometimesSeeds ? neverTaken(tally.counts) : []
  if (options.isJson) {
    console.log(JSON.stringify({ ...summary, never_taken: missing }))
  } else {
    for (const outcome of failed) console.log(await explain(outcome, options))
    print(summary)
    for (const name of missing) console.log(`never taken: ${name} (${sometimes[name]})`)
    console.log(`${summary.seeds - tally.failures} passed, ${tally.failures + missing.length} failed`)
  }
  if (origin !== undefined) {
    const { seconds: _seconds, ...figures } = summary
    const [first = 0] = options.seeds
    writeFigures(first === 1 ? 'sim' : `sim-from-${first}`, origin, {
      ...(options.checkpoint === undefined ? {} : { wall_ms: options.checkpoint.spentMs }),
      seed: first,
      ...figures,
      block_seeds: blockSeeds,
      block_hashes: tally.blocks(),
    })
  }
  if (options.report !== undefined) report(options.report, tally.failures + missing.length, summary)
  if (tally.failures + missing.length > 0) process.exitCode = 1
}

await main()

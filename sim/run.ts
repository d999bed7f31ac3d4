/**
 * `npm run sim`: runs seeds until one breaks a promise. `--seed N` runs one and can be looked at with `--trace`;
 * `--seeds N` runs N from `--from` on; `--json` prints one document. The last line counts.
 */
import { parseArgs } from 'node:util'
import { type Outcome, simulate } from './simulate.ts'

const defaultSeeds = 500
/** Every so many seeds are run twice: one seed has to be one history. */
const replayEvery = 25
const traceShown = 120

interface Options {
  readonly seeds: readonly number[]
  readonly isJson: boolean
  readonly isTrace: boolean
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      seeds: { type: 'string' },
      from: { type: 'string' },
      json: { type: 'boolean', default: false },
      trace: { type: 'boolean', default: false },
    },
  })
  const from = count('from', values.from ?? '1')
  const seeds =
    values.seed === undefined
      ? Array.from({ length: count('seeds', values.seeds ?? String(defaultSeeds)) }, (_, index) => from + index)
      : [count('seed', values.seed)]
  return { seeds, isJson: values.json, isTrace: values.trace }
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

async function main(): Promise<void> {
  const options = readOptions()
  const startMs = performance.now()
  const counts = new Map<string, number>()
  const failed: Outcome[] = []
  let steps = 0
  let virtualMs = 0
  for (const seed of options.seeds) {
    const outcome = await runSeed(seed, options)
    steps += outcome.steps
    virtualMs += outcome.virtualMs
    for (const [name, times] of outcome.counts) counts.set(name, (counts.get(name) ?? 0) + times)
    if (outcome.violations.length === 0) continue
    failed.push(outcome)
    if (!options.isJson && failed.length <= 3) console.log(explain(outcome))
  }
  const seconds = (performance.now() - startMs) / 1_000
  const [only] = options.seeds.length === 1 ? failed : []
  const summary = {
    seeds: options.seeds.length,
    failed: failed.map(({ seed, violations }) => ({ seed, violations })),
    steps,
    seconds: Number(seconds.toFixed(1)),
    virtual_seconds: Math.round(virtualMs / 1_000),
    counts: Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1))),
    ...(only === undefined ? {} : { trace: only.lastTrace }),
  }
  if (options.isJson) console.log(JSON.stringify(summary))
  else {
    const shown = Object.entries(summary.counts).map(([name, times]) => `${name} ${times}`)
    console.log(`${steps} events, ${summary.virtual_seconds} virtual seconds in ${summary.seconds} s`)
    console.log(shown.join(', '))
    if (failed.length > 0) console.log(`failed seeds: ${failed.map(({ seed }) => seed).join(', ')}`)
    console.log(`${options.seeds.length - failed.length} passed, ${failed.length} failed`)
  }
  if (failed.length > 0) process.exitCode = 1
}

await main()

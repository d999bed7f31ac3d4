/**
 * `npm run bench`: what the product costs, each figure against raw probes in the same run.
 *
 * `--only NAME` measures one figure, `--quick` few rounds, `--rounds N` so many, `--idle-seconds N` looks so long at idle
 * processes. `--json` prints one document, `--figures` writes docs/reference/figures/bench.json, `--floors` exits with 1
 * where a floor is missed. `--built` takes the build that is there, `--source` the source. See docs/internals/bench.md.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, release, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { repository } from '../../test/e2e/machine.ts'
import { type Origin, originOf, writeFigures } from '../figures.ts'
import { type Figure, isMet, NotHere, type Result, type Unmeasured } from './figure.ts'
import { shortNumber } from './statistics.ts'

/** Loaded when it is their turn: each brings half of the product with it. */
const figures: Readonly<Record<string, () => Promise<Figure>>> = {
  spawn: async () => (await import('./figures/spawn.ts')).spawn,
  delivery: async () => (await import('./figures/delivery.ts')).delivery,
  flow: async () => (await import('./figures/flow.ts')).flow,
  'round-trip': async () => (await import('./figures/round-trip.ts')).roundTrip,
  reattach: async () => (await import('./figures/reattach.ts')).reattach,
  missed: async () => (await import('./figures/missed.ts')).missed,
  restart: async () => (await import('./figures/restart.ts')).restart,
  initialize: async () => (await import('./figures/adapter.ts')).adapter,
  idle: async () => (await import('./figures/idle.ts')).idle,
}

interface Options {
  readonly only: readonly string[]
  readonly isQuick: boolean
  readonly isJson: boolean
  readonly writesFigures: boolean
  readonly holdsFloors: boolean
  readonly idleSeconds: number
  readonly rounds: number
  readonly isBuilt: boolean
  /** The source as it is in the place of a build: for a look while something is changed. */
  readonly isSource: boolean
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true, default: [] },
      quick: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      figures: { type: 'boolean', default: false },
      floors: { type: 'boolean', default: false },
      'idle-seconds': { type: 'string', default: '300' },
      rounds: { type: 'string' },
      built: { type: 'boolean', default: false },
      source: { type: 'boolean', default: false },
    },
  })
  const unknown = values.only.find((name) => !Object.hasOwn(figures, name))
  if (unknown !== undefined) {
    throw new TypeError(`--only ${unknown}: the figures are ${Object.keys(figures).join(', ')}`)
  }
  const whole = (name: string, text: string): number => {
    if (!/^\d{1,5}$/.test(text)) throw new TypeError(`--${name} takes a whole number`)
    return Number(text)
  }
  return {
    only: values.only,
    isQuick: values.quick,
    isJson: values.json,
    writesFigures: values.figures,
    holdsFloors: values.floors,
    idleSeconds: whole('idle-seconds', values['idle-seconds']),
    rounds: whole('rounds', values.rounds ?? (values.quick ? '2' : '12')),
    isBuilt: values.built,
    isSource: values.source,
  }
}

/** The build is what is published: it has no types to strip. */
function build(): void {
  const built = spawnSync(process.execPath, [join(repository, 'scripts/build.ts')], { cwd: repository })
  if (built.status !== 0) throw new Error(`the build failed:\n${built.stderr}`)
}

async function measure(figure: Figure, options: Options, folder: string): Promise<readonly (Result | Unmeasured)[]> {
  try {
    return await figure.measure({
      isQuick: options.isQuick,
      idleSeconds: options.idleSeconds,
      rounds: options.rounds,
      main: programFile('cli/main', options),
      agent: programFile('cli/demo/scripted-agent', options),
      folder,
    })
  } catch (error) {
    if (error instanceof NotHere) return [{ name: figure.name, why: error.message }]
    throw error
  }
}

function programFile(name: string, { isSource }: Options): string {
  return join(repository, isSource ? `src/${name}.ts` : `dist/${name}.js`)
}

function lineOf(result: Result | Unmeasured): string {
  if ('why' in result) return `${result.name.padEnd(26)} not measured: ${result.why}`
  const { floor } = result
  const promised = floor === undefined ? '' : `${floor.kind === 'at_most' ? '<=' : '>='} ${floor.value}`
  const verdict = floor === undefined ? '' : isMet(result) ? 'met' : 'MISSED'
  const value = `${shortNumber(result.value)} ${result.unit}`
  return `${result.name.padEnd(26)} ${value.padStart(12)} ${promised.padStart(9)} ${verdict.padEnd(7)} ${result.what}`
}

function seriesOf(result: Result): readonly string[] {
  return Object.entries(result.series).map(
    ([name, { n, median, min, p90, max }]) =>
      `${' '.repeat(27)}${name}: ${shortNumber(median)} (${shortNumber(min)} to ${shortNumber(max)}, p90 ${shortNumber(p90)}, n ${n})`,
  )
}

function documentOf(
  results: readonly (Result | Unmeasured)[],
  { origin, seconds }: { readonly origin: Origin; readonly seconds: number },
): Record<string, unknown> {
  return {
    ...origin,
    machine: {
      processors: cpus().length,
      processor: cpus()[0]?.model.trim() ?? '',
      memory_gib: Math.round(totalmem() / 2 ** 30),
      kernel: release(),
    },
    seconds,
    results: results.map((result) => ('why' in result ? result : { ...result, met: isMet(result) })),
  }
}

async function main(): Promise<void> {
  const options = readOptions()
  const started = performance.now()
  const origin = originOf()
  const folder = mkdtempSync(join(tmpdir(), 'nfltr-bench-'))
  const results: (Result | Unmeasured)[] = []
  try {
    if (!options.isBuilt && !options.isSource) build()
    for (const [name, load] of Object.entries(figures)) {
      if (options.only.length > 0 && !options.only.includes(name)) continue
      const measured = await measure(await load(), options, folder)
      results.push(...measured)
      if (options.isJson) continue
      for (const result of measured)
        console.log([lineOf(result), ...('why' in result ? [] : seriesOf(result))].join('\n'))
    }
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
  const document = documentOf(results, { origin, seconds: Math.round((performance.now() - started) / 1_000) })
  if (options.isJson) console.log(JSON.stringify(document, undefined, 2))
  const misses = results.filter((result): result is Result => !('why' in result) && !isMet(result))
  if (!options.isJson) {
    for (const { name } of misses) console.log(`missed: ${name}; the reason belongs into docs/internals/bench.md`)
  }
  if (options.writesFigures) writeFigures('bench', origin, document)
  process.exit(options.holdsFloors && misses.length > 0 ? 1 : 0)
}

await main()

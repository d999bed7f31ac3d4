/**
 * `npm run mutants`: proves that the checks can fail. Plants each bug of `sim/mutants/` in the sources and runs seeds, or
 * the test that the bug names, until a promise is broken; a bug that nothing finds is a hole in the checks, and fails.
 * Arguments: names of bugs (all where none is given); `--seeds N` a bug has at most; `--report FILE` for the counts of
 * `.ci/run`; `--matrix` has every check judge, of the bugs that the simulator catches, all seeds up to the third that fails,
 * and prints which bug which check finds; `--figures` writes that to `docs/reference/figures/mutants.json`.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { originOf, writeFigures } from '../sim/figures.ts'
import { type Bug, bugs } from '../sim/mutants/plant.ts'
import { allChecks } from '../src/audit/all-checks.ts'
import { type Trial, type TrialOptions, tryBug } from './try-bug.ts'

const defaultSeeds = 200
/** So many seeds with every check judging tell which checks find a bug. */
const matrixFailed = 3

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seeds: { type: 'string' },
    report: { type: 'string' },
    matrix: { type: 'boolean', default: false },
    figures: { type: 'boolean', default: false },
  },
})

function wanted(): readonly Bug[] {
  const known = bugs().filter(({ test }) => !values.matrix || test === undefined)
  const names = known.map(({ name }) => name)
  const unknown = positionals.filter((name) => !names.includes(name))
  if (unknown.length > 0) throw new TypeError(`no such bug: ${unknown.join(', ')}; there are ${names.join(', ')}`)
  return positionals.length === 0 ? known : known.filter(({ name }) => positionals.includes(name))
}

/** Tries all, two or more at a time, and prints each as it is done; gives them in their order. */
async function tryAll(list: readonly Bug[], options: TrialOptions): Promise<readonly Trial[]> {
  const width = Math.max(...list.map(({ name }) => name.length))
  const trials: Trial[] = []
  let next = 0
  const worker = async (): Promise<void> => {
    for (let index = next++; index < list.length; index = next++) {
      const bug = list[index]
      if (bug === undefined) continue
      const trial = await tryBug(bug, options)
      trials[index] = trial
      console.log(`${bug.name.padEnd(width)}  ${told(trial, options)}`)
    }
  }
  await Promise.all(Array.from({ length: Math.min(list.length, availableParallelism()) }, worker))
  return trials
}

function told({ bug, verdict, isTestFailed, trouble }: Trial, { failedOfAll }: TrialOptions): string {
  if (trouble !== undefined) return trouble
  if (verdict === undefined) return isTestFailed === true ? `caught by ${bug.test}` : `NOT CAUGHT by ${bug.test}`
  const found = Object.entries(verdict.checks).sort(([, a], [, b]) => b.seeds - a.seeds)
  if (found.length === 0) return `NOT CAUGHT in ${verdict.seeds} seeds`
  if (failedOfAll !== undefined)
    return found.map(([name, { seeds, first }]) => `${name} ${seeds} (${first})`).join(', ')
  const names = found.map(([name]) => name).join(', ')
  return `caught by ${names} after ${verdict.seeds} seed${verdict.seeds === 1 ? '' : 's'}`
}

function isCaught({ verdict, isTestFailed }: Trial): boolean {
  return isTestFailed === true || Object.keys(verdict?.checks ?? {}).length > 0
}

/** Of each check, which bugs it finds, and of which it is the only one that does. */
function byCheck(trials: readonly Trial[]) {
  const names = [...allChecks.map(({ name }) => name), 'no-bugs'].sort()
  return names.map((check) => {
    const found = trials.filter(({ verdict }) => verdict?.checks[check] !== undefined)
    const alone = found.filter(({ verdict }) => Object.keys(verdict?.checks ?? {}).length === 1)
    return { check, finds: found.map(({ bug }) => bug.name), alone: alone.map(({ bug }) => bug.name) }
  })
}

function printChecks(trials: readonly Trial[]): void {
  console.log('\ncheck: bugs that it finds; of which it alone does')
  for (const { check, finds, alone } of byCheck(trials))
    console.log(`${check.padEnd(22)} ${String(finds.length).padStart(3)}  ${alone.join(', ')}`)
}

const origin = originOf()
const options = {
  seeds: Number(values.seeds ?? defaultSeeds),
  ...(values.matrix ? { failedOfAll: matrixFailed } : {}),
}
const trials = await tryAll(wanted(), options)
const missed = trials.filter((trial) => !isCaught(trial))
if (values.matrix) printChecks(trials)
if (values.figures) {
  writeFigures('mutants', origin, {
    seeds_max: options.seeds,
    failed_seeds: matrixFailed,
    bugs: trials.map(({ bug: { name, from }, verdict }) => ({ name, from, ...verdict })),
    checks: byCheck(trials),
  })
}
if (values.report !== undefined) {
  mkdirSync(dirname(values.report), { recursive: true })
  const counts = {
    numPassedTests: trials.length - missed.length,
    numFailedTests: missed.length,
    numFailedTestSuites: 0,
  }
  writeFileSync(values.report, JSON.stringify(counts))
}
console.log(`${trials.length - missed.length} passed, ${missed.length} failed`)
if (missed.length > 0) process.exitCode = 1

/**
 * `npm run mutants`: proves that the simulator can fail. Plants each bug of `sim/mutants/` in a copy of the sources and runs
 * seeds there until one breaks a promise; a bug that no seed finds is a hole in the checks, and fails. Arguments: names
 * of bugs (all where none is given), `--seeds N` a bug has at most, `--report FILE` for the counts of `.ci/run`.
 */
import { execFile } from 'node:child_process'
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'

const root = join(import.meta.dirname, '..')
const defaultSeeds = 200

interface Summary {
  readonly seeds: number
  readonly failed: readonly { readonly seed: number; readonly violations: readonly { readonly checker: string }[] }[]
}

interface Row {
  readonly name: string
  readonly what: string
  readonly seeds: number
  readonly caughtBy: readonly string[]
  /** Why the bug could not be tried at all. */
  readonly trouble?: string
}

async function tryBug(name: string, seeds: number): Promise<Row> {
  const patch = join(root, 'sim/mutants', `${name}.patch`)
  const what = readFileSync(patch, 'utf8').split('\n')[0] ?? ''
  const copy = mkdtempSync(join(tmpdir(), 'nfltr-mutant-'))
  try {
    for (const part of ['src', 'sim', 'package.json']) cpSync(join(root, part), join(copy, part), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
    const applied = await run('git', ['apply', '-C1', patch], copy)
    if (applied.code !== 0) return { name, what, seeds: 0, caughtBy: [], trouble: `does not apply: ${applied.stderr}` }
    const args = ['sim/run.ts', '--seeds', String(seeds), '--stop', '--json']
    const { stdout, stderr } = await run(process.execPath, args, copy)
    return read(name, what, stdout, stderr)
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

function read(name: string, what: string, stdout: string, stderr: string): Row {
  let summary: Summary
  try {
    summary = JSON.parse(stdout) as Summary
  } catch {
    return { name, what, seeds: 0, caughtBy: [], trouble: `the simulator did not run: ${stderr.slice(0, 500)}` }
  }
  const checkers = summary.failed.flatMap(({ violations }) => violations.map(({ checker }) => checker))
  return { name, what, seeds: summary.seeds, caughtBy: [...new Set(checkers)] }
}

function run(
  program: string,
  args: readonly string[],
  cwd: string,
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  // Outside any repository, so that git takes the paths of the patch as they are.
  const env = { ...process.env, GIT_CEILING_DIRECTORIES: dirname(cwd) }
  return new Promise((resolve) => {
    execFile(program, args, { cwd, env, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : 1, stdout, stderr })
    })
  })
}

/** Runs the work for each item, so many at a time, and gives the results in the items' order. */
async function inParallel<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = []
  let next = 0
  const worker = async (): Promise<void> => {
    for (let index = next++; index < items.length; index = next++) {
      const item = items[index]
      if (item !== undefined) results[index] = await work(item)
    }
  }
  await Promise.all(Array.from({ length: Math.min(items.length, availableParallelism()) }, worker))
  return results
}

function print(rows: readonly Row[]): void {
  const width = Math.max(...rows.map(({ name }) => name.length))
  for (const { name, seeds, caughtBy, trouble } of rows) {
    const found =
      caughtBy.length > 0 ? `caught by ${caughtBy.join(', ')} after ${seeds} seed${seeds === 1 ? '' : 's'}` : ''
    console.log(`${name.padEnd(width)}  ${found || trouble || `NOT CAUGHT in ${seeds} seeds`}`)
  }
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seeds: { type: 'string' }, report: { type: 'string' } },
})
const known = globSync('sim/mutants/*.patch', { cwd: root }).map((file) => basename(file, '.patch'))
const unknown = positionals.filter((name) => !known.includes(name))
if (unknown.length > 0) throw new TypeError(`no such bug: ${unknown.join(', ')}; there are ${known.sort().join(', ')}`)

const wanted = positionals.length > 0 ? positionals : known.sort()
const rows = await inParallel(wanted, (name) => tryBug(name, Number(values.seeds ?? defaultSeeds)))
print(rows)
const missed = rows.filter(({ caughtBy }) => caughtBy.length === 0)
if (values.report !== undefined) {
  mkdirSync(dirname(values.report), { recursive: true })
  const counts = { numPassedTests: rows.length - missed.length, numFailedTests: missed.length, numFailedTestSuites: 0 }
  writeFileSync(values.report, JSON.stringify(counts))
}
console.log(`${rows.length - missed.length} passed, ${missed.length} failed`)
if (missed.length > 0) process.exitCode = 1

import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { rolldown } from 'rolldown'
import type { Verdict } from '../sim/mutants/judge.ts'
import { type Bug, plant, repository } from '../sim/mutants/plant.ts'

export interface Trial {
  readonly bug: Bug
  /** Absent where the bug could not be tried, or where a test is to catch it. */
  readonly verdict?: Verdict
  /** The test of the bug failed, as it has to. */
  readonly isTestFailed?: boolean
  /** Why the bug could not be tried at all. */
  readonly trouble?: string
}

export interface TrialOptions {
  readonly seeds: number
  /** Every check judges every seed, until so many have failed; undefined: until one has, by whichever check is first. */
  readonly failedOfAll?: number
}

/** What a bug turned into an endless loop ends by, in milliseconds. */
const trialMaxMs = 600_000

/** Plants one bug in the sources, in memory, and runs what is to catch it. */
export async function tryBug(bug: Bug, options: TrialOptions): Promise<Trial> {
  const folder = mkdtempSync(join(tmpdir(), 'nfltr-trial-'))
  try {
    const planted = plant(bug.name)
    if (bug.test !== undefined) return { bug, isTestFailed: await doesTestFail(bug.test, planted, folder) }
    return { bug, verdict: await judge(planted, folder, options) }
  } catch (error) {
    return { bug, trouble: error instanceof Error ? error.message : String(error) }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** One file of the simulator and everything that it runs, with the bug in it: it starts in a fraction of the time. */
async function judge(
  planted: Readonly<Record<string, string>>,
  folder: string,
  { seeds, failedOfAll }: TrialOptions,
): Promise<Verdict> {
  const file = join(folder, 'judge.mjs')
  const load = (id: string): string | undefined => planted[id.slice(repository.length + 1)]
  await using bundle = await rolldown({
    cwd: repository,
    input: join(repository, 'sim/mutants/judge.ts'),
    platform: 'node',
    logLevel: 'silent',
    plugins: [{ name: 'planted-bug', load }],
  })
  await bundle.write({ file, format: 'esm', codeSplitting: false, keepNames: true })
  const all = failedOfAll === undefined ? [] : ['--all', '--failed', String(failedOfAll)]
  const args = ['--max-semi-space-size=64', file, '--seeds', String(seeds), ...all]
  const { stdout, stderr } = await run(process.execPath, args, {})
  try {
    return JSON.parse(stdout) as Verdict
  } catch {
    throw new Error(`the simulator did not end: ${stderr.slice(0, 500)}`)
  }
}

/** Runs the test over the sources with the bug in them. That it holds without the bug is what `npm test` shows. */
async function doesTestFail(test: string, planted: Readonly<Record<string, string>>, folder: string): Promise<boolean> {
  const file = join(folder, 'planted.json')
  writeFileSync(file, JSON.stringify(planted))
  const [path = '', ...words] = test.split(' > ')
  const report = join(folder, 'report.json')
  const args = [
    'run',
    '--config',
    'vitest.planted.config.ts',
    '--reporter=json',
    '--no-fs-module-cache',
    `--outputFile.json=${report}`,
    path,
  ]
  const named = words.length === 0 ? [] : ['-t', words.join(' > ')]
  await run(join(repository, 'node_modules/.bin/vitest'), [...args, ...named], { NFLTR_PLANTED: file })
  const counts = JSON.parse(readFileSync(report, 'utf8')) as {
    readonly numFailedTests: number
    readonly numPassedTests: number
  }
  if (counts.numFailedTests + counts.numPassedTests === 0) throw new Error(`no such test: ${test}`)
  return counts.numFailedTests > 0
}

function run(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const options = { cwd: repository, env: { ...process.env, ...env }, maxBuffer: 64 * 1024 * 1024, timeout: trialMaxMs }
  return new Promise((resolve) => {
    execFile(program, args, options, (_, stdout, stderr) => resolve({ stdout, stderr }))
  })
}

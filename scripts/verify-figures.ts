/**
 * `scripts/verify-figures`: anybody can check what the long runs in docs/reference/figures claim. A part of each is drawn
 * by chance and run again in a copy of the commit that the figures name. Histories of the simulator, those over the
 * in-memory store, and which check finds a planted bug have to be the same to the byte; of runs with real processes, which are never the same twice, a short form
 * has to find nothing either.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { SeededRandom } from '../sim/random.ts'

const root = join(import.meta.dirname, '..')
const folder = join(root, 'docs/reference/figures')

interface Figures {
  readonly commit: string
  readonly is_clean?: boolean
  readonly seed?: number
  readonly seeds?: number
  readonly block_seeds?: number
  readonly block_hashes?: readonly string[]
  readonly reports?: readonly LinearizableReport[]
  readonly seeds_max?: number
  readonly bugs?: readonly JudgedBug[]
}

/** What a matrix says of one planted bug: in how many seeds, and in which first, each check failed. */
interface JudgedBug {
  readonly name: string
  readonly checks: Readonly<Record<string, { readonly seeds: number; readonly first: number }>>
}

/** What a linearizable campaign says of one store; hashes only where a seed gives one history. */
interface LinearizableReport {
  readonly seed: number
  readonly block_operations: number
  readonly block_hashes?: readonly string[]
}

type Verdict = { readonly isSame: boolean; readonly text: string }

/** A short form of each run with real processes or a real disk, under a seed of its own where it draws anything. */
const shortForms: Readonly<Record<string, (seed: string) => readonly string[]>> = {
  audit: () => ['scripts/bench-audit.ts', '--events', '20000'],
  fuzz: (seed) => ['--expose-gc', 'test/fuzz/run.ts', '--n', '2000', '--seed', seed],
  linearizable: (seed) => [
    ...['sim/linearizable/run.ts', '--store', 'level', '--operations', '4000'],
    ...['--seed', seed],
  ],
  'soak-kill': (seed) => ['sim/soak/kill.ts', '--n', '2', '--seed', seed],
  'store-flip': (seed) => ['test/store/campaigns/run.ts', 'flip', '--n', '3', '--seed', seed],
  'store-kill': (seed) => ['test/store/campaigns/run.ts', 'kill', '--n', '5', '--seed', seed],
  'store-power': (seed) => ['test/store/campaigns/run.ts', 'power', '--n', '5', '--seed', seed],
}

function verify(name: string, random: SeededRandom, blocks: number): Verdict {
  const figures = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Figures
  if (figures.is_clean === false) return { isSame: false, text: 'the tree was not clean: nobody can run this again' }
  const short = shortForms[name]
  if (figures.block_hashes === undefined && figures.bugs === undefined && short === undefined) {
    return { isSame: true, text: 'nothing of it can be run again by itself' }
  }
  return inCommit(figures.commit, (tree) => {
    if (figures.block_hashes !== undefined) return compareBlocks(tree, figures, random, blocks)
    if (figures.bugs !== undefined) return compareBugs(tree, figures, random, blocks)
    const seeded = figures.reports?.find((report) => report.block_hashes !== undefined)
    const same = seeded === undefined ? undefined : compareLinearizable(tree, seeded, random, blocks)
    if (same?.isSame === false) return same
    const seed = String(random.int(1, 1_000_000))
    const ended = run(tree, short?.(seed) ?? [])
    const { status } = ended
    const why = status === 0 ? '' : `:\n${lastWords(ended)}`
    const texts = [same?.text ?? [], `a short form under the seed ${seed} ended with ${status}${why}`].flat()
    return { isSame: status === 0, text: texts.join('; ') }
  })
}

/** Some blocks over the in-memory store, drawn by chance: what the clients saw has to have the hashes that were written down. */
function compareLinearizable(tree: string, report: LinearizableReport, random: SeededRandom, count: number): Verdict {
  const { block_hashes: hashes = [], block_operations: operations, seed: first } = report
  const texts: string[] = []
  for (let left = count; left > 0; left--) {
    const index = random.int(0, hashes.length - 1)
    const hash = hashes[index] ?? ''
    const seed = String(first + index)
    const args = ['--store', 'memory', '--blocks', '1', '--operations', String(operations), '--seed', seed, '--json']
    const again = run(tree, ['sim/linearizable/run.ts', ...args])
    const { reports } = answered<{ readonly reports: readonly LinearizableReport[] }>(again)
    const [found] = reports[0]?.block_hashes ?? []
    if (found !== hash)
      return { isSame: false, text: `the block of seed ${seed} gave ${found}, and ${hash} is written` }
    texts.push(`the block of seed ${seed} gave ${hash} again`)
  }
  return { isSame: true, text: texts.join('; ') }
}

/** Some of the blocks, drawn by chance: their histories have to have the hashes that were written down. */
function compareBlocks(tree: string, figures: Figures, random: SeededRandom, count: number): Verdict {
  const { block_hashes: hashes = [], block_seeds: size = 1, seed: first = 1, seeds = 0 } = figures
  const texts: string[] = []
  for (let left = count; left > 0; left--) {
    const index = random.int(0, hashes.length - 1)
    const from = first + index * size
    const length = Math.min(size, first + seeds - from)
    const args = ['sim/run.ts', '--from', String(from), '--seeds', String(length), '--json']
    const { trace_hash: found } = answered<{ readonly trace_hash: string }>(run(tree, args))
    const hash = hashes[index] ?? ''
    if (!found.startsWith(hash)) {
      return { isSame: false, text: `seeds ${from} to ${from + length - 1} gave ${found}, and ${hash} is written` }
    }
    texts.push(`seeds ${from} to ${from + length - 1} gave ${hash} again`)
  }
  return { isSame: true, text: texts.join('; ') }
}

/** Some of the planted bugs, drawn by chance: the same checks have to find them in the same seeds. */
function compareBugs(tree: string, figures: Figures, random: SeededRandom, count: number): Verdict {
  const { bugs = [], seeds_max: seeds = 0 } = figures
  const texts: string[] = []
  for (let left = count; left > 0; left--) {
    const { name, checks } = random.pick(bugs)
    const found = Object.entries(checks).sort(([, a], [, b]) => b.seeds - a.seeds)
    const line = found.map(([check, { seeds: times, first }]) => `${check} ${times} (${first})`).join(', ')
    const { stdout } = run(tree, ['scripts/mutants.ts', '--matrix', '--seeds', String(seeds), name])
    const again = stdout.split('\n').find((one) => one.startsWith(`${name} `)) ?? ''
    if (again.slice(name.length).trim() !== line)
      return { isSame: false, text: `${again || name}, and ${line} is written` }
    texts.push(`${name} is found by ${line} again`)
  }
  return { isSame: true, text: texts.join('; ') }
}

/** A copy of the commit, with what is installed here. */
function inCommit<T>(commit: string, work: (tree: string) => T): T {
  const parent = mkdtempSync(join(tmpdir(), 'nfltr-figures-'))
  const tree = join(parent, 'tree')
  try {
    execFileSync('git', ['worktree', 'add', '--detach', '--quiet', tree, commit], { cwd: root })
    symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'))
    return work(tree)
  } finally {
    spawnSync('git', ['worktree', 'remove', '--force', tree], { cwd: root })
    rmSync(parent, { recursive: true, force: true })
  }
}

interface Ended {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

/** The document that a run printed. @throws {Error} with its last words where it printed none */
function answered<T>(ended: Ended): T {
  try {
    return JSON.parse(ended.stdout) as T
  } catch (cause) {
    throw new Error(`a run ended with ${ended.status} and no document:\n${lastWords(ended)}`, { cause })
  }
}

function lastWords({ stdout, stderr }: Ended): string {
  return `${stdout}${stderr}`.trimEnd().split('\n').slice(-20).join('\n')
}

function run(tree: string, args: readonly string[]): Ended {
  return spawnSync(process.execPath, args, { cwd: tree, encoding: 'utf8', maxBuffer: 256 * 1024 * 1024 })
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { blocks: { type: 'string', default: '1' }, seed: { type: 'string' } },
})
const known = globSync('*.json', { cwd: folder }).map((file) => basename(file, '.json'))
const unknown = positionals.filter((name) => !known.includes(name))
if (unknown.length > 0) throw new TypeError(`no such figures: ${unknown.join(', ')}; there are ${known.join(', ')}`)
const seed = Number(values.seed ?? Date.now() % 1_000_000)
console.log(`drawn with --seed ${seed}`)
let failed = 0
for (const name of positionals.length > 0 ? positionals : known.sort()) {
  const { isSame, text } = verify(name, new SeededRandom(seed, name), Number(values.blocks))
  if (!isSame) failed += 1
  console.log(`${isSame ? 'same ' : 'OTHER'} ${name}: ${text}`)
}
if (failed > 0) process.exitCode = 1

import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { openLevelStore } from '../../../src/store/level-store.ts'
import { repairStore } from '../../../src/store/repair.ts'
import { collect } from '../../contracts/store.ts'
import { testKeyspace } from '../../contracts/test-keyspace.ts'
import { type Random, seeded } from './random.ts'

export interface KillReport {
  readonly rounds: number
  acknowledged: number
  /** Batches that were there and of which no word had left the process: a lost acknowledgement is the normal case. */
  unacknowledged: number
  lost: number
  torn: number
  falseAlarms: number
  /** Rounds in which something unsynced was cut off. */
  cuts: number
  readonly failures: string[]
}

/** Rounds on one store before the next one: what is looked at after each is all that it holds. */
const roundsPerStore = 20

interface Writer {
  readonly child: ChildProcess
  /** Batches of which the process said that they are on disk, as they came over the pipe. */
  readonly acked: readonly string[]
  atLeast(count: number): Promise<void>
  kill(): Promise<void>
}

/** A process that writes until it is killed: eight writers whose batches share syncs. */
export function startWriter(dir: string, round: number, env: NodeJS.ProcessEnv = process.env): Writer {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'writer.ts'), dir, String(round)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env,
  })
  const acked: string[] = []
  let rest = ''
  let want = Number.POSITIVE_INFINITY
  const reached = Promise.withResolvers<void>()
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    acked.push(...lines)
    if (acked.length >= want) reached.resolve()
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  void ended.then(() => reached.reject(new Error(`the writer ended after ${acked.length} batches`)))
  reached.promise.catch(() => undefined)
  return {
    child,
    acked,
    atLeast: (count) => {
      want = count
      if (acked.length >= count) reached.resolve()
      return reached.promise
    },
    kill: async () => {
      child.kill('SIGKILL')
      await ended
    },
  }
}

/** Kills one writer after the other while it writes, and holds what is there against what was acknowledged before. */
export async function runKills(
  root: string,
  options: {
    readonly rounds: number
    readonly seed: number
    /** The machine goes down with the process: the path of the library that tells what was synced. */
    readonly powerCut?: {
      readonly shim: string
      /** The disk forgets of each file part of what it said was synced: shows that this is found out. */
      readonly isLying?: boolean
    }
  },
): Promise<KillReport> {
  const random = seeded(options.seed)
  const report: KillReport = {
    rounds: options.rounds,
    acknowledged: 0,
    unacknowledged: 0,
    lost: 0,
    torn: 0,
    falseAlarms: 0,
    cuts: 0,
    failures: [],
  }
  let acked = new Set<string>()
  for (let round = 0; round < options.rounds; round++) {
    const dir = join(root, `store-${Math.floor(round / roundsPerStore)}`)
    if (round % roundsPerStore === 0) acked = new Set()
    const syncLog = join(root, 'synced')
    rmSync(syncLog, { force: true })
    const { powerCut } = options
    const env =
      powerCut === undefined ? process.env : { ...process.env, LD_PRELOAD: powerCut.shim, NFLTR_SYNC_LOG: syncLog }
    const writer = startWriter(dir, round, env)
    try {
      await writer.atLeast(10 + random.below(120))
    } catch (error) {
      // It did not even start on what the round before had left.
      alarm(report, round, String(error))
    } finally {
      await writer.kill()
    }
    for (const id of writer.acked) acked.add(id)
    report.acknowledged += writer.acked.length
    if (powerCut !== undefined && cutPower(dir, syncLog, { random, isLying: powerCut.isLying === true }))
      report.cuts += 1
    const isLast = round % roundsPerStore === roundsPerStore - 1 || round === options.rounds - 1
    await compare(dir, { acked, round, isLast }, report)
    if (isLast) rmSync(dir, { recursive: true })
  }
  return report
}

async function compare(
  dir: string,
  { acked, round, isLast }: { readonly acked: ReadonlySet<string>; readonly round: number; readonly isLast: boolean },
  report: KillReport,
): Promise<void> {
  try {
    const store = await openLevelStore(dir, { keyspace: testKeyspace, scrubDelayMs: isLast ? 0 : 600_000 })
    const halves = [new Map<string, string>(), new Map<string, string>()] as const
    for (const [key, value] of await collect(store.scan('test/'))) {
      const [, half, id = ''] = key.split('/')
      halves[half === 'left' ? 0 : 1].set(id, value)
    }
    const [left, right] = halves
    const torn = [...left].filter(([id, value]) => right.get(id) !== value || value !== id.repeat(20))
    report.torn += torn.length + Math.abs(right.size - left.size)
    const lost = [...acked].filter((id) => !left.has(id))
    report.lost += lost.length
    if (isLast) report.unacknowledged += left.size - acked.size
    if (torn.length > 0 || lost.length > 0 || right.size !== left.size)
      report.failures.push(`round ${round}: lost ${lost.slice(0, 5).join(' ')}, torn ${torn.length}`)
    if (isLast) await until(() => store.condition.state !== 'checking')
    if (store.condition.state === 'damaged') alarm(report, round, store.condition.damage[0]?.found ?? '')
    await store.close()
    if (!isLast) return
    const { outcome } = await repairStore(dir)
    if (outcome !== 'sound') alarm(report, round, `the repair found it ${outcome}`)
  } catch (error) {
    alarm(report, round, String(error))
  }
}

function alarm(report: KillReport, round: number, what: string): void {
  report.falseAlarms += 1
  report.failures.push(`round ${round}: ${what}`)
}

async function until(isDone: () => boolean): Promise<void> {
  const deadline = performance.now() + 60_000
  while (!isDone() && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 5))
}

/**
 * Leaves of each file what had been synced, and of what came after it a random first part: what a disk may hold after the
 * power is gone. Files that were never synced are gone with it, half of the time.
 *
 * @returns whether anything was cut off
 */
function cutPower(
  dir: string,
  syncLog: string,
  { random, isLying }: { readonly random: Random; readonly isLying: boolean },
): boolean {
  const synced = new Map<string, number>()
  for (const line of readFileSync(syncLog, 'utf8').split('\n')) {
    const space = line.lastIndexOf(' ')
    if (space > 0) synced.set(line.slice(0, space), Number(line.slice(space + 1)))
  }
  let hasCut = false
  for (const name of readdirSync(join(dir, 'db'))) {
    // CURRENT is renamed after it was synced under another name; the rest are LevelDB's lock and diary.
    if (!/^\d+\.(?:ldb|log)$|^MANIFEST/.test(name)) continue
    const path = join(dir, 'db', name)
    const { size, birthtimeMs, mtimeMs } = statSync(path)
    const kept = synced.get(path)
    // Written by an earlier process, and not touched by this one: it is as it was.
    if (kept === undefined && !isOfThisRun(syncLog, Math.max(birthtimeMs, mtimeMs))) continue
    const from = isLying ? Math.floor((kept ?? 0) / 2) : (kept ?? 0)
    if (from >= size) continue
    truncateSync(path, isLying ? from : from + random.below(size - from + 1))
    hasCut = true
  }
  const holder = join(dir, 'holder.json')
  const known = JSON.parse(readFileSync(holder, 'utf8')) as object
  writeFileSync(holder, JSON.stringify({ ...known, boot_id: 'before-the-power-cut' }))
  return hasCut
}

function isOfThisRun(syncLog: string, timeMs: number): boolean {
  return timeMs >= statSync(syncLog).birthtimeMs
}

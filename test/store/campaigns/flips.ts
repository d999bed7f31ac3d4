import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { NfltrError } from '../../../src/core/errors.ts'
import { liveLogs } from '../../../src/store/level/inspection.ts'
import { readManifest } from '../../../src/store/level/manifest-file.ts'
import { openLevelStore } from '../../../src/store/level-store.ts'
import { repairStore } from '../../../src/store/repair.ts'
import { bornOf, readMarker, writeMarker } from '../../../src/store/store-files.ts'
import { put, testKeyspace } from '../../contracts/test-keyspace.ts'
import { type Random, seeded } from './random.ts'

export interface FlipReport {
  readonly trials: number
  readonly records: number
  /** How the flipped bit was found: when the store was opened, when a record was read, or in the background only. */
  readonly found: { refused: number; read: number; background: number }
  /** It was in a file, or a byte of one, that carries nothing. */
  harmless: number
  readonly byFile: Record<string, number>
  readonly repaired: { sound: number; whole: number; lossy: number }
  /** Reads that were refused with a type, and reads that gave the right value, of damaged stores that opened. */
  refusedReads: number
  rightReads: number
  readonly failures: string[]
}

type Values = ReadonlyMap<string, string>

/**
 * Flips one bit anywhere in a store, each time in the same sound one, and holds the store to three promises: no wrong value is
 * served, what is damaged is named, and a repair makes all of it good.
 */
export async function runFlips(
  dir: string,
  options: { readonly records: number; readonly trials: number; readonly seed: number },
): Promise<FlipReport> {
  const random = seeded(options.seed)
  const values = await fill(dir, options.records, random)
  const pristine = new Map(filesOf(dir))
  const live = liveFiles(dir)
  const report: FlipReport = {
    trials: options.trials,
    records: options.records,
    found: { refused: 0, read: 0, background: 0 },
    harmless: 0,
    byFile: {},
    repaired: { sound: 0, whole: 0, lossy: 0 },
    refusedReads: 0,
    rightReads: 0,
    failures: [],
  }
  for (let trial = 0; trial < options.trials; trial++) {
    putBack(dir, pristine)
    const { file, bit } = choose(pristine, random, trial % 2 === 0)
    const bytes = Buffer.from(pristine.get(file) ?? '')
    bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    writeFileSync(join(dir, file), bytes)
    const kind = kindOf(file)
    report.byFile[kind] = (report.byFile[kind] ?? 0) + 1
    const fail = (what: string): void => void report.failures.push(`trial ${trial}, ${file} bit ${bit}: ${what}`)
    const isFound = await look(dir, values, report, fail)
    if (!isFound) {
      report.harmless += 1
      if (live.has(file) && !isPadding(file, bit, bytes.length)) fail('nobody noticed')
    }
    const { outcome } = await repairStore(dir)
    report.repaired[outcome] += 1
    if (outcome === 'lossy') fail('the repair lost something')
    if (isFound && outcome === 'sound') fail('the repair saw nothing')
    await lookAfter(dir, values, fail)
  }
  return report
}

/** Records of every kind and size, in tables that lie over each other and in the log. */
async function fill(dir: string, records: number, random: Random): Promise<Values> {
  const values = new Map<string, string>()
  for (let round = 0; round < 4; round++) {
    const store = await openLevelStore(dir, { keyspace: testKeyspace })
    for (let from = 0; from < records; from += 100) {
      const batch = Array.from({ length: Math.min(100, records - from) }, (_, index) => from + index)
        .filter((no) => round === 0 || no % (round * 7) === 0)
        .map((no) => {
          const length = no % 500 === 0 ? 20_000 : random.below(300)
          const text = no % 2 === 0 ? 'the same again '.repeat(length / 15) : noise(length, random)
          return [`test/${String(no).padStart(6, '0')}`, `${round} ${no} ${text}`] as const
        })
      for (const [key, value] of batch) values.set(key, value)
      await store.commit(batch.map(([key, value]) => put(key, value)))
    }
    await store.close()
  }
  return values
}

function noise(length: number, random: Random): string {
  return Array.from({ length }, () => String.fromCharCode(33 + random.below(94))).join('')
}

/** @returns whether the flip was noticed */
async function look(dir: string, values: Values, report: FlipReport, fail: (what: string) => void): Promise<boolean> {
  let store: Awaited<ReturnType<typeof openLevelStore>>
  try {
    store = await openLevelStore(dir, { keyspace: testKeyspace, scrubDelayMs: 0 })
  } catch (error) {
    if (!(error instanceof NfltrError) || error.code !== 'store_damaged') fail(`it was refused with ${String(error)}`)
    report.found.refused += 1
    return true
  }
  let refused = 0
  const answer = async (key: string, expected: string | undefined): Promise<void> => {
    try {
      const value = await store.get(key)
      const text = value === undefined ? undefined : Buffer.from(value).toString()
      if (text !== expected) fail(`${key} was ${JSON.stringify(text?.slice(0, 60))}`)
      else report.rightReads += 1
    } catch (error) {
      if (!(error instanceof NfltrError) || error.code !== 'store_damaged') fail(`${key} gave ${String(error)}`)
      refused += 1
    }
  }
  for (const [key, expected] of values) await answer(key, expected)
  for (let no = 0; no < 200; no++) await answer(`test/${String(no * 13).padStart(6, '0')}+`, undefined)
  refused += await scanned(store, values, fail)
  const deadline = performance.now() + 60_000
  while (store.condition.state === 'checking' && performance.now() < deadline) await pause(5)
  const { state, damage } = store.condition
  if (state === 'checking') fail('the look at everything did not end')
  if (refused > 0 && state !== 'damaged') fail(`${refused} reads were refused, and the store calls itself ${state}`)
  if (state === 'damaged' && damage.some(({ found }) => found === '')) fail('the damage has no name')
  report.refusedReads += refused
  if (refused > 0) report.found.read += 1
  else if (state === 'damaged') report.found.background += 1
  await store.close()
  return state === 'damaged'
}

/** A scan gives right values up to the place where it is refused. @returns 1 where it was */
async function scanned(
  store: Awaited<ReturnType<typeof openLevelStore>>,
  values: Values,
  fail: (what: string) => void,
): Promise<number> {
  const keys = [...values.keys()].sort()
  let at = 0
  try {
    for await (const { key, value } of store.scan('test/')) {
      if (key !== keys[at] || Buffer.from(value).toString() !== values.get(key))
        fail(`the scan gave ${key} as its ${at}th`)
      at += 1
    }
  } catch (error) {
    if (!(error instanceof NfltrError) || error.code !== 'store_damaged') fail(`the scan gave ${String(error)}`)
    return 1
  }
  if (at !== keys.length) fail(`the scan ended after ${at}`)
  return 0
}

async function lookAfter(dir: string, values: Values, fail: (what: string) => void): Promise<void> {
  try {
    const store = await openLevelStore(dir, { keyspace: testKeyspace, scrubDelayMs: 600_000 })
    if ((await scanned(store, values, (what) => fail(`after the repair ${what}`))) > 0)
      fail('a scan was refused after the repair')
    if (store.identity.incarnation !== 1) fail('the repair began another incarnation')
    await store.close()
  } catch (error) {
    fail(`it did not open after the repair: ${String(error)}`)
  }
}

/** Every file of the store, with its bytes. */
function filesOf(dir: string): ReadonlyMap<string, Buffer> {
  const names = [...readdirSync(join(dir, 'db')).map((name) => join('db', name)), 'db.marker']
  return new Map(
    names.filter((name) => name !== join('db', 'LOCK')).map((name) => [name, readFileSync(join(dir, name))]),
  )
}

/** In place, so that the folder stays the one it was: damage does not copy it. */
function putBack(dir: string, pristine: Map<string, Buffer>): void {
  for (const name of readdirSync(dir))
    if (name !== 'db' && name !== 'db.marker') rmSync(join(dir, name), { recursive: true })
  for (const name of readdirSync(join(dir, 'db'))) if (!pristine.has(join('db', name))) rmSync(join(dir, 'db', name))
  mkdirSync(join(dir, 'db'), { recursive: true })
  for (const [name, bytes] of pristine) writeFileSync(join(dir, name), bytes)
  // After a repair it is another folder.
  const marker = readMarker(join(dir, 'db.marker'))
  const born = bornOf(join(dir, 'db'))
  if (marker === undefined || born === undefined) throw new Error('no marker')
  writeMarker(join(dir, 'db.marker'), { ...marker, born })
  pristine.set('db.marker', readFileSync(join(dir, 'db.marker')))
}

/** Any bit of all with the same chance, or any file with the same chance and then any bit of it: small ones matter too. */
function choose(
  pristine: ReadonlyMap<string, Buffer>,
  random: Random,
  isBySize: boolean,
): { file: string; bit: number } {
  const files = [...pristine].filter(([, bytes]) => bytes.length > 0)
  if (!isBySize) {
    const [file, bytes] = files[random.below(files.length)] ?? ['', Buffer.alloc(1)]
    return { file, bit: random.below(bytes.length * 8) }
  }
  let at = random.below(files.reduce((sum, [, bytes]) => sum + bytes.length, 0))
  for (const [file, bytes] of files) {
    if (at < bytes.length) return { file, bit: at * 8 + random.below(8) }
    at -= bytes.length
  }
  throw new Error('there was no file')
}

function kindOf(file: string): string {
  const name = file.replace(/^db\//, '')
  return /^\d+\.(\w+)$/.exec(name)?.[1] ?? name.replace(/-\d+$/, '')
}

/** The files that the store consists of: not LevelDB's diary, nor what it had no time to delete. */
function liveFiles(dir: string): ReadonlySet<string> {
  const db = join(dir, 'db')
  const current = readFileSync(join(db, 'CURRENT'), 'utf8').trim()
  const manifest = readManifest(readFileSync(join(db, current)))
  const tables = manifest.tables.map(({ number }) => `${String(number).padStart(6, '0')}.ldb`)
  const names = ['CURRENT', current, ...tables, ...liveLogs(db, manifest)]
  return new Set([...names.map((name) => join('db', name)), 'db.marker'])
}

/** The middle of a table's footer, which nobody reads. */
function isPadding(file: string, bit: number, length: number): boolean {
  return file.endsWith('.ldb') && bit >> 3 >= length - 48 && bit >> 3 < length - 8
}

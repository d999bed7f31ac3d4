import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { afterAll, describe, expect, test } from 'vitest'
import type { StoreIdentity } from '../../src/ports/store.ts'
import { backupRecords, checkBackup, writeBackup } from '../../src/store/backup.ts'
import { type LevelStore, openLevelStore } from '../../src/store/level-store.ts'
import { repairStore } from '../../src/store/repair.ts'
import { restoreStore } from '../../src/store/restore.ts'
import { bornOf, readMarker, thisHolder, writeMarker } from '../../src/store/store-files.ts'
import { collect } from '../contracts/store.ts'
import { put, testKeyspace } from '../contracts/test-keyspace.ts'

const root = mkdtempSync(join(tmpdir(), 'nfltr-repair-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let folders = 0
const folder = (): string => join(root, String(folders++))
const keyOf = (no: number): string => `test/${String(no).padStart(4, '0')}`
const textOf = (no: number, round = 0): string => `value ${round} ${Math.sin(no)}`

function open(dir: string): Promise<LevelStore> {
  return openLevelStore(dir, { keyspace: testKeyspace, scrubDelayMs: 600_000 })
}

/** A closed store of records in two tables that lie over each other, and some in the log; each tenth was deleted. */
async function filled(): Promise<{
  readonly dir: string
  readonly identity: StoreIdentity
  readonly expected: [string, string][]
}> {
  const dir = folder()
  for (const round of [0, 1, 2]) {
    const store = await open(dir)
    for (let from = 0; from < 300; from += 50) {
      const some = Array.from({ length: 50 }, (_, index) => from + index).filter((no) => no % 3 >= round)
      await store.commit(some.map((no) => put(keyOf(no), textOf(no, round))))
    }
    await store.commit(Array.from({ length: 30 }, (_, index) => ({ type: 'delete', key: keyOf(index * 10) })))
    await store.close()
  }
  const store = await open(dir)
  await store.commit([put('test/last', 'the last one')])
  const expected = await collect(store.scan('test/'))
  const { identity } = store
  await store.close()
  return { dir, identity, expected }
}

/** The very folder as it was, not a copy: as damage leaves it. */
function putBack(backup: string, dir: string): void {
  rmSync(dir, { recursive: true, force: true })
  cpSync(backup, dir, { recursive: true })
  const marker = readMarker(join(dir, 'db.marker'))
  const born = bornOf(join(dir, 'db'))
  if (marker === undefined || born === undefined) throw new Error('no marker')
  writeMarker(join(dir, 'db.marker'), { ...marker, born })
}

async function contents(
  dir: string,
): Promise<{ readonly identity: StoreIdentity; readonly records: [string, string][] }> {
  const store = await open(dir)
  const records = await collect(store.scan('test/'))
  const { identity } = store
  await store.close()
  return { identity, records }
}

describe('a table whose index is damaged', () => {
  test('is read to its end, also behind blocks in which everything is a delete', async () => {
    const dir = folder()
    const many = Array.from({ length: 4_000 }, (_, no) => no)
    let store = await open(dir)
    await store.commit(many.map((no) => put(keyOf(no), textOf(no))))
    await store.close()
    store = await open(dir)
    await store.commit(many.slice(0, 3_500).map((no) => ({ type: 'delete', key: keyOf(no) })))
    await store.commit(many.slice(0, 100).map((no) => put(`test/z/${no}`, textOf(no))))
    const expected = await collect(store.scan('test/'))
    await store.close()
    // Opening writes the log into a table.
    await (await open(dir)).close()
    const tables = readdirSync(join(dir, 'db')).filter((name) => name.endsWith('.ldb'))
    const backup = folder()
    cpSync(dir, backup, { recursive: true })

    for (const table of tables) {
      putBack(backup, dir)
      const path = join(dir, 'db', table)
      const bytes = readFileSync(path)
      bytes[bytes.length - 60] = (bytes[bytes.length - 60] ?? 0) ^ 1
      writeFileSync(path, bytes)

      const repaired = await repairStore(dir)

      expect(repaired).toMatchObject({ outcome: 'whole', losses: [] })
      expect((await contents(dir)).records).toEqual(expected)
    }
    expect(tables.length).toBeGreaterThan(1)
  })
})

describe('a holder that comes while a store is rebuilt', () => {
  test('is not robbed of its word', async () => {
    const { dir } = await filled()
    const file = `${dir}.backup`
    const store = await open(dir)
    await writeBackup(store, file, { hubId: 'hub-1', version: '1.0.0' })
    await store.close()
    const other = { ...thisHolder(), pid: process.ppid }

    const restoring = restoreStore(dir, file, 'hub-1')
    while (!existsSync(join(dir, 'db.restored'))) await new Promise((resolve) => setImmediate(resolve))
    writeFileSync(join(dir, 'holder.json'), JSON.stringify(other))

    await expect(restoring).rejects.toMatchObject({ code: 'store_held' })
    expect(JSON.parse(readFileSync(join(dir, 'holder.json'), 'utf8'))).toEqual(other)
  })
})

describe('a repair', () => {
  test('of a sound store changes nothing', async () => {
    const { dir, identity, expected } = await filled()
    const before = readdirSync(join(dir, 'db')).sort()

    const report = await repairStore(dir)

    expect(report).toEqual({
      outcome: 'sound',
      ...identity,
      records: expected.length,
      recordsExpected: expected.length,
      corrections: [],
      losses: [],
    })
    expect(readdirSync(join(dir, 'db')).sort()).toEqual(before)
    expect(existsSync(join(dir, 'holder.json'))).toBe(false)
  })

  test('puts one flipped bit right, wherever it is, and loses nothing', async () => {
    const { dir, identity, expected } = await filled()
    const backup = folder()
    cpSync(dir, backup, { recursive: true })
    const files = readdirSync(join(backup, 'db')).filter((name) => statSync(join(backup, 'db', name)).size > 0)
    const outcomes = { sound: 0, whole: 0, lossy: 0 }

    for (let trial = 0; trial < 60; trial++) {
      putBack(backup, dir)
      const name = files[trial % files.length] ?? ''
      const bytes = readFileSync(join(backup, 'db', name))
      const bit = (trial * 104_729 + trial) % (bytes.length * 8)
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      writeFileSync(join(dir, 'db', name), bytes)

      const report = await repairStore(dir)

      outcomes[report.outcome] += 1
      expect(await contents(dir), `${name} bit ${bit}`).toEqual({ identity, records: expected })
    }
    expect(outcomes.lossy).toBe(0)
    expect(outcomes.whole).toBeGreaterThan(30)
  }, 60_000)

  test.each([
    ['CURRENT', (db: string) => rmSync(join(db, 'CURRENT'))],
    ['MANIFEST', (db: string) => rmManifest(db)],
    ['its marker', (db: string) => writeFileSync(`${db}.marker`, 'no marker')],
  ])('makes good that %s is gone', async (_what, damage) => {
    const { dir, identity, expected } = await filled()
    damage(join(dir, 'db'))
    await expect(open(dir)).rejects.toMatchObject({ code: 'store_damaged' })

    const report = await repairStore(dir)

    expect(report).toMatchObject({ outcome: 'whole', losses: [], records: expected.length })
    expect(await contents(dir)).toEqual({ identity, records: expected })
  })

  test('names what was in a table that is gone, keeps the rest and goes on under another incarnation', async () => {
    const { dir, identity, expected } = await filled()
    const table =
      readdirSync(join(dir, 'db'))
        .filter((name) => name.endsWith('.ldb'))
        .sort()
        .at(-1) ?? ''
    rmSync(join(dir, 'db', table))

    const report = await repairStore(dir)

    expect(report).toMatchObject({
      outcome: 'lossy',
      incarnation: identity.incarnation + 1,
      losses: expect.arrayContaining([
        expect.objectContaining({ kind: 'range', file: table, found: 'it was missing' }),
      ]),
    })
    const after = await contents(dir)
    expect(after.identity).toEqual({ storeId: identity.storeId, incarnation: identity.incarnation + 1 })
    // What stands is what was written once, if not the last of it.
    const known = new Set(expected.map(([key]) => key))
    for (const [key, value] of after.records) {
      const no = Number(key.slice(5))
      if (known.has(key)) expect([0, 1, 2].map((round) => textOf(no, round)).concat('the last one')).toContain(value)
    }
    const store = await open(dir)
    expect(store.lost).toMatchObject(report.losses.map(({ kind, found }) => ({ kind, found })))
    await store.close()
    expect(readdirSync(report.keptAs ?? '')).not.toContain(table)
  })

  test('keeps the sound records of a block that is damaged in many places, and names its keys', async () => {
    const { dir } = await filled()
    const table =
      readdirSync(join(dir, 'db'))
        .filter((name) => name.endsWith('.ldb'))
        .sort()[0] ?? ''
    const bytes = readFileSync(join(dir, 'db', table))
    bytes.fill(0xff, 300, 340)
    writeFileSync(join(dir, 'db', table), bytes)

    const report = await repairStore(dir)

    expect(report.outcome).toBe('lossy')
    expect(report.losses).toContainEqual(expect.objectContaining({ kind: 'range', file: table }))
    expect((await contents(dir)).records.length).toBeGreaterThan(50)
  })

  test('tells that the last writes are gone where the log was cut after an orderly end', async () => {
    const { dir } = await filled()
    const log =
      readdirSync(join(dir, 'db'))
        .filter((name) => name.endsWith('.log'))
        .at(-1) ?? ''
    const bytes = readFileSync(join(dir, 'db', log))
    writeFileSync(join(dir, 'db', log), bytes.subarray(0, -3))

    const report = await repairStore(dir)

    expect(report).toMatchObject({
      outcome: 'lossy',
      losses: [{ kind: 'tail', found: expect.stringContaining('commit') }],
    })
    expect((await contents(dir)).records.map(([key]) => key)).not.toContain('test/last')
  })

  test('goes on from what an interrupted one had put aside', async () => {
    const { dir, identity, expected } = await filled()
    renameSync(join(dir, 'db'), join(dir, 'db.damaged-1'))
    await expect(open(dir)).rejects.toMatchObject({ code: 'store_damaged' })

    expect(await repairStore(dir)).toMatchObject({ outcome: 'whole' })

    expect(await contents(dir)).toEqual({ identity, records: expected })
  })

  test('uses a damaged table that was kept before a compaction made another without it', async () => {
    const dir = folder()
    const first = await open(dir)
    await first.commit(Array.from({ length: 300 }, (_, no) => put(keyOf(no), textOf(no))))
    const expected = await collect(first.scan('test/'))
    const { identity } = first
    await first.close()
    await (await open(dir)).close()
    const table = readdirSync(join(dir, 'db')).find((name) => name.endsWith('.ldb')) ?? ''
    const bytes = readFileSync(join(dir, 'db', table))
    bytes[6_000] = (bytes[6_000] ?? 0) ^ 1
    writeFileSync(join(dir, 'db', table), bytes)
    const store = await openLevelStore(dir, { keyspace: testKeyspace, checkedAtStartBytes: 0, scrubDelayMs: 0 })
    await store.damaged
    await store.close()
    expect(readFileSync(join(dir, 'db.evidence', table)).equals(bytes)).toBe(true)
    rmSync(join(dir, 'db', table), { force: true })

    const report = await repairStore(dir)

    expect(report).toMatchObject({ outcome: 'whole', losses: [], records: expected.length })
    expect(await contents(dir)).toEqual({ identity, records: expected })
    expect(existsSync(join(dir, 'db.evidence'))).toBe(false)
  })

  test('is refused while the store is open, and the store while it is repaired', async () => {
    const { dir } = await filled()
    const store = await open(dir)
    await expect(repairStore(dir)).rejects.toMatchObject({ code: 'store_held', details: { pid: process.pid } })
    await store.close()
    writeFileSync(join(dir, 'holder.json'), JSON.stringify({ ...thisHolder(), task: 'repair' }))

    await expect(open(dir)).rejects.toMatchObject({ code: 'store_held' })
    await expect(repairStore(folder())).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('a backup', () => {
  test('holds one moment of a store that is written to meanwhile, and puts it back under a new incarnation', async () => {
    const { dir, identity, expected } = await filled()
    const file = join(root, 'backup-1')
    const store = await open(dir)
    let isDone = false
    let written = 0
    const writing = (async () => {
      for (; !isDone; written++) {
        await store.commit([put(`test/left/${written}`, 'x'), put(`test/right/${written}`, 'x')])
      }
    })()

    const facts = await writeBackup(store, file, { hubId: 'hub-1', version: '1.0.0' })

    isDone = true
    await writing
    await store.close()
    expect(facts).toMatchObject({ hub_id: 'hub-1', store_id: identity.storeId, incarnation: 1 })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const report = await restoreStore(dir, file, 'hub-1')
    expect(report.identity).toEqual({ storeId: identity.storeId, incarnation: 2 })
    const { records, identity: after } = await contents(dir)
    expect(after).toEqual(report.identity)
    const left = records.filter(([key]) => key.startsWith('test/left/')).map(([key]) => key.slice(10))
    const right = records.filter(([key]) => key.startsWith('test/right/')).map(([key]) => key.slice(11))
    expect(left).toEqual(right)
    expect(left.length).toBeLessThanOrEqual(written)
    expect(records.filter(([key]) => !/left|right/.test(key))).toEqual(expected)
    expect((await restoreStore(dir, file, 'hub-1')).identity.incarnation).toBe(3)
  })

  test('is refused where it is cut, changed, of another hub or of a later version', async () => {
    const { dir } = await filled()
    const file = join(root, 'backup-2')
    const store = await open(dir)
    await writeBackup(store, file, { hubId: 'hub-1', version: '1.0.0' })
    await store.close()
    const bytes = readFileSync(file)

    await expect(restoreStore(dir, file, 'hub-2')).rejects.toMatchObject({
      code: 'invalid_argument',
      details: { hub_id: 'hub-1' },
    })
    await expect(restoreStore(dir, join(root, 'none'), 'hub-1')).rejects.toMatchObject({ code: 'not_found' })
    for (const [name, changed] of [
      ['cut', bytes.subarray(0, -1)],
      ['changed', Buffer.concat([bytes.subarray(0, 500), Buffer.from([1]), bytes.subarray(501)])],
      ['empty', Buffer.alloc(0)],
      ['another', Buffer.from('something else '.repeat(20))],
    ] as const) {
      const other = join(root, `backup-${name}`)
      writeFileSync(other, changed)
      await expect(restoreStore(dir, other, 'hub-1'), name).rejects.toMatchObject({ code: 'invalid_argument' })
    }
    const later = join(root, 'backup-later')
    writeFileSync(later, bytes.toString('latin1').replace('"format":1', '"format":2'), 'latin1')
    await expect(checkBackup(later)).rejects.toMatchObject({ code: 'store_newer' })
    expect((await contents(dir)).identity.incarnation).toBe(1)
  })

  test('of a damaged store is not made', async () => {
    const { dir } = await filled()
    const table =
      readdirSync(join(dir, 'db'))
        .filter((name) => name.endsWith('.ldb'))
        .sort()[0] ?? ''
    const bytes = readFileSync(join(dir, 'db', table))
    // Behind the first block, which holds the store’s own account and is read at the opening in any case.
    bytes[6_000] = (bytes[6_000] ?? 0) ^ 1
    writeFileSync(join(dir, 'db', table), bytes)
    const store = await openLevelStore(dir, { keyspace: testKeyspace, checkedAtStartBytes: 0 })

    const file = join(root, 'backup-3')
    await expect(writeBackup(store, file, { hubId: 'hub-1', version: '1.0.0' })).rejects.toMatchObject({
      code: 'store_damaged',
    })

    await store.close()
    expect(readdirSync(root).filter((name) => name.startsWith('backup-3'))).toEqual([])
  })

  test('is read in order', async () => {
    const { dir, expected } = await filled()
    const store = await open(dir)
    const file = join(root, 'backup-4')
    await writeBackup(store, file, { hubId: 'hub-1', version: '1.0.0' })
    await store.close()

    const keys: string[] = []
    for await (const [key] of backupRecords(file)) keys.push(key)

    expect(keys).toEqual(['meta/identity', 'meta/seal', ...expected.map(([key]) => key)])
  })
})

function rmManifest(db: string): void {
  for (const name of readdirSync(db)) if (name.startsWith('MANIFEST')) rmSync(join(db, name))
}

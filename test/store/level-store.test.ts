import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { afterAll, describe, expect, test } from 'vitest'
import type { Store } from '../../src/ports/store.ts'
import { openLevelStore } from '../../src/store/level-store.ts'
import { bornOf, readMarker, type StoreMarker, writeMarker } from '../../src/store/store-files.ts'
import { collect, describeStore } from '../contracts/store.ts'
import { put, testKeyspace } from '../contracts/test-keyspace.ts'

const root = mkdtempSync(join(tmpdir(), 'nfltr-store-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let folders = 0
function folder(): string {
  return join(root, String(folders++))
}

function open(dir: string): Promise<Store> {
  return openLevelStore(dir, { keyspace: testKeyspace })
}

describeStore('LevelDB', async () => {
  const dir = folder()
  return {
    open: () => open(dir),
    // A real kill is in level-store-kill.test.ts; here the same folder goes on without an orderly end of its marker.
    kill: async (store) => {
      const marker = readFileSync(join(dir, 'db.marker'))
      await store.close()
      writeFileSync(join(dir, 'db.marker'), marker)
    },
  }
})

/** A closed store with some records in tables and some in the log. */
async function filled(count = 40): Promise<string> {
  const dir = folder()
  const store = await open(dir)
  for (let no = 0; no < count; no++)
    await store.commit([put(`test/${String(no).padStart(3, '0')}`, `value ${no} `.repeat(20))])
  await store.close()
  return dir
}

function markerIn(dir: string): StoreMarker {
  const marker = readMarker(join(dir, 'db.marker'))
  if (marker === undefined) throw new Error(`${dir} has no marker`)
  return marker
}

async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  )
}

/** What a process that opens the database as it is gets to hear. */
function openElsewhere(db: string): string {
  const script = `const { Level } = await import('level')
    await new Level(process.argv[1]).open().then(() => console.log('opened'), (error) => console.log(error.cause.code))`
  const args = ['--input-type=module', '--eval', script, db]
  return execFileSync(process.execPath, args, { cwd: join(import.meta.dirname, '../..'), encoding: 'utf8' }).trim()
}

describe('LevelDB', () => {
  test('shares one write among the batches that arrive while another runs', async () => {
    const dir = folder()
    const store = await open(dir)
    await Promise.all(Array.from({ length: 100 }, (_, no) => store.commit([put(`test/${no}`, 'x')])))
    await store.close()

    expect(JSON.parse(readFileSync(join(dir, 'db.marker'), 'utf8'))).toMatchObject({ commits: 2 })
  })

  test('tells a second opener who holds it, in the same process and in others', async () => {
    const dir = folder()
    const store = await openLevelStore(dir, { keyspace: testKeyspace, holder: { session: 'ses_1' } })

    const error = await errorOf(open(dir))

    expect(error).toMatchObject({
      code: 'store_held',
      details: { pid: process.pid, host: hostname(), session: 'ses_1' },
    })
    expect(String(error)).toContain(`process ${process.pid} on ${hostname()} since 20`)
    await store.close()
    expect(existsSync(join(dir, 'holder.json'))).toBe(false)
  })

  test('holds its database against whatever another process tries, also after it has read all of it', async () => {
    const dir = folder()
    const store = await openLevelStore(dir, { keyspace: testKeyspace })
    await store.commit([put('test/a', '1')])
    for await (const _entry of store.snapshot());

    expect(openElsewhere(join(dir, 'db'))).toBe('LEVEL_LOCKED')
    await store.close()
    expect(openElsewhere(join(dir, 'db'))).toBe('opened')
  })

  test('names nobody when the holder left no word, and does not need the file', async () => {
    const dir = folder()
    const store = await open(dir)
    rmSync(join(dir, 'holder.json'))
    expect(await errorOf(open(dir))).toMatchObject({ code: 'store_held', details: {} })

    writeFileSync(join(dir, 'holder.json'), 'half a fi')
    expect(await errorOf(open(dir))).toMatchObject({ code: 'store_held', details: {} })
    await store.close()
  })

  test('never begins anew where a store was: no CURRENT, no database, another database, other bytes', async () => {
    const faults: ((db: string, marker: string) => void)[] = [
      (db) => rmSync(join(db, 'CURRENT')),
      (db) => writeFileSync(join(db, 'CURRENT'), ''),
      (db) => rmSync(db, { recursive: true }),
      (db) => {
        for (const name of readdirSync(db)) if (name.startsWith('MANIFEST')) rmSync(join(db, name))
      },
      (db) => {
        for (const name of readdirSync(db)) if (/\.(?:ldb|log)$/.test(name)) rmSync(join(db, name))
      },
      (_db, marker) => writeFileSync(marker, 'not a marker'),
      (_db, marker) => writeFileSync(marker, '{"format":1}'),
    ]
    for (const [index, fault] of faults.entries()) {
      const dir = await filled()
      fault(join(dir, 'db'), join(dir, 'db.marker'))

      const error = await errorOf(open(dir))

      expect(error, `fault ${index}`).toMatchObject({ code: 'store_damaged' })
      expect(existsSync(join(dir, 'holder.json'))).toBe(false)
    }
  })

  test('does not lose a store whose marker is gone', async () => {
    const dir = await filled()
    rmSync(join(dir, 'db.marker'))

    const store = await open(dir)

    expect(await collect(store.scan('test/'))).toHaveLength(40)
    await store.close()
    rmSync(join(dir, 'db.marker'))
    rmSync(join(dir, 'db/CURRENT'))
    expect(await errorOf(open(dir))).toMatchObject({ code: 'store_damaged' })
  })

  test('opens a database that was put back to an earlier time under another incarnation, once', async () => {
    const dir = await filled()
    const first = await open(dir)
    const { identity } = first
    await first.close()
    cpSync(join(dir, 'db'), join(dir, 'backup'), { recursive: true })
    const store = await open(dir)
    await store.commit([put('test/later', 'x')])
    await store.close()
    rmSync(join(dir, 'db'), { recursive: true })
    cpSync(join(dir, 'backup'), join(dir, 'db'), { recursive: true })

    const again = await open(dir)
    expect(again.identity).toEqual({ storeId: identity.storeId, incarnation: identity.incarnation + 1 })
    expect(await again.get('test/later')).toBeUndefined()
    await again.close()
    const third = await open(dir)
    expect(third.identity).toEqual(again.identity)
    await third.close()
  })

  test('notices that a whole folder is a copy, and not that it was moved', async () => {
    const dir = await filled()
    const moved = `${dir}-moved`
    renameSync(dir, moved)
    const store = await open(moved)
    const { identity } = store
    await store.close()
    expect(identity.incarnation).toBe(1)
    cpSync(moved, dir, { recursive: true })

    const copy = await open(dir)

    expect(copy.identity).toEqual({ storeId: identity.storeId, incarnation: 2 })
    await copy.close()
  })

  test('refuses a database whose latest commits are gone', async () => {
    const dir = await filled()
    const marker = join(dir, 'db.marker')
    const known = markerIn(dir)
    writeMarker(marker, { ...known, commits: known.commits + 1 })

    expect(await errorOf(open(dir))).toMatchObject({ code: 'store_damaged', details: { found: 40, expected: 41 } })
  })

  test('notices the database of another store', async () => {
    const [dir, other] = [await filled(), await filled()]
    rmSync(join(dir, 'db'), { recursive: true })
    cpSync(join(other, 'db'), join(dir, 'db'), { recursive: true })

    expect(await errorOf(open(dir))).toMatchObject({ code: 'store_damaged' })
  })

  test('leaves a store of a later version alone', async () => {
    const dir = await filled()
    const marker = join(dir, 'db.marker')
    writeMarker(marker, { ...markerIn(dir), format: 2 })

    expect(await errorOf(open(dir))).toMatchObject({ code: 'store_newer', details: { format: 2 } })
    // Only the number changed: that is a flipped bit, and no later version.
    writeFileSync(marker, readFileSync(marker, 'utf8').replace('"format":2', '"format":3'))
    expect(await errorOf(open(dir))).toMatchObject({ code: 'store_damaged' })
  })

  test('serves no wrong value and misses no record, whichever bit of whichever file is flipped', async () => {
    const dir = await filled(60)
    // Opened once more, the records are in a table; then some go into a log.
    const store = await open(dir)
    for (let no = 60; no < 90; no++)
      await store.commit([put(`test/${String(no).padStart(3, '0')}`, `value ${no} `.repeat(20))])
    const expected = await collect(store.scan('test/'))
    await store.close()
    const backup = join(root, 'pristine')
    cpSync(dir, backup, { recursive: true })
    const files = readdirSync(join(dir, 'db')).filter((name) => name !== 'LOCK')
    const outcomes = { refused: 0, whole: 0 }

    let seed = 12_345
    for (let trial = 0; trial < 200; trial++) {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
      const name = files[trial % files.length] ?? ''
      const path = join(dir, 'db', name)
      const bytes = readFileSync(join(backup, 'db', name))
      if (bytes.length === 0) continue
      const bit = seed % (bytes.length * 8)
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      rmSync(dir, { recursive: true })
      cpSync(backup, dir, { recursive: true })
      writeFileSync(path, bytes)
      // The very folder, not a copy of it: what is missing was lost, and was not put back.
      const born = bornOf(join(dir, 'db'))
      writeMarker(join(dir, 'db.marker'), { ...markerIn(backup), ...(born === undefined ? {} : { born }) })

      let damagedStore: Store | undefined
      try {
        damagedStore = await open(dir)
        expect(await collect(damagedStore.scan('test/')), `${name} bit ${bit}`).toEqual(expected)
        outcomes.whole += 1
      } catch (error) {
        expect(error, `${name} bit ${bit}`).toMatchObject({
          code: expect.stringMatching(/^store_(damaged|newer|failed)$/),
        })
        outcomes.refused += 1
      } finally {
        await damagedStore?.close()
      }
    }

    expect(outcomes.refused).toBeGreaterThan(50)
  }, 60_000)
})

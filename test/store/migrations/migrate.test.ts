import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { openDatabase } from '../../../src/store/level-database.ts'
import { type LevelStore, type LevelStoreOptions, openLevelStore } from '../../../src/store/level-store.ts'
import type { Migration } from '../../../src/store/migrations/migrations.ts'
import { collect } from '../../contracts/store.ts'
import { put, testKeyspace } from '../../contracts/test-keyspace.ts'
import { moveAndSign, split } from './made-up.ts'

const root = mkdtempSync(join(tmpdir(), 'nfltr-migrate-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let folders = 0

function open(dir: string, options: LevelStoreOptions = {}): Promise<LevelStore> {
  return openLevelStore(dir, { keyspace: testKeyspace, scrubDelayMs: 0, ...options })
}

const records = 40
/** Of so many bytes that the change of all of them takes several batches. */
const textOf = (no: number): string => `${no} `.padEnd(100_000, '.')
const keyOf = (no: number): string => String(no).padStart(3, '0')

/** A closed store of format 1. */
async function filled(): Promise<string> {
  const dir = join(root, String(folders++))
  const store = await open(dir)
  const texts = Array.from({ length: records }, (_, no) => put(`test/${keyOf(no)}`, textOf(no)))
  await store.commit([...texts, put('test/empty', '')])
  await store.close()
  return dir
}

const moved = Array.from({ length: records }, (_, no) => [`test/new/${keyOf(no)}`, `${textOf(no)}!`])

function textsOf(store: LevelStore) {
  return collect(store.scan('test/'))
}

/** All records add up to what the store says of them. */
function sound(store: LevelStore): Promise<void> {
  return vi.waitFor(() => expect(store.condition).toEqual({ state: 'sound', damage: [] }), { timeout: 10_000 })
}

describe('a store of an earlier format', () => {
  test('is brought to the present one when it is opened, once', async () => {
    const dir = await filled()
    const change = vi.fn(moveAndSign.change)

    const store = await open(dir, { migrations: [{ ...moveAndSign, change }] })
    expect(await textsOf(store)).toEqual(moved)
    await sound(store)
    await store.commit([put('test/new/later', 'as written')])
    await store.close()
    const again = await open(dir, { migrations: [{ ...moveAndSign, change }] })

    expect(await textsOf(again)).toEqual([...moved, ['test/new/later', 'as written']])
    expect(change).toHaveBeenCalledTimes(records + 1)
    await again.close()
  })

  test('goes through all formats in between', async () => {
    const dir = await filled()

    const store = await open(dir, { migrations: [moveAndSign, split] })

    const lengths = moved.map(([key, text]) => [`${key}/length`, String(text?.length)])
    expect(await textsOf(store)).toEqual([...moved, ...lengths].sort(([a = ''], [b = '']) => (a < b ? -1 : 1)))
    await sound(store)
    await store.close()
    const later = await open(dir, { migrations: [moveAndSign, split, unchanged] })
    expect(await textsOf(later)).toHaveLength(2 * records)
    await sound(later)
    await later.close()
  })

  test.each([1, 15, 27, records + 1])(
    'loses nothing and changes nothing twice when it dies at record %i',
    async (at) => {
      const dir = await filled()
      const program = join(import.meta.dirname, 'dies-migrating.ts')

      const { signal } = spawnSync(process.execPath, [program, dir, String(at)], { stdio: 'ignore' })
      expect(signal).toBe('SIGKILL')
      await expect(open(dir)).rejects.toMatchObject({ code: 'store_newer', details: { format: 2 } })
      const store = await open(dir, { migrations: [moveAndSign] })

      expect(await textsOf(store)).toEqual(moved)
      await sound(store)
      await store.close()
    },
    30_000,
  )

  test('is refused where a record does not check, and nothing of that record is changed', async () => {
    const dir = await filled()
    const raw = await openDatabase(join(dir, 'db'), { createIfMissing: false })
    const record = Buffer.from((await raw.get('test/007')) ?? [])
    record[20] = (record[20] ?? 0) ^ 1
    await raw.put('test/007', record)
    await raw.close()

    await expect(open(dir, { migrations: [moveAndSign] })).rejects.toMatchObject({
      code: 'store_damaged',
      details: { key: 'test/007' },
    })
  })
})

test('a store of a later format is refused by name, also where its marker is gone', async () => {
  const dir = await filled()
  await (await open(dir, { migrations: [moveAndSign] })).close()

  await expect(open(dir)).rejects.toMatchObject({ code: 'store_newer', details: { format: 2 } })
  rmSync(join(dir, 'db.marker'))
  await expect(open(dir)).rejects.toMatchObject({ code: 'store_newer', details: { format: 2 } })
})

test('the first released store keeps all that a change of format does not mean', async () => {
  const dir = join(root, 'released')
  cpSync(join(import.meta.dirname, '../../fixtures/store-1/hub'), dir, { recursive: true })
  const isText = (key: string): boolean => key.startsWith('hub/text/')
  const change: Migration['change'] = ({ key, value }) => [{ key, value: isText(key) ? value.toReversed() : value }]

  const before = await open(dir)
  const found = await all(before)
  await before.close()
  const after = await open(dir, { migrations: [{ what: 'texts stand in reverse', change }] })

  const reversed = (hex: string): string => Buffer.from(hex, 'hex').reverse().toString('hex')
  expect([...found.keys()].filter(isText)).not.toEqual([])
  expect(await all(after)).toEqual(new Map([...found].map(([key, hex]) => [key, isText(key) ? reversed(hex) : hex])))
  await sound(after)
  await after.close()
})

/** Every record but the store's own, as hex. */
async function all(store: LevelStore): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  for await (const { key, value } of store.scan('')) found.set(key, Buffer.from(value).toString('hex'))
  return found
}

const unchanged: Migration = { what: 'nothing', change: (entry) => [entry] }

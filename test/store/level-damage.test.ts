import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import type { Store } from '../../src/ports/store.ts'
import { inspectDatabase } from '../../src/store/level/inspection.ts'
import { readTableIndex } from '../../src/store/level/table-file.ts'
import { type LevelStoreOptions, openLevelStore } from '../../src/store/level-store.ts'
import { bornOf, readMarker, writeMarker } from '../../src/store/store-files.ts'
import { collect } from '../contracts/store.ts'
import { put, testKeyspace } from '../contracts/test-keyspace.ts'

const root = mkdtempSync(join(tmpdir(), 'nfltr-damage-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let folders = 0
const keyOf = (no: number): string => `test/${String(no).padStart(4, '0')}`

/** As a store that is too large to be looked at as a whole before it is opened. */
function open(dir: string, options: LevelStoreOptions = {}): Promise<Store> {
  const own = { keyspace: testKeyspace, repairCommand: 'nfltr test repair', checkedAtStartBytes: 0 }
  return openLevelStore(dir, { ...own, ...options })
}

/** A closed store whose records are all in one table, of several blocks. */
async function tabled(): Promise<string> {
  const dir = join(root, String(folders++))
  const store = await open(dir)
  for (let no = 0; no < 400; no += 100) {
    await store.commit(
      Array.from({ length: 100 }, (_, index) => put(keyOf(no + index), `value ${Math.sin(no + index)}`)),
    )
  }
  await store.close()
  // What was in the log goes into a table when it is opened again.
  await (await open(dir)).close()
  return dir
}

/** Makes a copied database look like the very folder that it was copied from. */
function keepBirth(dir: string): void {
  const marker = readMarker(join(dir, 'db.marker'))
  const born = bornOf(join(dir, 'db'))
  if (marker === undefined || born === undefined) throw new Error(`${dir} has no marker`)
  writeMarker(join(dir, 'db.marker'), { ...marker, born })
}

function tableOf(dir: string): string {
  const name = readdirSync(join(dir, 'db')).find((file) => file.endsWith('.ldb'))
  if (name === undefined) throw new Error(`${dir} has no table`)
  return join(dir, 'db', name)
}

function flip(path: string, at: number): void {
  const bytes = readFileSync(path)
  bytes[at] = (bytes[at] ?? 0) ^ 4
  writeFileSync(path, bytes)
}

/** The blocks of the only table, and the file. */
function blocksOf(dir: string) {
  const path = tableOf(dir)
  const bytes = readFileSync(path)
  return { path, blocks: readTableIndex((from, length) => bytes.subarray(from, from + length), bytes.length).blocks }
}

describe('a damaged table', () => {
  test('is found when what may be in it is read, and before anything of it is given out', async () => {
    const dir = await tabled()
    const { path, blocks } = blocksOf(dir)
    const [first, second] = blocks
    flip(path, (second?.offset ?? 0) + 20)
    const inSecond = keyOf(Number((first?.upTo ?? '').slice(5)) + 1)

    const store = await open(dir)

    expect(new TextDecoder().decode(await store.get(keyOf(0)))).toBe(`value ${Math.sin(0)}`)
    expect(store.condition).toEqual({ state: 'checking', damage: [] })
    const refusal = { code: 'store_damaged', hint: expect.stringContaining('nfltr test repair') }
    await expect(store.get(inSecond)).rejects.toMatchObject(refusal)
    // A key that was never there: the damaged part may have held it.
    await expect(store.get(`${inSecond}+`)).rejects.toMatchObject(refusal)
    await expect(collect(store.scan('test/'))).rejects.toMatchObject(refusal)
    expect(await collect(store.scan('test/', { limit: 3 }))).toHaveLength(3)
    expect(store.condition).toMatchObject({ state: 'damaged', damage: [{ from: first?.upTo, to: second?.upTo }] })
    await store.close()
  })

  test('is found in the background where nobody reads it, and told once', async () => {
    const dir = await tabled()
    const { path, blocks } = blocksOf(dir)
    flip(path, (blocks[2]?.offset ?? 0) + 20)

    const store = await open(dir, { scrubDelayMs: 0 })

    expect(await store.damaged).toMatchObject({ found: expect.stringContaining('.ldb at byte'), to: blocks[2]?.upTo })
    expect(store.condition).toMatchObject({ state: 'damaged', damage: [{}] })
    await store.close()
  })

  test('is found before anything is opened where the store is no larger than most', async () => {
    const dir = await tabled()
    const { path, blocks } = blocksOf(dir)
    flip(path, (blocks.at(-1)?.offset ?? 0) + 20)
    const before = readdirSync(join(dir, 'db')).sort()

    await expect(openLevelStore(dir, { keyspace: testKeyspace })).rejects.toMatchObject({
      code: 'store_damaged',
      message: expect.stringContaining(`to ${blocks.at(-1)?.upTo}`),
    })

    expect(readdirSync(join(dir, 'db')).sort()).toEqual(before)
  })

  test('that held the store’s own account is found at once', async () => {
    const dir = await tabled()
    const path = tableOf(dir)
    // In the index, without which no part of the table can be told.
    flip(path, statSync(path).size - 100)

    await expect(open(dir)).rejects.toMatchObject({
      code: 'store_damaged',
      message: expect.stringContaining('the index'),
    })
  })
})

describe('a sound store', () => {
  test('is looked at once as a whole', async () => {
    const dir = await tabled()

    const store = await open(dir, { scrubDelayMs: 0 })
    await store.commit([put('test/later', 'x')])

    await expect.poll(() => store.condition.state).toBe('sound')
    await store.close()
  })

  test('is told from one that was put back, whose every file checks', async () => {
    const dir = await tabled()
    const before = join(root, String(folders++))
    cpSync(join(dir, 'db'), before, { recursive: true })
    const store = await open(dir)
    await store.commit([put('test/later', 'x')])
    await store.close()
    rmSync(join(dir, 'db'), { recursive: true })
    cpSync(before, join(dir, 'db'), { recursive: true })
    keepBirth(dir)

    await expect(open(dir)).rejects.toMatchObject({
      code: 'store_damaged',
      message: expect.stringContaining('commit 5'),
    })
  })
})

describe('a log', () => {
  /** A store that was killed after these commits: its log holds them, and its marker does not know of them. */
  async function killed(): Promise<{ readonly dir: string; readonly log: string }> {
    const dir = await tabled()
    const store = await open(dir)
    for (let no = 0; no < 5; no++) await store.commit([put(keyOf(1_000 + no), 'x'.repeat(50))])
    const copy = join(root, String(folders++))
    cpSync(dir, copy, { recursive: true })
    await store.close()
    keepBirth(copy)
    writeFileSync(
      join(copy, 'holder.json'),
      JSON.stringify({ ...JSON.parse(readFileSync(join(copy, 'holder.json'), 'utf8')), start: '1' }),
    )
    const log = readdirSync(join(copy, 'db')).find(
      (file) => file.endsWith('.log') && statSync(join(copy, 'db', file)).size > 0,
    )
    if (log === undefined) throw new Error('no log')
    return { dir: copy, log: join(copy, 'db', log) }
  }

  test('that was cut short is what a kill leaves', async () => {
    const { dir, log } = await killed()
    writeFileSync(log, readFileSync(log).subarray(0, -10))

    const store = await open(dir)

    expect(await collect(store.scan('test/1'))).toHaveLength(4)
    await store.close()
  })

  test.each([
    ['in the middle', 0.5],
    ['in its last record', 0.95],
  ])('with a flipped bit %s is damage', async (_where, part) => {
    const { dir, log } = await killed()
    flip(log, Math.floor(statSync(log).size * part))

    await expect(open(dir)).rejects.toMatchObject({ code: 'store_damaged' })
  })

  test('whose lengths were changed is damage, though it then looks as if it ended there', async () => {
    for (const at of [4, 5]) {
      const { dir, log } = await killed()
      const bytes = readFileSync(log)
      const start = [...recordStarts(bytes)].at(-1) ?? 0
      bytes[start + at] = (bytes[start + at] ?? 0) ^ 0x80
      writeFileSync(log, bytes)

      await expect(open(dir), `byte ${at}`).rejects.toMatchObject({ code: 'store_damaged' })
    }
  })

  test('whose last record is whole in length and wrong is damage only while the machine stayed up', async () => {
    const { dir, log } = await killed()
    const bytes = readFileSync(log)
    bytes.fill(0, bytes.length - 30)
    writeFileSync(log, bytes)
    expect(inspectDatabase(join(dir, 'db'), { mayBeTorn: true }).findings).toEqual([])
    await expect(open(dir)).rejects.toMatchObject({ code: 'store_damaged' })

    const holder = JSON.parse(readFileSync(join(dir, 'holder.json'), 'utf8')) as object
    writeFileSync(join(dir, 'holder.json'), JSON.stringify({ ...holder, boot_id: 'another' }))

    const store = await open(dir)
    expect(await collect(store.scan('test/1'))).toHaveLength(4)
    await store.close()
  })

  test('that is missing is damage, also after a kill', async () => {
    const { dir, log } = await killed()
    rmSync(log)

    await expect(open(dir)).rejects.toMatchObject({ code: 'store_damaged', message: expect.stringContaining('.log') })
  })
})

/** Where the records of a log of one block begin. */
function* recordStarts(bytes: Buffer): Generator<number> {
  for (let at = 0; at + 7 <= bytes.length; at += 7 + bytes.readUInt16LE(at + 4)) yield at
}

test('a table that LevelDB itself refuses to read is told with what repairs it', async () => {
  const dir = await tabled()
  const store = await open(dir)
  const path = tableOf(dir)
  const bytes = readFileSync(path)
  writeFileSync(path, bytes.fill(255, 0, Math.floor(bytes.length / 2)))

  await expect(collect(store.scan('test/'))).rejects.toMatchObject({
    code: 'store_damaged',
    hint: expect.stringContaining('nfltr test repair'),
  })
  await store.close()
})

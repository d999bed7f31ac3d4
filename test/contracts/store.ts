import { describe, expect, test } from 'vitest'
import type { Store, StoreEntry } from '../../src/ports/store.ts'
import { put } from './test-keyspace.ts'

/** One store that can be opened again and again, as a process that restarts does. */
export interface StoreUnderTest {
  open(): Promise<Store>
  /** The process dies at once; nothing that it had not synced needs to be there afterwards. */
  kill(store: Store): Promise<void>
}

export async function collect(entries: AsyncIterable<StoreEntry>): Promise<[string, string][]> {
  const found: [string, string][] = []
  for await (const { key, value } of entries) found.push([key, new TextDecoder().decode(value)])
  return found
}

async function textAt(store: Store, key: string): Promise<string | undefined> {
  const value = await store.get(key)
  return value === undefined ? undefined : new TextDecoder().decode(value)
}

/** What every implementation of the store port keeps to. */
export function describeStore(name: string, prepare: () => Promise<StoreUnderTest>): void {
  describe(`${name} as a store`, () => {
    test('gives back what was committed, and nothing for what was deleted or never there', async () => {
      const store = await (await prepare()).open()

      await store.commit([put('test/a', '1'), put('test/b', ''), put('test/c', '3')])
      await store.commit([put('test/a', '2'), { type: 'delete', key: 'test/c' }, { type: 'delete', key: 'test/d' }])

      expect(await textAt(store, 'test/a')).toBe('2')
      expect(await textAt(store, 'test/b')).toBe('')
      expect(await store.get('test/c')).toBeUndefined()
      expect(await store.get('test/d')).toBeUndefined()
      await store.close()
    })

    test('gives back at once what is on disk, and of a batch all or nothing', async () => {
      const store = await (await prepare()).open()

      await store.commit([put('test/a', '1'), put('test/c', '3')])
      const second = store.commit([put('test/a', '2'), put('test/b', '2'), { type: 'delete', key: 'test/c' }])

      // A batch may get to the disk between any two looks, and then all of it is there.
      const isThere = store.getSync('test/b') !== undefined
      const before = new TextDecoder().decode(store.getSync('test/a'))
      expect(isThere ? ['2'] : ['1', '2']).toContain(before)
      await second
      expect(new TextDecoder().decode(store.getSync('test/a'))).toBe('2')
      expect(new TextDecoder().decode(store.getSync('test/b'))).toBe('2')
      expect(store.getSync('test/c')).toBeUndefined()
      await store.close()
      expect(() => store.getSync('test/a')).toThrow(expect.objectContaining({ code: 'store_failed' }))
    })

    test('scans a prefix in key order, from a key on, up to a limit', async () => {
      const store = await (await prepare()).open()
      const keys = ['test/b/2', 'test/b/1', 'test/b/10', 'test/a', 'test/c', 'test/b']
      await store.commit(keys.map((key) => put(key, key)))

      const scan = async (prefix: string, options?: { from?: string; limit?: number }): Promise<string[]> =>
        (await collect(store.scan(prefix, options))).map(([key]) => key)

      expect(await scan('test/b/')).toEqual(['test/b/1', 'test/b/10', 'test/b/2'])
      expect(await scan('test/')).toEqual(['test/a', 'test/b', 'test/b/1', 'test/b/10', 'test/b/2', 'test/c'])
      expect(await scan('test/b/', { from: 'test/b/10' })).toEqual(['test/b/10', 'test/b/2'])
      expect(await scan('test/b/', { from: 'test/b/11' })).toEqual(['test/b/2'])
      expect(await scan('test/b/', { from: 'test/a' })).toEqual(['test/b/1', 'test/b/10', 'test/b/2'])
      expect(await scan('test/b/', { from: 'test/c' })).toEqual([])
      expect(await scan('test/', { limit: 2 })).toEqual(['test/a', 'test/b'])
      expect(await scan('test/', { limit: 0 })).toEqual([])
      expect(await scan('test/x')).toEqual([])
      await store.close()
    })

    test('scans more than a page, and may be left in the middle', async () => {
      const store = await (await prepare()).open()
      const keys = Array.from({ length: 1200 }, (_, no) => `test/${String(no).padStart(6, '0')}`)
      await store.commit(keys.map((key) => put(key, 'x'.repeat(500))))

      expect((await collect(store.scan('test/'))).map(([key]) => key)).toEqual(keys)
      for await (const { key } of store.scan('test/')) {
        expect(key).toBe('test/000000')
        break
      }
      await store.close()
    })

    test('keeps the order of batches, also of those that are not awaited', async () => {
      const store = await (await prepare()).open()

      const commits: Promise<void>[] = []
      for (let no = 1; no <= 200; no++) {
        commits.push(store.commit(no % 10 === 0 ? [{ type: 'delete', key: 'test/a' }] : [put('test/a', `${no}`)]))
        commits.push(store.commit([put('test/b', `${no}`)]))
      }
      commits.push(store.commit([put('test/a', 'last')]))
      await Promise.all(commits)

      expect(await textAt(store, 'test/a')).toBe('last')
      expect(await textAt(store, 'test/b')).toBe('200')
      await store.close()
    })

    test('takes the last write where one batch writes a key more than once', async () => {
      const store = await (await prepare()).open()

      await store.commit([put('test/a', '1'), { type: 'delete', key: 'test/a' }, put('test/a', '2')])
      await store.commit([put('test/b', '1'), { type: 'delete', key: 'test/b' }])
      await store.commit([])

      expect(await collect(store.scan('test/'))).toEqual([['test/a', '2']])
      await store.close()
    })

    test('holds values of any bytes and of 16 MiB', async () => {
      const subject = await prepare()
      const store = await subject.open()
      const all = Uint8Array.from({ length: 256 }, (_, byte) => byte)
      const large = new Uint8Array(16 * 1024 * 1024).fill(7)

      await store.commit([
        { type: 'put', key: 'test/all', value: all },
        { type: 'put', key: 'test/large', value: large },
      ])
      await store.close()

      const again = await subject.open()
      expect(new Uint8Array((await again.get('test/all')) ?? [])).toEqual(all)
      expect(Buffer.compare((await again.get('test/large')) ?? all, large)).toBe(0)
      await again.close()
    })

    test('does not see what the caller changes after handing it over', async () => {
      const store = await (await prepare()).open()
      const value = new TextEncoder().encode('before')

      const first = store.commit([{ type: 'put', key: 'test/a', value }])
      const second = store.commit([{ type: 'put', key: 'test/b', value }])
      value.fill(0)
      await Promise.all([first, second])

      expect(await textAt(store, 'test/a')).toBe('before')
      expect(await textAt(store, 'test/b')).toBe('before')
      await store.close()
    })

    test('is the same store with the same content after a restart and after a kill', async () => {
      const subject = await prepare()
      const first = await subject.open()
      await first.commit([put('test/a', '1')])
      const { identity } = first
      await first.close()

      const second = await subject.open()
      await second.commit([put('test/b', '2')])
      await subject.kill(second)
      const third = await subject.open()

      expect(third.identity).toEqual(identity)
      expect(identity.storeId).toMatch(/^[0-9a-f]{32}$/)
      expect(await collect(third.scan('test/'))).toEqual([
        ['test/a', '1'],
        ['test/b', '2'],
      ])
      await third.close()
    })

    test('finishes what was handed over before it closes, and takes nothing afterwards', async () => {
      const subject = await prepare()
      const store = await subject.open()
      const commits = Array.from({ length: 20 }, (_, no) => store.commit([put(`test/${no}`, 'x')]))

      await store.close()
      await Promise.all(commits)
      await expect(store.commit([put('test/late', 'x')])).rejects.toMatchObject({ code: 'store_failed' })
      await expect(store.get('test/0')).rejects.toMatchObject({ code: 'store_failed' })
      await store.close()

      const again = await subject.open()
      expect(await collect(again.scan('test/'))).toHaveLength(20)
      await again.close()
    })

    test('is open once at a time', async () => {
      const subject = await prepare()
      const store = await subject.open()

      await expect(subject.open()).rejects.toMatchObject({ code: 'store_held' })
      await store.commit([put('test/a', 'still works')])
      await store.close()

      await (await subject.open()).close()
    })

    test('refuses a key that no row lists, the store own keys, and characters that have no place in a key', async () => {
      const store = await (await prepare()).open()

      await expect(store.commit([put('elsewhere/a', '1')])).rejects.toThrow('keyspace')
      await expect(store.commit([put('meta/identity', '1')])).rejects.toThrow('belongs to the store')
      await expect(store.commit([put('test/ä', '1')])).rejects.toThrow('not a store key')
      await expect(store.commit([put('test/a b', '1')])).rejects.toThrow('not a store key')
      expect(await collect(store.scan('test/'))).toEqual([])
      expect(await collect(store.scan('meta/'))).toEqual([])
      await store.close()
    })
  })
}

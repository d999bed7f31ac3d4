import { describe, expect, test } from 'vitest'
import { MemoryDisk } from '../../src/store/memory-disk.ts'
import { type MemoryStore, openMemoryStore } from '../../src/store/memory-store.ts'
import { collect, describeStore } from '../contracts/store.ts'
import { put, testKeyspace } from '../contracts/test-keyspace.ts'

describeStore('the in-memory twin', async () => {
  const disk = new MemoryDisk()
  return {
    open: () => openMemoryStore({ disk, keyspace: testKeyspace }),
    kill: async (store) => {
      ;(store as MemoryStore).crash()
    },
  }
})

/** A store whose syncs end when the test says so. */
async function gated(disk = new MemoryDisk()) {
  const gates: (() => void)[] = []
  const store = await openMemoryStore({
    disk,
    keyspace: testKeyspace,
    sync: () => new Promise((resolve) => gates.push(resolve)),
  })
  const sync = (): void => {
    gates.shift()?.()
  }
  return { disk, store, sync }
}

const keysOf = (disk: MemoryDisk): readonly string[] => disk.keys()

describe('the in-memory twin', () => {
  test('loses at a crash every suffix of what was not synced, whole batches at a time', async () => {
    for (let keep = 0; keep <= 4; keep++) {
      const { disk, store } = await gated()
      for (let no = 1; no <= 4; no++) void store.commit([put(`test/${no}/a`, 'x'), put(`test/${no}/b`, 'x')])
      expect(store.unsynced).toBe(4)

      store.crash({ keepUnsynced: keep })

      const expected = [1, 2, 3, 4].slice(0, keep).flatMap((no) => [`test/${no}/a`, `test/${no}/b`])
      expect(keysOf(disk)).toEqual(expected)
    }
  })

  test('answers nothing to a process that is dead', async () => {
    const { store, sync } = await gated()
    let answers = 0
    const count = (): void => {
      answers += 1
    }
    store.commit([put('test/a', 'x')]).then(count, count)
    store.crash()
    sync()
    store.commit([put('test/b', 'x')]).then(count, count)
    store.get('test/a').then(count, count)
    void collect(store.scan('test/')).then(count, count)

    await new Promise((resolve) => setImmediate(resolve))

    expect(answers).toBe(0)
  })

  test.each([true, false])(
    'fails for good after a failed write, whose outcome only the next opening shows (%s)',
    async (survives) => {
      const { disk, store, sync } = await gated()
      const first = store.commit([put('test/a', 'x')])
      sync()
      await first
      store.failNext({ code: 'disk_full', survives })
      const second = store.commit([put('test/b', 'x')])
      const third = store.commit([put('test/c', 'x')])
      sync()

      await expect(second).rejects.toMatchObject({ code: 'disk_full' })
      await expect(third).rejects.toMatchObject({ code: 'disk_full' })
      await expect(store.commit([put('test/d', 'x')])).rejects.toMatchObject({ code: 'disk_full' })
      expect(await store.failed).toMatchObject({ code: 'disk_full' })
      expect(await store.get('test/b')).toBeUndefined()
      expect(await store.get('test/a')).toBeDefined()
      await store.close()

      const again = await openMemoryStore({ disk, keyspace: testKeyspace })
      expect((await collect(again.scan('test/'))).map(([key]) => key)).toEqual(
        survives ? ['test/a', 'test/b'] : ['test/a'],
      )
    },
  )

  test('serves no damaged record', async () => {
    const disk = new MemoryDisk()
    disk.apply([put('test/a', 'x'), put('test/b', 'x')])
    disk.damage('test/b')
    const store = await openMemoryStore({ disk, keyspace: testKeyspace })

    expect(await store.get('test/a')).toBeDefined()
    await expect(store.get('test/b')).rejects.toMatchObject({ code: 'store_damaged' })
    await expect(collect(store.scan('test/'))).rejects.toMatchObject({ code: 'store_damaged' })
  })

  test('can be put back to an earlier time', async () => {
    const { disk, store, sync } = await gated()
    const first = store.commit([put('test/a', 'x')])
    sync()
    await first
    const backup = disk.copy()
    const second = store.commit([put('test/b', 'x')])
    sync()
    await second

    expect(keysOf(backup)).toEqual(['test/a'])
    expect(keysOf(disk)).toEqual(['test/a', 'test/b'])
    expect(backup.isHeld).toBe(false)
  })
})

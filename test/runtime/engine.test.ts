import { describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import { Engine } from '../../src/runtime/engine.ts'
import { openMemoryStore } from '../../src/store/memory-store.ts'

const bytes = new Uint8Array([1])

/** A store whose syncs end when the test says so. */
async function gatedStore() {
  const gates: (() => void)[] = []
  const store = await openMemoryStore({ sync: () => new Promise((resolve) => gates.push(resolve)) })
  const sync = async (): Promise<void> => {
    const open = gates.shift()
    if (open === undefined) throw new Error('no sync is in flight')
    open()
    await turn()
  }
  return { store, engine: new Engine(store), sync, inFlight: () => gates.length }
}

/** Lets everything that is ready run. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

describe('engine', () => {
  test('decides at once and lets nothing out before the batch is on disk', async () => {
    const { engine, sync, store } = await gatedStore()
    const seen: string[] = []

    const outcome = engine.transact((tx) => {
      tx.put('lane/a', bytes)
      tx.afterDurable(() => seen.push('effect'))
      seen.push('decided')
      return 42
    })
    void outcome.then(() => seen.push('answered'))
    await turn()

    expect(seen).toEqual(['decided'])
    expect(store.disk.read('lane/a')).toBeUndefined()
    await sync()
    expect(await outcome).toBe(42)
    expect(seen).toEqual(['decided', 'effect', 'answered'])
    expect(store.disk.read('lane/a')).toEqual(bytes)
  })

  test('makes last steps in the decision itself, those of a last step too, and writes them in its batch', async () => {
    const { engine, sync, store } = await gatedStore()
    const seen: string[] = []

    const outcome = engine.transact((tx) => {
      tx.atEnd(() => {
        seen.push('last')
        tx.put('lane/b', bytes)
        tx.atEnd(() => seen.push('last of all'))
        tx.afterDurable(() => seen.push('durable'))
      })
      tx.put('lane/a', bytes)
      seen.push('decided')
    })
    expect(seen).toEqual(['decided', 'last', 'last of all'])
    await sync()
    await outcome

    expect(store.syncs).toBe(1)
    expect(store.disk.read('lane/b')).toEqual(bytes)
    expect(seen.at(-1)).toBe('durable')
  })

  test('runs effects in the order of decisions, those of a decision that wrote nothing too', async () => {
    const { engine, sync } = await gatedStore()
    const seen: number[] = []
    const decide = (no: number, writes: boolean): Promise<void> =>
      engine.transact((tx) => {
        if (writes) tx.put(`lane/${no}`, bytes)
        tx.afterDurable(() => seen.push(no))
      })

    const all = [decide(1, true), decide(2, false), decide(3, true), decide(4, false)]
    await turn()
    expect(seen).toEqual([])
    await sync()
    expect(seen).toEqual([1, 2])
    await sync()
    await Promise.all(all)

    expect(seen).toEqual([1, 2, 3, 4])
  })

  test('shares one sync among the decisions that arrive while another runs', async () => {
    const { engine, sync, store } = await gatedStore()
    for (let no = 0; no < 20; no++) void engine.transact((tx) => tx.put(`lane/${no}`, bytes))

    await sync()
    await sync()
    await engine.settled()

    expect(store.syncs).toBe(2)
    expect(store.disk.keys()).toHaveLength(20)
  })

  test('lets an effect decide again', async () => {
    const engine = new Engine(await openMemoryStore())
    const seen: string[] = []

    await engine.transact((tx) => {
      tx.put('lane/a', bytes)
      tx.afterDurable(() => {
        void engine.transact((inner) => {
          inner.put('lane/b', bytes)
          inner.afterDurable(() => seen.push('second'))
        })
        seen.push('first')
      })
    })
    await engine.settled()

    expect(seen).toEqual(['first', 'second'])
  })

  test('settles only once everything decided before is on disk', async () => {
    const { engine, sync } = await gatedStore()
    let isSettled = false
    void engine.transact((tx) => tx.put('lane/a', bytes))
    const settled = engine.settled().then(() => {
      isSettled = true
    })

    await turn()
    expect(isSettled).toBe(false)
    await sync()
    await settled

    expect(isSettled).toBe(true)
    await engine.settled()
  })

  test('answers a refusal after what it was based on is on disk, and goes on', async () => {
    const { engine, sync } = await gatedStore()
    let refusal: unknown
    void engine.transact((tx) => tx.put('lane/a', bytes))
    const refused = engine
      .transact(() => {
        throw new NfltrError('not_found', 'No such agent.')
      })
      .catch((error: unknown) => {
        refusal = error
      })

    await turn()
    expect(refusal).toBeUndefined()
    await sync()
    await refused
    expect(refusal).toMatchObject({ code: 'not_found' })

    const next = engine.transact(() => 'goes on')
    expect(await next).toBe('goes on')
  })

  test('fails for good when a decision throws after it wrote, and writes nothing of it', async () => {
    const store = await openMemoryStore()
    const engine = new Engine(store)

    const broken = engine.transact((tx) => {
      tx.put('lane/a', bytes)
      throw new NfltrError('not_found', 'Too late to refuse.')
    })

    await expect(broken).rejects.toThrow('Too late')
    expect(await engine.failed).toBeInstanceOf(NfltrError)
    await expect(engine.transact(() => 1)).rejects.toThrow('Too late')
    await expect(engine.settled()).rejects.toThrow('Too late')
    expect(store.disk.keys()).toEqual([])
  })

  test('fails for good on a bug in a decision, an effect, or a decision inside a decision', async () => {
    const causes: ((engine: Engine) => unknown)[] = [
      (engine) =>
        engine.transact(() => {
          throw new TypeError('a bug')
        }),
      (engine) =>
        engine.transact((tx) =>
          tx.afterDurable(() => {
            throw new TypeError('a bug')
          }),
        ),
      (engine) => engine.transact(() => engine.transact(() => 'a bug')),
    ]
    for (const cause of causes) {
      const engine = new Engine(await openMemoryStore())
      void cause(engine)

      expect((await engine.failed).message).toMatch(/a bug|a decision started another/)
    }
  })

  test('runs nothing further once a write has failed', async () => {
    const { engine, sync, store } = await gatedStore()
    const seen: string[] = []
    const first = engine.transact((tx) => {
      tx.put('lane/a', bytes)
      tx.afterDurable(() => seen.push('first'))
    })
    const second = engine.transact((tx) => {
      tx.put('lane/b', bytes)
      tx.afterDurable(() => seen.push('second'))
    })

    store.failNext({ code: 'disk_full' })
    await sync()

    await expect(first).rejects.toMatchObject({ code: 'disk_full' })
    await expect(second).rejects.toMatchObject({ code: 'disk_full' })
    expect(await engine.failed).toMatchObject({ code: 'disk_full' })
    let decided = false
    await expect(
      engine.transact(() => {
        decided = true
      }),
    ).rejects.toMatchObject({ code: 'disk_full' })
    expect(decided).toBe(false)
    expect(seen).toEqual([])
  })

  test('never answers after a crash, and a crash keeps a prefix of what was decided', async () => {
    const { engine, store } = await gatedStore()
    const seen: string[] = []
    for (const key of ['lane/a', 'lane/b', 'lane/c']) {
      void engine.transact((tx) => {
        tx.put(key, bytes)
        tx.afterDurable(() => seen.push(key))
      })
    }

    const disk = store.crash({ keepUnsynced: 2 })
    await turn()

    expect(seen).toEqual([])
    expect((await openMemoryStore({ disk })).disk.keys()).toEqual(['lane/a', 'lane/b'])
  })
})

import type { Store, StoreEntry, StoreOperation } from '../src/ports/store.ts'
import type { MemoryDisk } from '../src/store/memory-disk.ts'
import { type MemoryStore, openMemoryStore } from '../src/store/memory-store.ts'
import { forever, type Life } from './life.ts'
import type { SeededRandom } from './random.ts'

/** How the disks of one machine behave now. */
export interface DiskMood {
  /** A sync takes up to this long, in milliseconds. */
  syncMaxMs: number
  /** How likely a sync is to take up to half a second instead. */
  slowChance: number
  /** There is no room: nothing can be written. */
  isFull: boolean
  /** The next sync of a store fails; what it was to write is on the disk nevertheless, or not. */
  failsNext: 'survives' | 'lost' | undefined
}

/** A disk in good order. */
export const calmDisk = { syncMaxMs: 3, slowChance: 0.005, failsNext: undefined } as const

/**
 * The in-memory twin over a disk that outlives the process: syncs take virtual time, and a death loses a random part of
 * what was not synced.
 */
export async function openStore(options: {
  readonly life: Life
  readonly disk: MemoryDisk
  readonly mood: DiskMood
  readonly random: SeededRandom
}): Promise<{ readonly store: Store; readonly memory: MemoryStore }> {
  const { life, disk, mood, random } = options
  const { world } = life
  const memory: MemoryStore = await openMemoryStore({
    disk,
    sync: () => {
      if (mood.failsNext !== undefined) memory.failNext({ survives: mood.failsNext === 'survives' })
      else if (mood.isFull) memory.failNext({ code: 'disk_full', survives: false })
      mood.failsNext = undefined
      const isSlow = random.chance(mood.slowChance)
      const delayMs = 0.2 + random.next() * (isSlow ? 500 : mood.syncMaxMs)
      return life.delayed(delayMs, () => world.note(`${life.name} synced`))
    },
  })
  life.onDeath(() => {
    const lost = memory.unsynced
    const kept = random.int(0, lost)
    if (lost > kept) world.count('crash that lost unsynced writes')
    memory.crash({ keepUnsynced: kept })
  })
  return { store: new GatedStore(memory, life), memory }
}

class GatedStore implements Store {
  readonly identity: Store['identity']
  readonly failed: Promise<Error>
  readonly condition: Store['condition']
  readonly damaged: Store['damaged']
  readonly lost: Store['lost']
  readonly #memory: MemoryStore
  readonly #life: Life

  constructor(memory: MemoryStore, life: Life) {
    this.#memory = memory
    this.#life = life
    this.identity = memory.identity
    this.failed = memory.failed
    this.condition = memory.condition
    this.damaged = memory.damaged
    this.lost = memory.lost
  }

  commit(batch: readonly StoreOperation[]): Promise<void> {
    return this.#life.act() ? this.#memory.commit(batch) : forever()
  }

  get(key: string): Promise<Uint8Array | undefined> {
    return this.#memory.get(key)
  }

  getSync(key: string): Uint8Array | undefined {
    return this.#memory.getSync(key)
  }

  scan(prefix: string, options?: { readonly from?: string; readonly limit?: number }): AsyncIterable<StoreEntry> {
    return this.#memory.scan(prefix, options)
  }

  close(): Promise<void> {
    return this.#memory.close()
  }
}

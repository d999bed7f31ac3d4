import type { StoreEntry, StoreIdentity, StoreOperation } from '../ports/store.ts'
import { type DiskRecords, MapRecords } from './disk-records.ts'

/** What of an in-memory store outlives its process: hand it to the next `openMemoryStore`, as a restart would. */
export class MemoryDisk {
  readonly identity: StoreIdentity
  /** True while a store is open on it. */
  isHeld = false
  readonly #records: DiskRecords
  readonly #damaged = new Set<string>()

  constructor(
    identity: StoreIdentity = { storeId: '00000000000000000000000000000000', incarnation: 1 },
    records: DiskRecords = new MapRecords(),
  ) {
    this.identity = identity
    this.#records = records
  }

  read(key: string): Uint8Array | undefined {
    return this.#records.get(key)
  }

  isDamaged(key: string): boolean {
    return this.#damaged.has(key)
  }

  apply(batch: readonly StoreOperation[]): void {
    for (const operation of batch) {
      this.#damaged.delete(operation.key)
      if (operation.type === 'put') this.#records.put(operation.key, operation.value)
      else this.#records.delete(operation.key)
    }
  }

  /** All keys from `from` on (inclusive) and below `below`, in key order. */
  keys(from = '', below?: string): readonly string[] {
    return this.#records.keys(from, below)
  }

  /** Everything that is on the disk, in key order: for checks. */
  entries(): readonly StoreEntry[] {
    return this.keys().map((key) => ({ key, value: this.#records.get(key) ?? new Uint8Array() }))
  }

  /** From now on the record reads as damaged, as after a flipped bit. */
  damage(key: string): void {
    if (this.#records.get(key) === undefined) throw new Error(`nothing to damage at ${key}`)
    this.#damaged.add(key)
  }

  /** A copy as it is now, not held and in memory: a backup to put back later (rule 6). */
  copy(): MemoryDisk {
    const copy = new MapRecords()
    for (const { key, value } of this.entries()) copy.put(key, value)
    return new MemoryDisk(this.identity, copy)
  }
}

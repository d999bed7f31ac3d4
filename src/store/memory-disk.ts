import type { StoreEntry, StoreIdentity, StoreOperation } from '../ports/store.ts'

/** What of an in-memory store outlives its process: hand it to the next `openMemoryStore`, as a restart would. */
export class MemoryDisk {
  readonly identity: StoreIdentity
  /** True while a store is open on it. */
  isHeld = false
  #entries = new Map<string, Uint8Array>()
  #order: readonly string[] | undefined
  readonly #damaged = new Set<string>()

  constructor(identity: StoreIdentity = { storeId: '00000000000000000000000000000000', incarnation: 1 }) {
    this.identity = identity
  }

  read(key: string): Uint8Array | undefined {
    return this.#entries.get(key)
  }

  isDamaged(key: string): boolean {
    return this.#damaged.has(key)
  }

  apply(batch: readonly StoreOperation[]): void {
    for (const operation of batch) {
      this.#damaged.delete(operation.key)
      if (operation.type === 'put') {
        if (!this.#entries.has(operation.key)) this.#order = undefined
        this.#entries.set(operation.key, operation.value)
      } else if (this.#entries.delete(operation.key)) {
        this.#order = undefined
      }
    }
  }

  /** All keys from `from` on (inclusive), in key order. */
  keys(from = ''): readonly string[] {
    this.#order ??= [...this.#entries.keys()].sort()
    if (from === '') return this.#order
    let low = 0
    let high = this.#order.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#order[middle] ?? '') < from) low = middle + 1
      else high = middle
    }
    return this.#order.slice(low)
  }

  /** Everything that is on the disk, in key order: for checks. */
  entries(): readonly StoreEntry[] {
    return this.keys().map((key) => ({ key, value: this.#entries.get(key) ?? new Uint8Array() }))
  }

  /** From now on the record reads as damaged, as after a flipped bit. */
  damage(key: string): void {
    if (!this.#entries.has(key)) throw new Error(`nothing to damage at ${key}`)
    this.#damaged.add(key)
  }

  /** A copy as it is now, not held: a backup to put back later (rule 6). */
  copy(): MemoryDisk {
    const copy = new MemoryDisk(this.identity)
    copy.#entries = new Map(this.#entries)
    return copy
  }
}

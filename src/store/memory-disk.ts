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

  /** All keys from `from` on (inclusive) and below `below`, in key order. */
  keys(from = '', below?: string): readonly string[] {
    this.#order ??= [...this.#entries.keys()].sort()
    const start = from === '' ? 0 : firstNotBelow(this.#order, from)
    if (start === 0 && below === undefined) return this.#order
    return this.#order.slice(start, below === undefined ? undefined : firstNotBelow(this.#order, below))
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

/** Where in sorted keys the first one stands that is not below this one. */
function firstNotBelow(keys: readonly string[], key: string): number {
  let low = 0
  let high = keys.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((keys[middle] ?? '') < key) low = middle + 1
    else high = middle
  }
  return low
}

/** Where a disk has its records. Keys are printable ASCII; values are never changed after they were put. */
export interface DiskRecords {
  get(key: string): Uint8Array | undefined
  put(key: string, value: Uint8Array): void
  delete(key: string): void
  /** All keys from `from` on (inclusive) and below `below`, in key order. */
  keys(from: string, below?: string): readonly string[]
}

/** Records in memory, each as it was given. */
export class MapRecords implements DiskRecords {
  readonly #values = new Map<string, Uint8Array>()
  #order: readonly string[] | undefined

  get(key: string): Uint8Array | undefined {
    return this.#values.get(key)
  }

  put(key: string, value: Uint8Array): void {
    if (!this.#values.has(key)) this.#order = undefined
    this.#values.set(key, value)
  }

  delete(key: string): void {
    if (this.#values.delete(key)) this.#order = undefined
  }

  keys(from: string, below?: string): readonly string[] {
    this.#order ??= [...this.#values.keys()].sort()
    const start = from === '' ? 0 : firstNotBelow(this.#order, from)
    if (start === 0 && below === undefined) return this.#order
    return this.#order.slice(start, below === undefined ? undefined : firstNotBelow(this.#order, below))
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

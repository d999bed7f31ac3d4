/** Something that happens at one instant of virtual time. */
export interface Scheduled {
  readonly atMs: number
  /** Order among those of one instant: that in which they were planned. */
  readonly order: number
  readonly run: () => void
  isCancelled: boolean
}

/** A heap of what is still to happen, earliest first. */
export class Schedule {
  readonly #heap: Scheduled[] = []
  #order = 0

  get size(): number {
    return this.#heap.length
  }

  add(atMs: number, run: () => void): Scheduled {
    const added: Scheduled = { atMs, order: this.#order++, run, isCancelled: false }
    this.#heap.push(added)
    this.#rise(this.#heap.length - 1)
    return added
  }

  /** The earliest, which stays; undefined when nothing is left. */
  get first(): Scheduled | undefined {
    return this.#heap[0]
  }

  /** The earliest; undefined when nothing is left. */
  take(): Scheduled | undefined {
    const first = this.#heap[0]
    const last = this.#heap.pop()
    if (first === undefined || last === undefined) return undefined
    if (this.#heap.length > 0) {
      this.#heap[0] = last
      this.#sink(0)
    }
    return first
  }

  #rise(start: number): void {
    for (let index = start; index > 0; ) {
      const parent = (index - 1) >> 1
      if (!this.#swapIfEarlier(index, parent)) return
      index = parent
    }
  }

  #sink(start: number): void {
    for (let index = start; ; ) {
      const left = 2 * index + 1
      const right = left + 1
      const child = right < this.#heap.length && this.#isEarlier(right, left) ? right : left
      if (child >= this.#heap.length || !this.#swapIfEarlier(child, index)) return
      index = child
    }
  }

  #swapIfEarlier(index: number, other: number): boolean {
    if (!this.#isEarlier(index, other)) return false
    const [a, b] = [this.#heap[index], this.#heap[other]]
    if (a === undefined || b === undefined) return false
    this.#heap[index] = b
    this.#heap[other] = a
    return true
  }

  #isEarlier(index: number, other: number): boolean {
    const [a, b] = [this.#heap[index], this.#heap[other]]
    if (a === undefined || b === undefined) return false
    return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)
  }
}

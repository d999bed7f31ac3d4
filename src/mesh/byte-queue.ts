/** Bytes in arrival order, taken from the front. Chunks are kept as they came; only `take` copies. */
export class ByteQueue {
  readonly #chunks: Uint8Array[] = []
  #first = 0
  #offset = 0
  #byteLength = 0

  get byteLength(): number {
    return this.#byteLength
  }

  append(chunk: Uint8Array): void {
    if (chunk.byteLength === 0) return
    this.#chunks.push(chunk)
    this.#byteLength += chunk.byteLength
  }

  /** The byte at `index` from the front, or `undefined` when it has not arrived. Meant for the first few bytes only. */
  at(index: number): number | undefined {
    let left = index + this.#offset
    for (let position = this.#first; position < this.#chunks.length; position += 1) {
      const chunk = this.#chunks[position]
      if (chunk === undefined) return undefined
      if (left < chunk.byteLength) return chunk[left]
      left -= chunk.byteLength
    }
    return undefined
  }

  /** Removes the first `count` bytes, which must be there. */
  drop(count: number): void {
    this.#advance(count, () => {})
  }

  /** Removes the first `count` bytes, which must be there, and returns them in one array of their own. */
  take(count: number): Uint8Array {
    const taken = new Uint8Array(count)
    let at = 0
    this.#advance(count, (part) => {
      taken.set(part, at)
      at += part.byteLength
    })
    return taken
  }

  clear(): void {
    this.#chunks.length = 0
    this.#first = 0
    this.#offset = 0
    this.#byteLength = 0
  }

  #advance(count: number, visit: (part: Uint8Array) => void): void {
    if (count > this.#byteLength) throw new RangeError(`${count} bytes asked of ${this.#byteLength}`)
    let left = count
    while (left > 0) {
      const chunk = this.#chunks[this.#first]
      if (chunk === undefined) break
      const part = chunk.subarray(this.#offset, this.#offset + left)
      visit(part)
      left -= part.byteLength
      this.#offset += part.byteLength
      if (this.#offset === chunk.byteLength) this.#forgetFirst()
    }
    this.#byteLength -= count
  }

  #forgetFirst(): void {
    this.#offset = 0
    this.#first += 1
    // Moving the array down now and then, not on every chunk, keeps this linear.
    if (this.#first === this.#chunks.length || this.#first >= 1024) {
      this.#chunks.splice(0, this.#first)
      this.#first = 0
    } else {
      this.#chunks[this.#first - 1] = empty
    }
  }
}

const empty = new Uint8Array(0)

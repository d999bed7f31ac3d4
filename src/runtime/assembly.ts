/** A message that is being put together from its parts, in one growing buffer: its size is what it costs. */
export class Assembly {
  #buffer = new Uint8Array(0)
  #length = 0

  append(bytes: Uint8Array): void {
    const needed = this.#length + bytes.length
    if (needed > this.#buffer.length) {
      const grown = new Uint8Array(Math.max(needed, Math.min(this.#buffer.length * 2, needed + 4 * 1024 * 1024)))
      grown.set(this.#buffer.subarray(0, this.#length))
      this.#buffer = grown
    }
    this.#buffer.set(bytes, this.#length)
    this.#length = needed
  }

  /** The whole message; the assembly starts anew. */
  finish(): Uint8Array {
    const message = this.#buffer.subarray(0, this.#length)
    this.reset()
    return message
  }

  reset(): void {
    this.#buffer = new Uint8Array(0)
    this.#length = 0
  }
}

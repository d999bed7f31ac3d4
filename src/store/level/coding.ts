/** Bytes of a LevelDB file were not in its format. What it was reading says what that means. */
export class MalformedError extends Error {}

/** Reads LevelDB's encodings one after the other; every length is checked before it is used. */
export class ByteReader {
  readonly bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at >= this.bytes.length
  }

  /** A number of up to 53 bits. @throws {MalformedError} */
  varint(): number {
    let value = 0
    let scale = 1
    for (let count = 0; count < 8; count++) {
      const byte = this.bytes[this.#at++]
      if (byte === undefined) break
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
      scale *= 128
    }
    throw new MalformedError('a number was cut short')
  }

  /** The next `length` bytes, not copied. @throws {MalformedError} */
  take(length: number): Uint8Array {
    if (!(length >= 0 && length <= this.bytes.length - this.#at)) throw new MalformedError('bytes were missing')
    this.#at += length
    return this.bytes.subarray(this.#at - length, this.#at)
  }

  /** Bytes with their length before them. @throws {MalformedError} */
  slice(): Uint8Array {
    return this.take(this.varint())
  }
}

export function readUint32(bytes: Uint8Array, at: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(at, true)
}

/** Bytes as a string with one character for each, which is ordered as LevelDB orders keys. */
export function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
}

/** The key that a user of LevelDB knows, of one with number and kind behind it. @throws {MalformedError} */
export function userKey(internalKey: string): string {
  if (internalKey.length < 8) throw new MalformedError('a key was too short')
  return internalKey.slice(0, -8)
}

import { ByteReader, MalformedError } from './coding.ts'

/**
 * Unpacks a block that LevelDB packed with Snappy.
 *
 * @param maxBytes - no block of a store is larger: what says so is damaged
 * @throws {MalformedError} when it is none
 */
export function unpackSnappy(packed: Uint8Array, maxBytes: number): Uint8Array {
  const reader = new ByteReader(packed)
  const length = reader.varint()
  if (length > maxBytes) throw new MalformedError(`a packed block claimed ${length} bytes`)
  const unpacked = new Uint8Array(length)
  let at = 0
  while (!reader.isAtEnd) {
    const tag = reader.take(1)[0] ?? 0
    if ((tag & 3) === 0) {
      const literal = reader.take(literalLength(tag, reader))
      if (literal.length > length - at) throw new MalformedError('a packed block was longer than it claimed')
      unpacked.set(literal, at)
      at += literal.length
    } else {
      at = copy(unpacked, at, copyOf(tag, reader))
    }
  }
  if (at !== length) throw new MalformedError('a packed block was shorter than it claimed')
  return unpacked
}

/** Repeats bytes from before, and returns where it ended. */
function copy(unpacked: Uint8Array, at: number, { count, offset }: { count: number; offset: number }): number {
  if (offset === 0 || offset > at || count > unpacked.length - at)
    throw new MalformedError('a packed block copied nothing')
  // The two may overlap: then what was just written is repeated.
  if (offset >= count) unpacked.copyWithin(at, at - offset, at - offset + count)
  else for (let index = at; index < at + count; index++) unpacked[index] = unpacked[index - offset] ?? 0
  return at + count
}

function literalLength(tag: number, reader: ByteReader): number {
  const short = tag >>> 2
  return (short < 60 ? short : littleEndian(reader.take(short - 59))) + 1
}

function copyOf(tag: number, reader: ByteReader): { readonly count: number; readonly offset: number } {
  if ((tag & 3) === 1) {
    const low = reader.take(1)[0] ?? 0
    return { count: ((tag >>> 2) & 7) + 4, offset: ((tag >>> 5) << 8) | low }
  }
  return { count: (tag >>> 2) + 1, offset: littleEndian(reader.take((tag & 3) === 2 ? 2 : 4)) }
}

function littleEndian(bytes: Uint8Array): number {
  return bytes.reduceRight((value, byte) => value * 256 + byte, 0)
}

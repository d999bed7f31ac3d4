import { ByteReader, latin1, MalformedError, readUint32, userKey } from './coding.ts'
import { crc32c, unmaskCrc } from './crc32c.ts'
import { unpackSnappy } from './snappy.ts'

const footerBytes = 48
const trailerBytes = 5
const magic = [0x8b80fb57, 0xdb477524] as const
const packings = { none: 0, snappy: 1 } as const
/** No block of a store is as large as this: a value has 16 MiB at most. */
export const blockMaxBytes = 64 * 1024 * 1024

export interface BlockHandle {
  readonly offset: number
  readonly size: number
}

/** A part of a table that holds records, and the last key that can be in it. */
export interface DataBlock extends BlockHandle {
  readonly upTo: string
}

export interface TableIndex {
  readonly blocks: readonly DataBlock[]
  /** What else is in the file, and was checked while the index was read. */
  readonly checked: readonly BlockHandle[]
}

/** Reads some bytes of a file; into memory that is given, where they fit. */
export type ReadBytes = (offset: number, length: number, into?: Uint8Array) => Uint8Array

/**
 * Reads a table's index, and checks all parts of it that hold no records: without them LevelDB finds nothing, and takes
 * that for an answer.
 *
 * @throws {MalformedError} naming what did not check
 */
export function readTableIndex(read: ReadBytes, sizeBytes: number): TableIndex {
  if (sizeBytes < footerBytes) throw new MalformedError('the footer was missing')
  const footer = read(sizeBytes - footerBytes, footerBytes)
  if (readUint32(footer, 40) !== magic[0] || readUint32(footer, 44) !== magic[1])
    throw new MalformedError('the footer was damaged')
  const reader = new ByteReader(footer.subarray(0, 40))
  const meta = handleOf(reader)
  const index = handleOf(reader)
  const filters = [...entriesOf(unpack(readBlock(read, meta, sizeBytes, 'the list of filters')))].map(({ value }) =>
    handleOf(new ByteReader(value)),
  )
  for (const filter of filters) readBlock(read, filter, sizeBytes, 'a filter')
  const blocks = [...entriesOf(unpack(readBlock(read, index, sizeBytes, 'the index')))].map(
    ({ key, value }): DataBlock => ({ ...handleOf(new ByteReader(value)), upTo: userKey(key) }),
  )
  return { blocks, checked: [meta, index, ...filters] }
}

/** A block with its trailer, checked. @throws {MalformedError} */
export function readBlock(read: ReadBytes, handle: BlockHandle, sizeBytes: number, what: string): Uint8Array {
  const bytes = readBlockBytes(read, handle, sizeBytes, what)
  if (!checks(bytes)) throw new MalformedError(`${what} did not match its checksum`)
  return bytes
}

/** A block with its trailer as it lies in the file. @throws {MalformedError} where the file does not hold so much */
export function readBlockBytes(
  read: ReadBytes,
  { offset, size }: BlockHandle,
  sizeBytes: number,
  what = 'a block',
): Uint8Array {
  if (offset + size + trailerBytes > sizeBytes) throw new MalformedError(`${what} was outside the file`)
  return read(offset, size + trailerBytes)
}

/** Whether a block with its trailer is as it was written. */
export function checks(bytes: Uint8Array): boolean {
  const end = bytes.length - 4
  return end >= 1 && crc32c(bytes.subarray(0, end)) === unmaskCrc(readUint32(bytes, end))
}

/** What is inside a block with its trailer. @throws {MalformedError} */
export function unpack(bytes: Uint8Array): Uint8Array {
  const packing = bytes[bytes.length - trailerBytes]
  const content = bytes.subarray(0, -trailerBytes)
  if (packing === packings.none) return content
  if (packing === packings.snappy) return unpackSnappy(content, blockMaxBytes)
  throw new MalformedError(`a block was packed in the unknown way ${packing}`)
}

export interface TableEntry {
  /** With number and kind of the write behind it; one character for each byte. */
  readonly key: string
  readonly value: Uint8Array
}

/** The entries of an unpacked block. @throws {MalformedError} at the first that is none */
export function* entriesOf(block: Uint8Array): Generator<TableEntry> {
  if (block.length < 4) throw new MalformedError('a block was too short')
  const restarts = readUint32(block, block.length - 4)
  const end = block.length - 4 * (restarts + 1)
  if (end < 0) throw new MalformedError('a block had no entries')
  const reader = new ByteReader(block.subarray(0, end))
  let key = ''
  while (!reader.isAtEnd) {
    const [shared, own, length] = [reader.varint(), reader.varint(), reader.varint()]
    if (shared > key.length) throw new MalformedError('a key shared more than there was')
    key = key.slice(0, shared) + latin1(reader.take(own))
    yield { key, value: reader.take(length) }
  }
}

function handleOf(reader: ByteReader): BlockHandle {
  return { offset: reader.varint(), size: reader.varint() }
}

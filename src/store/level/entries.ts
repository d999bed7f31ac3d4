import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ByteReader, latin1, MalformedError, readUint32, userKey } from './coding.ts'
import { correctBit, crcStep, unmaskCrc } from './crc32c.ts'
import { type Finding, openTable } from './inspection.ts'
import { readLog } from './log-file.ts'
import {
  checks,
  type DataBlock,
  entriesOf,
  readBlockBytes,
  readTableIndex,
  type TableEntry,
  unpack,
} from './table-file.ts'

/** One write of one key, as a file of a database has it. */
export interface Write {
  readonly key: string
  /** Counts all writes of the database: of one key the highest stands. */
  readonly sequence: number
  /** Undefined for a delete. */
  readonly value: Uint8Array | undefined
}

/** A stretch of a file: what can be read from it, and what was wrong. */
export interface Stretch {
  readonly writes: readonly Write[]
  /** Of a stretch that was not as it was written: what was found. */
  readonly finding?: Finding
  /** The bytes could be put right: nothing of the stretch is lost. */
  readonly isCorrected?: boolean
  /** The last write of a log, which may never have been finished. */
  readonly isTail?: boolean
}

const kinds = { delete: 0, put: 1 } as const
const trailerBytes = 5

/** Everything in a table, block by block. */
export function* tableWrites(db: string, file: string): Generator<Stretch> {
  const { read, size, close } = openTable(db, file)
  try {
    let blocks: readonly DataBlock[]
    try {
      blocks = readTableIndex(read, size).blocks
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error
      yield* blocksWithoutIndex(read(0, size), { file, found: error.message })
      return
    }
    let above: string | undefined
    for (const block of blocks) {
      const bytes = readBlockBytes(read, block, size)
      const isSound = checks(bytes)
      const isCorrected = !isSound && correct(bytes)
      const finding: Finding = {
        file,
        offset: block.offset,
        bytes: block.size,
        found: 'a block did not match its checksum',
        ...(above === undefined ? {} : { from: above }),
        to: block.upTo,
      }
      if (isSound || isCorrected) {
        const writes = blockWrites(bytes)
        yield isSound ? { writes } : { writes, finding, isCorrected }
      } else yield { writes: readable(bytes), finding }
      above = block.upTo
    }
  } finally {
    close()
  }
}

/** Everything in a log, one batch after the other. */
export function* logWrites(db: string, file: string): Generator<Stretch> {
  const { records, flaws } = readLog(readFileSync(join(db, file)))
  for (const record of records) {
    try {
      yield { writes: batchOf(record) }
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error
      yield { writes: [], finding: { file, found: error.message } }
    }
  }
  for (const { offset, found, kind, isCorrected } of flaws)
    yield { writes: [], finding: { file, offset, found }, isCorrected, isTail: kind === 'torn' }
}

/** One flipped bit in a block or in its checksum is put right. */
function correct(bytes: Uint8Array): boolean {
  const end = bytes.length - 4
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  const stored = view.getUint32(end, true)
  for (let bit = 0; bit < 32; bit++) {
    view.setUint32(end, (stored ^ (1 << bit)) >>> 0, true)
    if (checks(bytes)) return true
  }
  view.setUint32(end, stored, true)
  return correctBit(bytes.subarray(0, end), unmaskCrc(stored))
}

/** What can be read of a block that is damaged in more than one bit. Each record has a checksum of its own; a delete has none. */
function readable(bytes: Uint8Array): readonly Write[] {
  const writes: Write[] = []
  try {
    for (const entry of entriesOf(unpack(bytes))) writes.push(writeOf(entry))
  } catch (error) {
    if (!(error instanceof MalformedError)) throw error
  }
  return writes.filter(({ value }) => value !== undefined)
}

/**
 * The blocks of a table whose index or footer is damaged: they lie one after the other from its beginning, and each ends
 * where its checksum is right. The filter, which comes after them, holds no writes.
 */
function* blocksWithoutIndex(file: Uint8Array, finding: Finding): Generator<Stretch> {
  let at = 0
  for (;;) {
    const end = blockEnd(file, at)
    const writes = end === undefined ? [] : wholeBlock(file.subarray(at, end))
    if (end === undefined || writes.length === 0) break
    yield { writes }
    at = end
  }
  yield { writes: [], finding, isCorrected: at > 0 && blockEnd(file, at) !== undefined }
}

/** What is in a block, deletes too; nothing of what is no block of writes. */
function wholeBlock(bytes: Uint8Array): readonly Write[] {
  try {
    return blockWrites(bytes)
  } catch (error) {
    if (error instanceof MalformedError) return []
    throw error
  }
}

/** Where the block that begins at `from` ends, its trailer included. */
function blockEnd(file: Uint8Array, from: number): number | undefined {
  let crc = -1
  for (let at = from; at + trailerBytes <= file.length; at++) {
    crc = crcStep(crc, file[at] ?? 0)
    if ((file[at] ?? 0) <= 1 && ~crc >>> 0 === unmaskCrc(readUint32(file, at + 1))) return at + trailerBytes
  }
  return undefined
}

function blockWrites(bytes: Uint8Array): readonly Write[] {
  return [...entriesOf(unpack(bytes))].map(writeOf)
}

function writeOf({ key, value }: TableEntry): Write {
  if (key.length < 8) throw new MalformedError('a key was too short')
  const [kind, ...digits] = Array.from(key.slice(-8), (character) => character.charCodeAt(0))
  if (kind !== kinds.delete && kind !== kinds.put) throw new MalformedError(`a write had the unknown kind ${kind}`)
  const sequence = digits.reduceRight((number, digit) => number * 256 + digit, 0)
  return { key: userKey(key), sequence, value: kind === kinds.delete ? undefined : value }
}

/** The writes of a batch as a log has it: number of the first, count, and each with its kind. */
function batchOf(record: Uint8Array): readonly Write[] {
  const reader = new ByteReader(record)
  const first = reader.take(8)
  const sequence = readUint32(first, 0) + readUint32(first, 4) * 2 ** 32
  const count = readUint32(reader.take(4), 0)
  const writes: Write[] = []
  while (!reader.isAtEnd) {
    const [kind] = reader.take(1)
    if (kind !== kinds.delete && kind !== kinds.put) throw new MalformedError(`a write had the unknown kind ${kind}`)
    const key = latin1(reader.slice())
    writes.push({ key, sequence: sequence + writes.length, value: kind === kinds.put ? reader.slice() : undefined })
  }
  if (writes.length !== count) throw new MalformedError('a batch had another number of writes')
  return writes
}

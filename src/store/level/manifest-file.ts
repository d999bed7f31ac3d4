import { ByteReader, latin1, MalformedError, userKey } from './coding.ts'
import { type LogContents, readLog } from './log-file.ts'

/** A table that belongs to the database. */
export interface LiveTable {
  readonly number: number
  readonly level: number
  readonly sizeBytes: number
  readonly smallest: string
  readonly largest: string
}

/** What a MANIFEST says: which tables make up the database, and which logs came after them. */
export interface Manifest {
  readonly tables: readonly LiveTable[]
  /** Logs below this number are in the tables. */
  readonly logNumber: number
  readonly previousLogNumber: number
  readonly flaws: LogContents['flaws']
}

const tags = {
  comparator: 1,
  logNumber: 2,
  nextFileNumber: 3,
  lastSequence: 4,
  compactPointer: 5,
  deletedFile: 6,
  newFile: 7,
  previousLogNumber: 9,
} as const

/** @throws {MalformedError} when its records are none of a MANIFEST */
export function readManifest(bytes: Uint8Array): Manifest {
  const { records, flaws } = readLog(bytes)
  const tables = new Map<number, LiveTable>()
  const numbers = { logNumber: 0, previousLogNumber: 0 }
  for (const record of records) applyEdit(new ByteReader(record), tables, numbers)
  return { tables: [...tables.values()], ...numbers, flaws }
}

function applyEdit(
  reader: ByteReader,
  tables: Map<number, LiveTable>,
  numbers: { logNumber: number; previousLogNumber: number },
): void {
  const added: LiveTable[] = []
  while (!reader.isAtEnd) {
    const tag = reader.varint()
    switch (tag) {
      case tags.comparator:
        if (latin1(reader.slice()) !== 'leveldb.BytewiseComparator') throw new MalformedError('keys had another order')
        break
      case tags.logNumber:
        numbers.logNumber = reader.varint()
        break
      case tags.previousLogNumber:
        numbers.previousLogNumber = reader.varint()
        break
      case tags.nextFileNumber:
      case tags.lastSequence:
        reader.varint()
        break
      case tags.compactPointer:
        reader.varint()
        reader.slice()
        break
      case tags.deletedFile:
        reader.varint()
        tables.delete(reader.varint())
        break
      case tags.newFile: {
        const [level, number, sizeBytes] = [reader.varint(), reader.varint(), reader.varint()]
        added.push({
          level,
          number,
          sizeBytes,
          smallest: userKey(latin1(reader.slice())),
          largest: userKey(latin1(reader.slice())),
        })
        break
      }
      default:
        throw new MalformedError(`an entry had the unknown kind ${tag}`)
    }
  }
  // A table that moves to another level is deleted and added in one edit.
  for (const table of added) tables.set(table.number, table)
}

import { crc32 } from 'node:zlib'
import { NfltrError } from '../core/errors.ts'
import { storeFormat } from './migrations/migrations.ts'

/**
 * What stands around each value on disk: the format of its store and a CRC-32 of version, key and value. LevelDB itself serves a
 * flipped bit as a value; with this a damaged record is never served, and neither is one under another key.
 */
const headerBytes = 5

export function sealRecord(key: string, value: Uint8Array, format = storeFormat): Uint8Array {
  const record = new Uint8Array(headerBytes + value.length)
  record[0] = format
  record.set(value, headerBytes)
  new DataView(record.buffer).setUint32(1, checksum(key, record))
  return record
}

/**
 * The value inside a record.
 *
 * @param newest - the latest format that its reader knows
 * @throws {NfltrError} `store_damaged` when it does not check; `store_newer` when a later version wrote it
 */
export function openRecord(key: string, record: Uint8Array, newest = storeFormat): Uint8Array {
  if (record.length < headerBytes || recordChecksum(record) !== checksum(key, record)) {
    throw new NfltrError('store_damaged', `The record ${printable(key)} did not match its checksum.`, {
      details: { key: printable(key) },
    })
  }
  const format = recordFormat(record)
  if (format < 1 || format > newest) {
    const found = `format ${format}; this version reads format ${newest}`
    throw new NfltrError('store_newer', `The record ${printable(key)} was written in ${found}.`, {
      hint: 'Use the version of nfltr that wrote it, or a later one.',
      details: { key: printable(key), format },
    })
  }
  return record.subarray(headerBytes)
}

/** The format that a record says it has. */
export function recordFormat(record: Uint8Array): number {
  return record[0] ?? 0
}

/** The checksum that a record says it has. */
export function recordChecksum(record: Uint8Array): number {
  return record.length < headerBytes ? 0 : new DataView(record.buffer, record.byteOffset).getUint32(1)
}

function checksum(key: string, record: Uint8Array): number {
  const start = crc32(record.subarray(0, 1), crc32(`${key}\0`))
  return crc32(record.subarray(headerBytes), start)
}

/** A key that was read from a damaged store may hold anything. */
function printable(key: string): string {
  return key.replace(/[^!-~]/g, '?').slice(0, 200)
}

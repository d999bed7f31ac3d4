import { recordChecksum } from './record-envelope.ts'

/**
 * A fingerprint of all records together, kept up to date with each batch and compared at opening: it tells when a whole
 * record is gone or stands at an older value, which no checksum of a single record can.
 *
 * A sum over the records, so that a batch changes it by what it takes away and adds. Each record counts with its checksum
 * after a mix that is not linear: a CRC is, and equal changes to two records would cancel out.
 */
export interface Digest {
  readonly records: number
  readonly low: number
  readonly high: number
}

export const emptyDigest: Digest = { records: 0, low: 0, high: 0 }

export function addRecord(digest: Digest, record: Uint8Array): Digest {
  return change(digest, record, 1)
}

export function removeRecord(digest: Digest, record: Uint8Array): Digest {
  return change(digest, record, -1)
}

export function sameDigest(a: Digest, b: Digest): boolean {
  return a.records === b.records && a.low === b.low && a.high === b.high
}

function change(digest: Digest, record: Uint8Array, sign: 1 | -1): Digest {
  const checksum = recordChecksum(record)
  return {
    records: digest.records + sign,
    low: (digest.low + sign * mix(checksum)) >>> 0,
    high: (digest.high + sign * mix(checksum ^ mix(record.length))) >>> 0,
  }
}

/** The finalizer of MurmurHash3. */
function mix(value: number): number {
  let hash = value >>> 0
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

import { crc32 } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { addRecord, emptyDigest, removeRecord, sameDigest } from '../../src/store/digest.ts'
import { openRecord, sealRecord } from '../../src/store/record-envelope.ts'

const value = new TextEncoder().encode('a value')

describe('the envelope of a record', () => {
  test('gives back what was sealed', () => {
    expect(openRecord('test/a', sealRecord('test/a', value))).toEqual(value)
    expect(openRecord('test/a', sealRecord('test/a', new Uint8Array()))).toEqual(new Uint8Array())
  })

  test('refuses every flipped bit, every cut, and another key', () => {
    const record = sealRecord('test/a', value)
    for (let bit = 0; bit < record.length * 8; bit++) {
      const flipped = record.slice()
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      expect(() => openRecord('test/a', flipped), `bit ${bit}`).toThrow('did not match its checksum')
    }
    for (let length = 0; length < record.length; length++) {
      expect(() => openRecord('test/a', record.subarray(0, length))).toThrow('did not match its checksum')
    }
    expect(() => openRecord('test/b', record)).toThrow('did not match its checksum')
  })

  test('tells a record of a later version from a damaged one', () => {
    const record = sealRecord('test/a', value)
    record[0] = 2
    const checksum = crc32(value, crc32(new Uint8Array([2]), crc32(new TextEncoder().encode('test/a\0'))))
    new DataView(record.buffer).setUint32(1, checksum)

    expect(() => openRecord('test/a', record)).toThrow(
      expect.objectContaining({ code: 'store_newer', details: { key: 'test/a', format: 2 } }),
    )
  })
})

describe('the digest of all records', () => {
  const record = (key: string, text: string): Uint8Array => sealRecord(key, new TextEncoder().encode(text))

  test('does not depend on the order, and is back where it was when a record is taken away', () => {
    const [a, b] = [record('test/a', '1'), record('test/b', '2')]

    expect(sameDigest(addRecord(addRecord(emptyDigest, a), b), addRecord(addRecord(emptyDigest, b), a))).toBe(true)
    expect(removeRecord(addRecord(emptyDigest, a), a)).toEqual(emptyDigest)
  })

  test('notices two records that stand at an older value by the same change', () => {
    const newer = addRecord(addRecord(emptyDigest, record('test/a', '2')), record('test/b', '2'))
    const older = addRecord(addRecord(emptyDigest, record('test/a', '1')), record('test/b', '1'))

    expect(newer.records).toBe(older.records)
    expect(sameDigest(newer, older)).toBe(false)
  })
})

import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { MalformedError } from '../../src/store/level/coding.ts'
import { correctBit, crc32c, maskCrc, unmaskCrc } from '../../src/store/level/crc32c.ts'
import { readLog } from '../../src/store/level/log-file.ts'
import { readManifest } from '../../src/store/level/manifest-file.ts'
import { unpackSnappy } from '../../src/store/level/snappy.ts'
import { entriesOf, readTableIndex, unpack } from '../../src/store/level/table-file.ts'

describe('the checksum of LevelDB’s files', () => {
  test('is CRC-32C, in one go or in two', () => {
    const digits = new TextEncoder().encode('123456789')

    expect(crc32c(digits)).toBe(0xe3069283)
    for (let cut = 0; cut < digits.length; cut++)
      expect(crc32c(digits.subarray(cut), crc32c(digits.subarray(0, cut)))).toBe(0xe3069283)
    expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa)
  })

  test('is stored masked', () => {
    for (const crc of [0, 1, 0xffffffff, 0xe3069283]) expect(unmaskCrc(maskCrc(crc))).toBe(crc)
    expect(maskCrc(0)).toBe(0xa282ead8)
  })

  test('says which bit was flipped, and that two were not one', () => {
    const bytes = randomBytes(4_096)
    const crc = crc32c(bytes)
    for (let trial = 0; trial < 200; trial++) {
      const damaged = Uint8Array.from(bytes)
      const bit = (trial * 7_919) % (bytes.length * 8)
      damaged[bit >>> 3] = (damaged[bit >>> 3] ?? 0) ^ (1 << (bit & 7))
      expect(correctBit(damaged, crc)).toBe(true)
      expect(bytes.equals(damaged)).toBe(true)
    }
    const twice = Uint8Array.from(bytes)
    twice[0] = (twice[0] ?? 0) ^ 1
    twice[9] = (twice[9] ?? 0) ^ 1
    expect(correctBit(twice, crc)).toBe(false)
  })
})

describe('what is no file of LevelDB', () => {
  test('is refused by each reader, and never hangs or crashes one', () => {
    for (let trial = 0; trial < 300; trial++) {
      const bytes = randomBytes(trial * 3)
      readLog(bytes)
      for (const read of [
        () => unpackSnappy(bytes, 1_000_000),
        () => [...entriesOf(bytes)],
        () => unpack(bytes),
        () => readManifest(bytes),
        () => readTableIndex((from, length) => bytes.subarray(from, from + length), bytes.length),
      ]) {
        try {
          read()
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedError)
        }
      }
    }
  })
})

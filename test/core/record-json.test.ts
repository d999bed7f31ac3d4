import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeRecord, encodeRecord } from '../../src/core/record-json.ts'

describe('a record of a store', () => {
  test('comes back as it was written, with its bytes', () => {
    const value = fc.record({
      text: fc.string({ unit: 'binary' }),
      bytes: fc.uint8Array({ maxLength: 40 }),
      list: fc.array(fc.nat()),
    })

    fc.assert(
      fc.property(value, ({ bytes, ...rest }) => {
        const record = { ...rest, nested: [{ bytes: new Uint8Array(bytes) }] }
        expect(decodeRecord(encodeRecord(record))).toEqual(record)
      }),
    )
  })

  test('takes a Buffer for the bytes that it is', () => {
    const record = { secret: Buffer.from([1, 2, 255]) }

    expect(decodeRecord(encodeRecord(record))).toEqual({ secret: new Uint8Array([1, 2, 255]) })
    expect(decodeRecord(encodeRecord(Buffer.from([7])))).toEqual(new Uint8Array([7]))
  })
})

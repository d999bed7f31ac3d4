import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeFrame, frameReader, isSameProof, tokenProof } from '../../src/keeper/frames.ts'

describe('frames', () => {
  test('come whole however the bytes were cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat()), fc.integer({ min: 1, max: 50 }), (offsets, step) => {
        const bytes = Buffer.concat(offsets.map((offset) => encodeFrame({ type: 'synced', offset })))
        const reader = frameReader(1000)
        const frames = []
        for (let at = 0; at < bytes.length; at += step) frames.push(...reader.push(bytes.subarray(at, at + step)))

        expect(frames).toEqual(offsets.map((offset) => ({ type: 'synced', offset })))
      }),
    )
  })

  test('a length over the bound is refused at its fourth byte', () => {
    const reader = frameReader(1000)

    expect(reader.push(Buffer.from([0, 0, 4]))).toEqual([])
    expect(() => reader.push(Buffer.from([0]))).toThrow('over the bound')
  })

  test('anything but an object is refused', () => {
    for (const json of ['1', '"a"', 'null', '{', '']) {
      const length = Buffer.alloc(4)
      length.writeUInt32BE(json.length)
      expect(() => frameReader(1000).push(Buffer.concat([length, Buffer.from(json)]))).toThrow('no JSON object')
    }
  })

  test('a proof holds for one token, one side and one pair of nonces', () => {
    const nonces = { node: 'n', keeper: 'k' }
    const proof = tokenProof('token', 'node', nonces)

    expect(isSameProof(proof, tokenProof('token', 'node', nonces))).toBe(true)
    expect(isSameProof(proof, tokenProof('other', 'node', nonces))).toBe(false)
    expect(isSameProof(proof, tokenProof('token', 'keeper', nonces))).toBe(false)
    expect(isSameProof(proof, tokenProof('token', 'node', { ...nonces, keeper: 'j' }))).toBe(false)
    expect(isSameProof(undefined, proof)).toBe(false)
  })
})

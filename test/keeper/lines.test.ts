import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cutLineHeadBytes } from '../../src/keeper/journal.ts'
import { lineSplitter } from '../../src/keeper/lines.ts'

describe('lines', () => {
  test('are the same however the output was cut into chunks', () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[a-zé🙂]{0,9}$/u)), fc.array(fc.nat(40)), (wanted, cuts) => {
        const bytes = Buffer.from(wanted.map((line) => `${line}\n`).join(''))
        const splitter = lineSplitter()
        const places = [...cuts.filter((cut) => cut < bytes.length), 0, bytes.length].sort((a, b) => a - b)

        const lines = places.flatMap((place, index) => splitter.push(bytes.subarray(places[index - 1] ?? 0, place)))

        expect([...lines, ...splitter.end()].map((line) => line.type === 'whole' && line.bytes.toString())).toEqual(
          wanted,
        )
      }),
    )
  })

  test('a last line without its line feed is a line', () => {
    const splitter = lineSplitter()

    expect(splitter.push(Buffer.from('a\nb'))).toEqual([{ type: 'whole', bytes: Buffer.from('a') }])
    expect(splitter.end()).toEqual([{ type: 'whole', bytes: Buffer.from('b') }])
  })

  test('a line over the bound keeps its head and its length, and the next line is whole again', () => {
    const splitter = lineSplitter(100_000)
    const long = Buffer.alloc(70_000, 'x')

    const lines = [...splitter.push(long), ...splitter.push(long), ...splitter.push(Buffer.from('y\nnext\n'))]

    expect(lines.map((line) => line.type)).toEqual(['cut', 'whole'])
    expect(lines[0]).toMatchObject({ type: 'cut', lineBytes: 140_001 })
    expect(lines[0]?.type === 'cut' && lines[0].head.length).toBe(cutLineHeadBytes)
    expect(lines[1]).toEqual({ type: 'whole', bytes: Buffer.from('next') })
  })
})

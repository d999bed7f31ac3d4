import { describe, expect, test } from 'vitest'
import { keyNumber } from '../../src/core/key-order.ts'
import { assertKey, keyspace, rowOf } from '../../src/store/keyspace.ts'

describe('keyspace', () => {
  test('gives each key to one row: a prefix ends with a slash and begins no other', () => {
    for (const { prefix } of keyspace) {
      expect(prefix).toMatch(/^[!-~]+\/$/)
      expect(keyspace.filter((row) => row.prefix.startsWith(prefix))).toHaveLength(1)
    }
  })

  test('names an owner, what is held and its end for each row', () => {
    for (const row of keyspace)
      expect([row.owner, row.holds, row.retention].every((text) => text.length > 0)).toBe(true)
  })

  test('finds the row of a key and refuses a key without one', () => {
    expect(rowOf('lane/hub_1/1')?.owner).toBe('runtime')
    expect(rowOf('nothing/1')).toBeUndefined()
    expect(() => assertKey('nothing/1')).toThrow('in no row')
    expect(() => assertKey(`lane/${'x'.repeat(600)}`)).toThrow('not a store key')
  })

  test('writes numbers so that keys sort as the numbers do', () => {
    const numbers = [0, 9, 10, 99, 1_000, 2 ** 31, Number.MAX_SAFE_INTEGER]

    expect(numbers.map(keyNumber).sort()).toEqual(numbers.map(keyNumber))
    for (const bad of [-1, 1.5, Number.NaN, 2 ** 53]) expect(() => keyNumber(bad)).toThrow('not a number for a key')
  })
})

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { countingKeys, meshLine, type NamedSuccessor } from '../../src/core/mesh-line.ts'

const names = (text: string): readonly NamedSuccessor[] =>
  text
    .split(' ')
    .filter((pair) => pair !== '')
    .map((pair) => {
      const [predecessorPeerId = '', successorPeerId = ''] = pair.split('>')
      return { predecessorPeerId, successorPeerId }
    })

describe('the keys of a mesh', () => {
  test.each([
    { named: '', current: 'a', keys: ['a'] },
    { named: 'a>b', current: 'b', keys: ['a', 'b'] },
    { named: 'b>c a>b', current: 'c', keys: ['a', 'b', 'c'] },
    { named: 'a>b a>b', current: 'b', keys: ['a', 'b'] },
    { named: 'x>y', current: 'a', keys: ['a'] },
  ])('named "$named" end at $current', ({ named, current, keys }) => {
    const line = meshLine('a', names(named))

    expect(line).toEqual({ meshId: 'a', keys, current })
    expect(countingKeys(line)).toEqual([current])
  })

  test.each([
    { named: 'a>b a>c', at: 'a', successors: ['b', 'c'] },
    { named: 'a>b b>c a>c', at: 'a', successors: ['b', 'c'] },
    { named: 'a>b b>d b>c', at: 'b', successors: ['c', 'd'] },
    { named: 'a>a', at: 'a', successors: ['a'] },
    { named: 'a>b b>a', at: 'b', successors: ['a'] },
  ])('named "$named" are disputed at $at: none counts', ({ named, at, successors }) => {
    const line = meshLine('a', names(named))

    expect(line).toMatchObject({ current: undefined, dispute: { keyPeerId: at, successors } })
    expect(countingKeys(line)).toEqual([])
  })

  test('end at the same place for everybody, in whatever order the names came', () => {
    const key = fc.constantFrom('a', 'b', 'c', 'd', 'e')
    const named = fc.array(fc.record({ predecessorPeerId: key, successorPeerId: key }), { maxLength: 8 })
    fc.assert(
      fc.property(named, fc.nat(), (list, seed) => {
        const other = list
          .toSorted((x, y) => ((JSON.stringify(x).length * seed) % 7) - ((JSON.stringify(y).length * seed) % 7))
          .reverse()
        const [one, two] = [meshLine('a', list), meshLine('a', other)]
        expect([two.current, two.dispute, [...two.keys].sort()]).toEqual([
          one.current,
          one.dispute,
          [...one.keys].sort(),
        ])
      }),
    )
  })

  test('are never believed again after a dispute, whatever else is named', () => {
    const key = fc.constantFrom('a', 'b', 'c', 'd')
    const named = fc.array(fc.record({ predecessorPeerId: key, successorPeerId: key }), { maxLength: 6 })
    fc.assert(
      fc.property(named, named, (list, more) => {
        fc.pre(meshLine('a', list).current === undefined)
        expect(meshLine('a', [...list, ...more]).current).toBeUndefined()
      }),
    )
  })
})

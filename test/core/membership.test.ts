import { describe, expect, test } from 'vitest'
import { byHolder, type Named } from '../../src/core/membership.ts'

describe('a name that two owners gave', () => {
  const older: Named = { machinePeerId: 'b', issuedAtMs: 1_000 }
  const younger: Named = { machinePeerId: 'a', issuedAtMs: 2_000 }
  const holderOf = (machines: readonly Named[]): string | undefined => machines.toSorted(byHolder)[0]?.machinePeerId

  test('belongs to the machine that has had it longest, in whatever order they are heard of', () => {
    expect([holderOf([older, younger]), holderOf([younger, older])]).toEqual(['b', 'b'])
  })

  test('stays with it when its membership is renewed', () => {
    const renewed: Named = { ...older, issuedAtMs: 9_000, namedAtMs: older.issuedAtMs }

    expect([holderOf([renewed, younger]), holderOf([younger, renewed])]).toEqual(['b', 'b'])
  })

  test('that they have had equally long belongs to the lower PeerId', () => {
    const same: Named = { machinePeerId: 'a', issuedAtMs: 1_000 }

    expect([holderOf([older, same]), holderOf([same, older])]).toEqual(['a', 'a'])
  })
})

import { afterEach, expect, test } from 'vitest'
import { isSettledIn } from '../../src/cli/compose/settled-in.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import { addressOf, Bench, soon, TestMesh } from '../mesh/support.ts'

const bench = new Bench()

afterEach(() => bench[Symbol.asyncDispose]())

test('a new member is waited for until it has heard of everybody, or has gone', async () => {
  const mesh = await TestMesh.create()
  const third = await bench.member(mesh, 'node')
  const issuer = await bench.member(mesh, 'hub')
  await issuer.connect(addressOf(third), soon())
  await expect.poll(() => issuer.members().length).toBe(2)
  const joiner = await bench.member(mesh, 'node')

  await joiner.connect(addressOf(issuer), soon())
  await expect.poll(() => issuer.connected().length).toBe(2)
  await expect.poll(() => isSettledIn(issuer, joiner.self.machinePeerId)).toBe(true)

  expect(joiner.members().map(({ machinePeerId }) => machinePeerId)).toContain(third.self.machinePeerId)
  await joiner.close()
  await expect.poll(() => issuer.connected().length).toBe(1)
  expect(isSettledIn(issuer, joiner.self.machinePeerId)).toBe(true)
})

test('one that has said nothing yet, or has not heard of all, is not done', () => {
  const fact = { name: 'vm1', roles: ['node'], addresses: [], issuedAtMs: 1, expiresAtMs: 2 } as const
  const peer = {
    ...fact,
    peerId: 'p',
    machinePeerId: 'm',
    kind: 'node',
    path: 'lan',
    softwareVersion: '0.1.0',
  } as const
  const knowing = (...members: readonly string[]): Pick<MeshHost, 'connected' | 'appliedBy' | 'members'> => ({
    connected: () => [peer],
    members: () =>
      ['m', 'n', 'gone'].map((machinePeerId) => ({
        ...fact,
        machinePeerId,
        ...(machinePeerId === 'gone' ? { revokedAtMs: 1 } : {}),
      })),
    appliedBy: () =>
      members.length === 0
        ? undefined
        : { ownSerial: 1, members: new Set(members), revocations: new Map(), departures: new Map() },
  })

  expect(isSettledIn(knowing(), 'm')).toBe(false)
  expect(isSettledIn(knowing('m'), 'm')).toBe(false)
  expect(isSettledIn(knowing('m', 'n'), 'm')).toBe(true)
})

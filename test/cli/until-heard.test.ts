import { expect, test } from 'vitest'
import { untilHeard } from '../../src/cli/compose/until-heard.ts'
import { NfltrError } from '../../src/core/errors.ts'
import type { Applied } from '../../src/mesh/peers.ts'

const applied: Applied = { ownSerial: 7, members: new Set(), revocations: new Map(), departures: new Map() }
const hasIt = ({ ownSerial }: Applied): boolean => ownSerial >= 7

/** A mesh with one other member, which is looked for so often before it says that it has the news. */
function meshWith(member: { readonly looks: number; readonly why?: NfltrError }) {
  let looks = 0
  const peer = {
    peerId: 'p',
    machinePeerId: 'm',
    name: 'vm1',
    kind: 'node',
    roles: ['node'],
    path: 'lan',
    softwareVersion: '0.1.0',
  } as const
  return {
    want: () => undefined,
    whyNotConnected: () => member.why,
    connected: () => {
      looks += 1
      return member.why === undefined ? [peer] : []
    },
    appliedBy: () => (looks > member.looks ? applied : undefined),
  }
}

test('news are waited for longer than for those that are away, where a member is there and has not said it yet', async () => {
  const busy = meshWith({ looks: 4 })

  expect([...(await untilHeard(busy, ['m'], hasIt, { withinMs: 1 }))]).toEqual(['m'])
})

test('a member of which every address was tried is waited for no longer', async () => {
  const away = meshWith({ looks: 0, why: new NfltrError('unreachable', 'Nothing answered.') })

  expect([...(await untilHeard(away, ['m'], hasIt, { withinMs: 1 }))]).toEqual([])
})

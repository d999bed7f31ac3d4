import { describe, expect, test } from 'vitest'
import { checkDeclared } from '../../src/cli/compose/declared.ts'
import { limits } from '../../src/core/limits.ts'
import type { NodeCard } from '../../src/core/model.ts'
import { wireCodec } from '../../src/runtime/session-options.ts'

const times = <T>(count: number, make: (index: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, n) => make(n))
const label = (index: number) =>
  [`l${index}`.padEnd(limits.nameMaxBytes, '-'), 'v'.repeat(limits.labelMaxBytes)] as const
const capability = (index: number): string => `c${index}`.padEnd(limits.labelMaxBytes, '-')
const offer = (index: number) => [`o${index}`.padEnd(limits.nameMaxBytes, '-'), '/'] as const

describe('what an owner says of a node', () => {
  test.each([
    ['--label', { label: times(limits.labelsMax + 1, label) }, limits.labelsMax],
    ['--label', { label: [['n'.repeat(limits.nameMaxBytes + 1), 'v']] as const }, limits.nameMaxBytes],
    ['--label', { label: [['n', 'ü'.repeat(limits.labelMaxBytes / 2 + 1)]] as const }, limits.labelMaxBytes],
    ['--capability', { capability: times(limits.capabilitiesMax + 1, String) }, limits.capabilitiesMax],
    ['--capability', { capability: ['c'.repeat(limits.labelMaxBytes + 1)] }, limits.labelMaxBytes],
    ['--offer', { offer: times(limits.offersMax + 1, offer) }, limits.offersMax],
  ])('is refused over the bound of %s', (argument, options, limit) => {
    expect(() => checkDeclared(options, '')).toThrow(
      expect.objectContaining({
        code: 'invalid_argument',
        details: { argument },
        message: expect.stringContaining(`the limit is ${limit}`),
      }),
    )
  })

  test.each([
    ['--label', { label: [['gpu', 'a'] as const, ['gpu', 'b'] as const] }],
    ['--offer', { offer: [['data', '/a'] as const, ['data', '/b'] as const] }],
    ['--capability', { capability: [''] }],
    ['--pass-env', { passEnv: ['A B'] }],
    ['--pass-env', { passEnv: [''] }],
  ])('is refused where %s says nothing, or two things at once', (argument, options) => {
    expect(() => checkDeclared(options, '')).toThrow(
      expect.objectContaining({ code: 'invalid_argument', details: { argument } }),
    )
  })

  test('is refused with a description over its bound', () => {
    const tooLong = 'ü'.repeat(limits.descriptionMaxBytes / 2 + 1)
    expect(() => checkDeclared({}, tooLong)).toThrow(/--describe of 2050 bytes/)
  })

  test('at every bound at once reaches hubs in one frame', () => {
    const said = {
      label: times(limits.labelsMax, label),
      capability: times(limits.capabilitiesMax, capability),
      offer: times(limits.offersMax, offer),
    }
    const description = 'd'.repeat(limits.descriptionMaxBytes)
    checkDeclared(said, description)
    const card: NodeCard = {
      description,
      labels: Object.fromEntries(said.label),
      capabilities: said.capability,
      offers: said.offer.map(([name]) => ({ name, mode: 'rw' })),
      maxAgents: limits.maxAgentsMax,
      allows: { allTools: false, monitors: false, repos: [] },
      credential: 'none',
      version: '0.1.0',
      os: 'linux',
      arch: 'x64',
    }
    const capacity = { free: 0, running: 0, queued: 0 }

    const frame = wireCodec.encodeFrame({ type: 'control', message: { type: 'capacity', capacity, card } })

    expect(frame.length).toBeLessThan(limits.sessionFrameMaxBytes)
  })
})

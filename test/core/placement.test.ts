import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Filters, NodeCard } from '../../src/core/model.ts'
import {
  type Decline,
  giveUp,
  matching,
  type NodeView,
  nearestNames,
  place,
  type Wish,
} from '../../src/core/placement.ts'

const card: NodeCard = {
  description: '',
  labels: { zone: 'a' },
  capabilities: ['gpu'],
  offers: [{ name: 'site', mode: 'rw' }],
  maxAgents: 2,
  allows: { allTools: false, monitors: false, repos: [] },
  credential: 'api_key',
  version: '0.1.0',
  os: 'linux',
  arch: 'x64',
}

function node(name: string, more: Partial<NodeView> & { free?: number; card?: NodeCard } = {}): NodeView {
  const { free = 1, ...rest } = more
  const capacity = { free, running: 0, queued: 0 }
  return { peerId: `peer-${name}`, name, state: 'online', isReady: true, card, capacity, pending: 0, ...rest }
}

function wish(filters: Partial<Filters> = {}, more: Partial<Wish> = {}): Wish {
  return { filters: { labels: {}, requires: [], ...filters }, declines: [], resting: new Set(), ...more }
}

function decline(name: string, more: Partial<Decline> = {}): Decline {
  return { peerId: `peer-${name}`, machine: name, reason: 'dir_busy', message: 'busy', isPermanent: false, ...more }
}

describe('placement', () => {
  test('takes the node with the most free slots, then the first by name', () => {
    expect(place(wish(), [node('b'), node('a'), node('c', { free: 3 })])).toMatchObject({ type: 'place', name: 'c' })
    expect(place(wish(), [node('b'), node('a')])).toMatchObject({ type: 'place', name: 'a' })
  })

  test('counts slots that were asked for as taken', () => {
    expect(place(wish(), [node('a', { pending: 1 })])).toEqual({ type: 'wait' })
  })

  test.each(['unverifiable', 'offline'] as const)('waits for a node that is %s', (state) => {
    expect(place(wish(), [node('a', { state, isReady: false })])).toEqual({ type: 'wait' })
  })

  test('waits for a machine that has yet to join, and for one that was never heard of', () => {
    const { card: _, capacity: __, ...unknown } = node('new', { state: 'offline', isReady: false })

    expect(place(wish({ machine: 'none' }), [node('a')])).toEqual({ type: 'wait' })
    expect(place(wish({ requires: ['tpu'] }), [node('a'), unknown])).toEqual({ type: 'wait' })
  })

  test('filters by machine and by all labels', () => {
    const nodes = [node('a'), node('b', { card: { ...card, labels: { zone: 'b', disk: 'big' } } })]

    expect(place(wish({ machine: 'b' }), nodes)).toMatchObject({ name: 'b' })
    expect(place(wish({ labels: { zone: 'b', disk: 'big' } }), nodes)).toMatchObject({ name: 'b' })
    expect(place(wish({ labels: { zone: 'a', disk: 'big' } }), nodes)).toEqual({ type: 'wait' })
    expect(matching(wish({ labels: { toString: 'x' } }), nodes)).toEqual([])
  })

  test('rejects at once when every match lacks a capability', () => {
    const nodes = [node('a'), node('b', { state: 'offline', isReady: false })]

    expect(place(wish({ requires: ['tpu'] }), nodes)).toMatchObject({
      type: 'reject',
      reason: 'declined',
      declines: [{ machine: 'a' }, { machine: 'b' }],
    })
  })

  test('rejects a folder that no match offers', () => {
    expect(place(wish({ dir: 'other/path' }), [node('a')])).toMatchObject({ type: 'reject', reason: 'dir_not_offered' })
    expect(place(wish({ dir: 'site/path' }), [node('a')])).toMatchObject({ type: 'place' })
  })

  test('names every reason when the matches have different ones', () => {
    const away: NodeCard = { ...card, unavailable: { reason: 'claude_missing', message: 'no claude' } }
    const rejected = place(wish({ dir: 'other' }), [node('a'), node('b', { card: away })])

    expect(rejected).toMatchObject({
      type: 'reject',
      reason: 'declined',
      declines: [{ reason: 'dir_not_offered' }, { reason: 'claude_missing' }],
    })
  })

  test('asks a node that declined for good no more, and takes another', () => {
    const declines = [decline('a', { reason: 'not_logged_in', isPermanent: true })]

    expect(place(wish({}, { declines }), [node('a', { free: 5 }), node('b')])).toMatchObject({ name: 'b' })
    expect(place(wish({}, { declines }), [node('a')])).toMatchObject({ type: 'reject', reason: 'not_logged_in' })
  })

  test('leaves a node alone that declined for the moment', () => {
    const resting = new Set(['peer-a'])
    const declines = [decline('a')]

    expect(place(wish({}, { declines, resting }), [node('a')])).toEqual({ type: 'wait' })
    expect(place(wish({}, { declines }), [node('a')])).toMatchObject({ type: 'place' })
  })

  test('keeps to the machine that the name meant when the spawn was accepted', () => {
    const bound = wish({ machine: 'a' }, { boundTo: 'peer-a' })
    const renamed = { ...node('z'), peerId: 'peer-a' }

    expect(place(bound, [renamed])).toMatchObject({ type: 'place', peerId: 'peer-a' })
    expect(place(bound, [])).toEqual({ type: 'wait' })
    expect(place(bound, [{ ...node('a'), peerId: 'peer-other' }, renamed])).toMatchObject({
      type: 'reject',
      reason: 'machine_changed',
    })
  })

  test('gives up with the declines where every match declined, else for want of a machine', () => {
    const declines = [decline('a')]

    expect(giveUp(wish({}, { declines }), [node('a')])).toEqual({ reason: 'dir_busy', declines })
    expect(giveUp(wish({}, { declines }), [node('a'), node('b')])).toEqual({ reason: 'no_machine', declines })
    expect(giveUp(wish(), [])).toEqual({ reason: 'no_machine', declines: [] })
  })

  test('names the nearest machines, nearest first', () => {
    expect(nearestNames('vm-1', ['laptop', 'vm1', 'vm2', 'wm11'])).toEqual(['vm1', 'vm2', 'wm11'])
  })

  // Goal: no machine is used that the filters exclude, that is not ready, or that has no slot.
  test('places only where the wish allows and a slot is free', () => {
    const views = fc.array(
      fc.record({
        name: fc.constantFrom('a', 'b', 'c'),
        free: fc.integer({ min: 0, max: 2 }),
        pending: fc.integer({ min: 0, max: 2 }),
        isReady: fc.boolean(),
        zone: fc.constantFrom('a', 'b'),
        gpu: fc.boolean(),
      }),
      { maxLength: 6 },
    )
    const filters = fc.record({
      machine: fc.option(fc.constantFrom('a', 'b'), { nil: undefined }),
      zone: fc.option(fc.constantFrom('a', 'b'), { nil: undefined }),
      gpu: fc.boolean(),
    })

    fc.assert(
      fc.property(views, filters, (raw, wanted) => {
        const nodes = raw.map(({ name, free, pending, isReady, zone, gpu }, index) => ({
          ...node(name, {
            free,
            pending,
            isReady,
            card: { ...card, labels: { zone }, capabilities: gpu ? ['gpu'] : [] },
          }),
          peerId: `peer-${index}`,
        }))
        const asked = wish({
          ...(wanted.machine === undefined ? {} : { machine: wanted.machine }),
          labels: wanted.zone === undefined ? {} : { zone: wanted.zone },
          requires: wanted.gpu ? ['gpu'] : [],
        })
        const found = place(asked, nodes)
        if (found.type !== 'place') return
        const chosen = raw[nodes.findIndex((candidate) => candidate.peerId === found.peerId)]
        expect(chosen?.isReady).toBe(true)
        expect((chosen?.free ?? 0) - (chosen?.pending ?? 0)).toBeGreaterThan(0)
        if (wanted.machine !== undefined) expect(chosen?.name).toBe(wanted.machine)
        if (wanted.zone !== undefined) expect(chosen?.zone).toBe(wanted.zone)
        if (wanted.gpu) expect(chosen?.gpu).toBe(true)
      }),
    )
  })
})

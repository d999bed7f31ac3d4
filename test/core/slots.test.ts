import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  capacityOf,
  directoryHolder,
  emptySlots,
  hasFreeSlot,
  isAgentBusy,
  releaseSlot,
  type Slots,
  takeSlot,
} from '../../src/core/slots.ts'

function holding(directories: Readonly<Record<string, string>>): Slots {
  return Object.entries(directories).reduce(
    (slots, [attemptId, directory]) =>
      takeSlot(slots, attemptId, { agentId: `agt_${attemptId}`, hubId: 'hub_1', isRunning: true, directory }),
    emptySlots(4),
  )
}

describe('slots', () => {
  test('are free until as many turns hold one as the owner allowed', () => {
    const one = takeSlot(emptySlots(2), 'a', { agentId: 'x', hubId: 'hub_1', isRunning: false })
    const two = takeSlot(one, 'b', { agentId: 'y', hubId: 'hub_1', isRunning: true })

    expect(capacityOf(emptySlots(2))).toEqual({ free: 2, running: 0, queued: 0 })
    expect(capacityOf(one)).toEqual({ free: 1, running: 0, queued: 1 })
    expect(capacityOf(two)).toEqual({ free: 0, running: 1, queued: 1 })
    expect([hasFreeSlot(one), hasFreeSlot(two), hasFreeSlot(releaseSlot(two, 'a'))]).toEqual([true, false, true])
  })

  test('never count below zero where more turns run than are allowed now', () => {
    const taken = takeSlot(emptySlots(0), 'a', { agentId: 'x', hubId: 'hub_1', isRunning: true })

    expect(capacityOf(taken)).toEqual({ free: 0, running: 1, queued: 0 })
  })

  test('know which agents work', () => {
    const taken = takeSlot(emptySlots(2), 'a', { agentId: 'x', hubId: 'hub_1', isRunning: true })

    expect([isAgentBusy(taken, 'x'), isAgentBusy(taken, 'y')]).toEqual([true, false])
  })

  test.each([
    ['/code/app', '/code/app', true],
    ['/code/app', '/code/app/src', true],
    ['/code/app/src', '/code/app', true],
    ['/code/app', '/code/app2', false],
    ['/code/app', '/code', true],
    ['/', '/code', true],
    ['/code/a', '/code/b', false],
  ])('do not share a folder: one holds %s, another wants %s', (held, wanted, isShared) => {
    const holder = directoryHolder(holding({ a: held }), { attemptId: 'b', directory: wanted })

    expect(holder).toBe(isShared ? 'a' : undefined)
  })

  test('do not stand in their own way', () => {
    expect(directoryHolder(holding({ a: '/code' }), { attemptId: 'a', directory: '/code' })).toBeUndefined()
  })

  test('add up: whatever is taken and released, free and taken make the limit or more', () => {
    const change = fc.record({ id: fc.constantFrom('a', 'b', 'c', 'd'), takes: fc.boolean(), runs: fc.boolean() })

    fc.assert(
      fc.property(fc.integer({ min: 0, max: 5 }), fc.array(change), (maxAgents, changes) => {
        let slots = emptySlots(maxAgents)
        for (const { id, takes, runs } of changes) {
          slots = takes ? takeSlot(slots, id, { agentId: id, hubId: 'hub_1', isRunning: runs }) : releaseSlot(slots, id)
          const { free, running, queued } = capacityOf(slots)
          expect(running + queued).toBe(slots.held.size)
          expect(free).toBe(Math.max(0, maxAgents - slots.held.size))
        }
      }),
    )
  })
})

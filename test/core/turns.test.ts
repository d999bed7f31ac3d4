import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { freeFor, leaveTurns, noTurns, slotFreed, type Turns, turnMs, waitForTurn } from '../../src/core/turns.ts'

const queue = (...hubs: readonly string[]): Turns => hubs.reduce((turns, hub) => waitForTurn(turns, hub, 0), noTurns)

describe('slots that several hubs want', () => {
  test('go to whoever waits longest, and to others only when there are more', () => {
    const turns = slotFreed(queue('a', 'b'), 1_000)
    const free = (hubId: string, slots: number) => freeFor(turns, { hubId, free: slots, nowMs: 1_500 })

    expect([free('a', 1), free('b', 1), free('c', 1)]).toEqual([1, 0, 0])
    expect([free('a', 3), free('b', 3), free('c', 3)]).toEqual([3, 2, 1])
  })

  test('are everybody’s once a turn was not taken, and who let it pass is not before anybody any more', () => {
    const turns = slotFreed(queue('a'), 1_000)
    const later = slotFreed(waitForTurn(turns, 'b', 1_500), 1_000 + turnMs + 1)

    expect(freeFor(turns, { hubId: 'c', free: 1, nowMs: 1_000 + turnMs + 1 })).toBe(1)
    expect(later.waiting.map(({ hubId }) => hubId)).toEqual(['b'])
  })

  test('are served in turn however greedy one hub is', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('greedy', 'a', 'b'), { minLength: 20, maxLength: 60 }), (asking) => {
        // One slot. Each round it becomes free, the greedy hub asks first and last, and whoever is let takes it.
        let turns = queue('greedy', 'a', 'b')
        const served: string[] = []
        let nowMs = 0
        for (const _ of asking) {
          nowMs += 10
          turns = slotFreed(turns, nowMs)
          const taker = ['greedy', 'a', 'b', 'greedy'].find((hubId) => freeFor(turns, { hubId, free: 1, nowMs }) > 0)
          if (taker === undefined) throw new Error('a free slot was for nobody')
          served.push(taker)
          turns = leaveTurns(turns, taker)
          for (const hub of ['greedy', 'a', 'b']) turns = waitForTurn(turns, hub, nowMs)
        }
        const counts = ['greedy', 'a', 'b'].map((hub) => served.filter((one) => one === hub).length)
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1)
      }),
    )
  })
})

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { step } from '../../src/core/node-attempt.ts'
import type { NodeAttempt, NodeAttemptEffect, NodeAttemptEvent } from '../../src/core/node-attempt-state.ts'
import { isOpen } from '../../src/core/node-attempt-step.ts'
import { claimEvent, completed, events, ref } from './node-attempt-events.ts'

const decline = { reason: 'declined', message: 'full', isPermanent: false } as const
const epoch = fc.integer({ min: 1, max: 3 })
const messageId = fc.constantFrom('m1', 'm2', 'm3')

/** Any event, in any order, as often as it likes; those of an ordinary life more often, so that histories get far. */
const anyEvent: fc.Arbitrary<NodeAttemptEvent> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.constantFrom<NodeAttemptEvent>(
      claimEvent(),
      events.prepared,
      events.launched,
      events.steer,
      events.ended,
      events.collected,
      events.receipt,
    ),
  },
  fc
    .record({
      commandId: fc.constantFrom('c1', 'c2'),
      epoch,
      isDeclined: fc.boolean(),
      fence: fc.integer({ min: 0, max: 3 }),
    })
    .map(({ commandId, epoch: at, isDeclined, fence }) =>
      claimEvent({ decline: isDeclined ? decline : undefined, fence }, { commandId, ref: ref(at) }),
    ),
  fc.constantFrom<NodeAttemptEvent>(
    events.resumed,
    { type: 'woke', token: 'bound', liveAt: 20 },
    { type: 'not_prepared', decline, atMs: 1 },
    { type: 'session_ready', sessionId: 's' },
    { ...events.ended, result: { ...completed, outcome: 'failed', reason: 'crashed' }, keeperGone: 'gone' },
    { type: 'removed', atMs: 1 },
  ),
  epoch.map((at): NodeAttemptEvent => ({ type: 'fence', epoch: at })),
  fc
    .record({ epoch, messageId, liveAt: fc.constantFrom(undefined, 20) })
    .map(({ epoch: at, messageId: id, liveAt }): NodeAttemptEvent => {
      const message = { ...events.steer.message, ref: ref(at), messageId: id }
      return { type: 'steer', message, liveAt }
    }),
  fc
    .record({ epoch, liveAt: fc.constantFrom(undefined, 20), commandId: fc.constantFrom('s1', 's2') })
    .map(({ epoch: at, liveAt, commandId }): NodeAttemptEvent => {
      const message = { ...events.stop.message, ref: ref(at), commandId }
      return { type: 'stop', message, liveAt, atMs: 1 }
    }),
  epoch.map((at): NodeAttemptEvent => ({ type: 'collected', message: { ...events.collected.message, ref: ref(at) } })),
  fc
    .record({ messageId, state: fc.constantFrom('taken', 'interrupted') })
    .map(({ messageId: id, state }): NodeAttemptEvent => ({ type: 'message_state', messageId: id, state })),
  fc.integer({ min: 0, max: 500 }).map((offset): NodeAttemptEvent => ({ type: 'progress', offset })),
  fc.constantFrom(0, Number.MAX_SAFE_INTEGER).map((atMs): NodeAttemptEvent => ({ type: 'expired', atMs })),
)

interface Seen {
  readonly event: NodeAttemptEvent
  readonly before: NodeAttempt | undefined
  readonly after: NodeAttempt | undefined
  readonly effects: readonly NodeAttemptEffect[]
}

function run(list: readonly NodeAttemptEvent[]): readonly Seen[] {
  let state: NodeAttempt | undefined
  return list.map((event) => {
    const before = state
    const next = step(state, event)
    state = next.state
    return { event, before, after: state, effects: next.effects }
  })
}

/** Checks every history of up to 60 events. Failing ones are printed with their seed. */
function always(check: (history: readonly Seen[]) => void): void {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 60 }), (list) => check(run(list))),
    { numRuns: 500 },
  )
}

/** Splits a history where the attempt is forgotten whole: what comes then is another life. */
function lives(history: readonly Seen[]): readonly (readonly Seen[])[] {
  const parts: Seen[][] = [[]]
  for (const seen of history) {
    parts.at(-1)?.push(seen)
    if (seen.effects.some((effect) => effect.type === 'delete')) parts.push([])
  }
  return parts
}

function count(history: readonly Seen[], test: (effect: NodeAttemptEffect) => boolean): number {
  return history.flatMap(({ effects }) => effects).filter(test).length
}

const order: Record<NodeAttempt['phase'], number> = {
  declined: 0,
  claimed: 1,
  launching: 2,
  running: 3,
  ended: 4,
  collected: 5,
  forgotten: 6,
}

test('the histories that are checked get to the end of a life', () => {
  const seen = fc
    .sample(fc.array(anyEvent, { maxLength: 60, size: 'max' }), { numRuns: 500, seed: 1 })
    .map((list) => run(list))
  const reach = (phase: NodeAttempt['phase']): number =>
    seen.filter((history) => history.some(({ after }) => after?.phase === phase)).length

  for (const phase of ['running', 'ended', 'collected', 'forgotten', 'declined'] as const) {
    expect(reach(phase), phase).toBeGreaterThan(10)
  }
})

describe('an attempt on its node, whatever happens in whatever order,', () => {
  test('is launched at most once', () => {
    always((history) => {
      for (const life of lives(history)) expect(count(life, ({ type }) => type === 'launch')).toBeLessThanOrEqual(1)
    })
  })

  test('tells one end, and records one result', () => {
    always((history) => {
      for (const life of lives(history)) {
        const tells = count(
          life,
          (effect) =>
            effect.type === 'send' && (effect.message.type === 'ended' || effect.message.type === 'keeper_gone'),
        )
        expect(tells).toBeLessThanOrEqual(1)
        expect(count(life, ({ type }) => type === 'keep_result')).toBe(tells)
      }
    })
  })

  test('persists first whenever it changed, and only then', () => {
    always((history) => {
      for (const { before, after, effects } of history) {
        if (after === undefined) continue
        expect(effects.findLastIndex(({ type }) => type === 'persist')).toBeLessThanOrEqual(0)
        if (after !== before) expect(effects[0]?.type).toBe('persist')
      }
    })
  })

  test('moves forwards only, but for a declined one that is claimed anew', () => {
    always((history) => {
      for (const { before, after } of history) {
        if (before === undefined || after === undefined || before.phase === 'declined') continue
        if (before.phase === 'claimed' && after.phase === 'declined') continue
        expect(order[after.phase]).toBeGreaterThanOrEqual(order[before.phase])
      }
    })
  })

  test('holds its slot exactly while it is open', () => {
    always((history) => {
      let held = 0
      for (const { after, effects } of history) {
        const changes = effects.map(({ type }) => (type === 'take_slot' ? 1 : type === 'release_slot' ? -1 : 0))
        held = changes.reduce<number>((sum, change) => sum + change, held)
        expect(held).toBe(after !== undefined && isOpen(after) ? 1 : 0)
      }
    })
  })

  test('acts on no command below its fence, which never falls', () => {
    always((history) => {
      for (const { event, before, after, effects } of history) {
        if (before === undefined || after === undefined) continue
        expect(after.fence).toBeGreaterThanOrEqual(before.phase === 'declined' ? 0 : before.fence)
        if ('message' in event && event.message.ref.epoch < before.fence) {
          expect(after).toBe(before)
          expect(effects).toEqual([])
        }
      }
    })
  })

  test('gives the driver nothing but while it runs, a stop at most once, and no message after that', () => {
    always((history) => {
      for (const life of lives(history)) {
        let isStopped = false
        for (const { after, effects } of life) {
          for (const effect of effects) {
            if (effect.type !== 'drive') continue
            expect(after?.phase).toBe('running')
            if (effect.input.type === 'stop') {
              expect(isStopped).toBe(false)
              isStopped = true
            }
            if (effect.input.type === 'steer') expect(isStopped).toBe(false)
          }
        }
      }
    })
  })

  test('gives the driver each message once', () => {
    always((history) => {
      for (const life of lives(history)) {
        const first = life.flatMap(({ effects }) =>
          effects.flatMap((effect) =>
            effect.type === 'drive' && effect.input.type === 'steer' ? [effect.input.messageId] : [],
          ),
        )
        expect(new Set(first).size).toBe(first.length)
      }
    })
  })

  test('answers every claim with the ref of the one it took in', () => {
    always((history) => {
      for (const { after, effects } of history) {
        for (const effect of effects) {
          if (effect.type !== 'send' || !('ref' in effect.message) || after === undefined) continue
          expect(effect.message.ref).toEqual(after.ref)
        }
      }
    })
  })

  test('forgets a result only after its receipt, or where the hub was told that there is none', () => {
    always((history) => {
      for (const { before, effects } of history) {
        if (!effects.some(({ type }) => type === 'remove')) continue
        expect(before?.receipt !== undefined || before?.end?.keeperGone !== undefined).toBe(true)
      }
    })
  })
})

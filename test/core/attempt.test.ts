import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Attempt, type AttemptEvent, fenceOf, isAlive, stepAttempt } from '../../src/core/attempt.ts'
import { type AttemptResult, noUsage } from '../../src/core/model.ts'

const offered: Attempt = {
  attemptId: 'att_1',
  number: 1,
  epoch: 3,
  peerId: 'peer-vm1',
  machine: 'vm1',
  phase: 'offered',
  isSuperseded: false,
  hasLateResult: false,
}

function result(text: string): AttemptResult {
  return { outcome: 'completed', text, denied: [], usage: noUsage, messages: [], details: {} }
}

function run(...events: readonly AttemptEvent[]) {
  let state = offered
  let effects: readonly { type: string }[] = []
  for (const event of events) {
    const step = stepAttempt(state, event)
    state = step.state
    effects = step.effects
  }
  return { state, effects }
}

const claimed: AttemptEvent = { type: 'claimed', epoch: 3, bootId: 'boot-1' }
const started: AttemptEvent = { type: 'started', epoch: 3, sessionId: 'ses' }
const declined: AttemptEvent = { type: 'declined', epoch: 3, reason: 'dir_busy', message: 'busy', isPermanent: false }
const lost: AttemptEvent = { type: 'lost', ground: 'silent', message: 'nothing was heard' }
const ended = (text: string): AttemptEvent => ({ type: 'ended', epoch: 3, result: result(text) })

describe('an attempt, as its hub sees it', () => {
  test('is claimed, runs and ends with the first result', () => {
    const { state, effects } = run(claimed, started, ended('first'))

    expect(state).toMatchObject({ phase: 'ended', bootId: 'boot-1' })
    expect(effects).toEqual([
      { type: 'persist' },
      { type: 'accept_result', result: result('first'), isLate: false, isSuperseded: false, isMaybeSeen: false },
    ])
  })

  test('keeps a second result as evidence', () => {
    const { effects } = run(claimed, ended('first'), ended('second'))

    expect(effects).toEqual([{ type: 'keep_as_evidence', reason: 'already_ended' }])
  })

  test('accepts a result after a loss once, as a late one', () => {
    const late = run(claimed, lost, ended('late'))
    const again = run(claimed, lost, ended('late'), ended('late'))

    expect(late.effects.at(-1)).toMatchObject({ type: 'accept_result', isLate: true })
    expect(again.effects).toEqual([{ type: 'keep_as_evidence', reason: 'already_ended' }])
  })

  test('marks the result of a superseded attempt and raises its fence', () => {
    const { state, effects } = run(claimed, { type: 'superseded' }, ended('old'))

    expect(effects.at(-1)).toMatchObject({ type: 'accept_result', isLate: true, isSuperseded: true })
    expect(fenceOf(state)).toBe(4)
    expect(fenceOf(offered)).toBe(3)
  })

  test('declares no loss to its task once it is superseded', () => {
    const { state, effects } = run(claimed, { type: 'superseded' }, lost)

    expect(state.phase).toBe('lost')
    expect(effects).toEqual([{ type: 'persist' }])
  })

  test('goes back to placement when its node declines, and ends no more', () => {
    const { state, effects } = run(declined)

    expect(effects.at(-1)).toMatchObject({ type: 'accept_decline', reason: 'dir_busy' })
    expect(run(declined, ended('x')).effects).toEqual([{ type: 'keep_as_evidence', reason: 'already_declined' }])
    expect(run(declined, started).effects).toEqual([{ type: 'keep_as_evidence', reason: 'already_declined' }])
    expect(isAlive(state)).toBe(false)
  })

  test('cannot be declined after it was claimed', () => {
    expect(run(claimed, declined)).toMatchObject({ state: { phase: 'claimed' } })
  })

  test.each([claimed, started, declined, ended('x')])('ignores a word about another epoch: $type', (event) => {
    const other = { ...event, epoch: 2 } as AttemptEvent

    expect(stepAttempt(offered, other)).toEqual({
      state: offered,
      effects: [{ type: 'keep_as_evidence', reason: 'stale_epoch' }],
    })
  })

  test('is brought back by no word of its node once it was counted lost', () => {
    expect(run(claimed, lost, started).state.phase).toBe('lost')
    expect(run(claimed, lost, claimed).state.phase).toBe('lost')
  })

  test('is lost once', () => {
    expect(run(claimed, lost, lost).effects).toEqual([])
    expect(run(claimed, ended('x'), lost).effects).toEqual([])
  })

  // Goal: no order of events, however late or repeated, accepts two results for one attempt.
  test('accepts at most one result, whatever arrives, and persists before anything else', () => {
    const event = fc.oneof(
      fc.constantFrom<AttemptEvent>(claimed, started, declined, lost, { type: 'superseded' }),
      fc.string().map(ended),
      fc.integer({ min: 0, max: 5 }).map((epoch): AttemptEvent => ({ type: 'ended', epoch, result: result('other') })),
    )

    fc.assert(
      fc.property(fc.array(event, { maxLength: 40 }), (events) => {
        let state = offered
        let results = 0
        let losses = 0
        for (const next of events) {
          const step = stepAttempt(state, next)
          if (step.state !== state) expect(step.effects[0]).toEqual({ type: 'persist' })
          results += step.effects.filter((effect) => effect.type === 'accept_result').length
          losses += step.effects.filter((effect) => effect.type === 'accept_loss').length
          state = step.state
        }
        expect(results).toBeLessThanOrEqual(1)
        expect(losses).toBeLessThanOrEqual(1)
      }),
    )
  })
})

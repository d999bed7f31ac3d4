import { expect, test } from 'vitest'
import { step } from '../../src/core/node-attempt.ts'
import type { NodeAttempt, NodeAttemptEvent } from '../../src/core/node-attempt-state.ts'
import { Attempts } from '../../src/node/attempts.ts'
import { Engine } from '../../src/runtime/engine.ts'
import { openMemoryStore } from '../../src/store/memory-store.ts'
import { claimEvent, events } from '../core/node-attempt-events.ts'

const nothing = (): undefined => undefined

/** An attempt after these events, under an id of its own. */
function lived(attemptId: string, ...list: readonly NodeAttemptEvent[]): NodeAttempt {
  let state: NodeAttempt | undefined
  for (const event of [claimEvent(), ...list]) state = step(state, event).state
  if (state === undefined) throw new Error('the attempt is unknown')
  return { ...state, ref: { ...state.ref, attemptId } }
}

async function attemptsOf(...restored: readonly NodeAttempt[]) {
  const attempts = new Attempts(4, {
    send: nothing,
    drive: nothing,
    prepare: nothing,
    launch: nothing,
    ended: nothing,
    makeReceipt: nothing,
    sendKeptResult: nothing,
    proveAbsent: nothing,
    remove: nothing,
    capacityChanged: nothing,
  })
  attempts.restore(restored, [])
  const engine = new Engine(await openMemoryStore())
  const dispatch = ({ hubId, ref }: NodeAttempt, event: NodeAttemptEvent): Promise<void> =>
    engine.transact((tx) => attempts.dispatch(tx, { hubId, attemptId: ref.attemptId }, event))
  return { attempts, dispatch }
}

const idsOf = (states: readonly NodeAttempt[]): readonly string[] => states.map(({ ref }) => ref.attemptId)

test('those that are open are the ones whose turn is not over', async () => {
  const [one, other] = [lived('att_1', events.prepared), lived('att_2', events.prepared, events.launched)]
  const { attempts, dispatch } = await attemptsOf(one, other, lived('att_3', events.prepared, events.ended))
  const before = idsOf(attempts.open())
  await dispatch(other, events.ended)

  expect(before).toEqual(['att_1', 'att_2'])
  expect(idsOf(attempts.open())).toEqual(['att_1'])
})

test('those whose time is over are found at every look, until they are gone', async () => {
  const settled = [events.prepared, events.launched, events.ended, events.collected] as const
  const early = lived('att_1', ...settled, { ...events.receipt, atMs: 0 })
  const late = lived('att_2', ...settled)
  const { attempts, dispatch } = await attemptsOf(early, late)
  const dueMs = early.keptUntilMs ?? 0
  await dispatch(late, { ...events.receipt, atMs: 1_000 })

  expect(attempts.due(dueMs - 1)).toEqual([])
  expect(idsOf(attempts.due(dueMs))).toEqual(['att_1'])
  expect(idsOf(attempts.due(dueMs))).toEqual(['att_1'])
  await dispatch(early, { type: 'removed', atMs: dueMs })
  expect(attempts.due(dueMs + 999)).toEqual([])
  expect(idsOf(attempts.due(dueMs + 1_000))).toEqual(['att_2'])
})

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type AttemptResult, noUsage } from '../../src/core/model.ts'
import { stepAgent, unsettledAttempts } from '../../src/core/task.ts'
import {
  type Agent,
  agentStateOf,
  canContinue,
  currentTask,
  isActive,
  isQueued,
  liveAttempt,
  usageOf,
} from '../../src/core/task-record.ts'
import { type AgentEffect, type AgentEvent, newTask } from '../../src/core/task-step.ts'

const context = { atMs: 5_000, deliveryId: 7 }

function fresh(more: Partial<Agent> = {}): Agent {
  const task = newTask({ taskId: 'tsk_1', turn: 1, textHash: 'aa', timeoutMs: 600_000, atMs: 1_000 })
  const filters = { labels: {}, requires: [], dir: 'site' }
  const base = { agentId: 'agt_1', no: 1, filters, lostAfterMs: 150_000, settings: {}, startedAtMs: 1_000 }
  return { ...base, tasks: [task], ...more }
}

function result(more: Partial<AttemptResult> = {}): AttemptResult {
  const usage = { inputTokens: 3, outputTokens: 2, costUsd: 0.5, durationMs: 10 }
  return { outcome: 'completed', text: 'done', denied: [], usage, messages: [], details: {}, ...more }
}

const placed: AgentEvent = { type: 'placed', attemptId: 'att_1', peerId: 'peer-vm1', machine: 'vm1' }
const about = (event: Extract<AgentEvent, { type: 'attempt' }>['event'], attemptId = 'att_1'): AgentEvent => ({
  type: 'attempt',
  attemptId,
  event,
})
const claimed = about({ type: 'claimed', epoch: 1 })
const started = about({ type: 'started', epoch: 1, sessionId: 'ses_1' })
const ended = (more: Partial<AttemptResult> = {}): AgentEvent =>
  about({ type: 'ended', epoch: 1, result: result(more) })
const lost = about({ type: 'lost', ground: 'silent', message: 'nothing was heard' })
const declined = (isPermanent = false): AgentEvent =>
  about({ type: 'declined', epoch: 1, reason: 'dir_busy', message: 'busy', isPermanent })
const send = (messageId: string, taskId = `tsk_${messageId}`): AgentEvent => ({
  type: 'send',
  messageId,
  taskId,
  textHash: 'bb',
  timeoutMs: 600_000,
})
const messageState = (messageId: string, state: 'accepted' | 'taken' | 'not_taken'): AgentEvent => ({
  type: 'message_state',
  attemptId: 'att_1',
  messageId,
  state,
})

function run(...events: readonly AgentEvent[]): { state: Agent; effects: readonly AgentEffect[] } {
  let state = fresh()
  let effects: readonly AgentEffect[] = []
  for (const event of events) ({ state, effects } = stepAgent(state, event, context))
  return { state, effects }
}

function effect<Type extends AgentEffect['type']>(
  effects: readonly AgentEffect[],
  type: Type,
): Extract<AgentEffect, { type: Type }> | undefined {
  return effects.find((one): one is Extract<AgentEffect, { type: Type }> => one.type === type)
}

describe('an agent and its turns', () => {
  test('is queued, starting, running and idle', () => {
    expect(agentStateOf(fresh())).toBe('queued')
    expect(agentStateOf(run(placed).state)).toBe('starting')
    expect(agentStateOf(run(placed, claimed).state)).toBe('starting')
    expect(agentStateOf(run(placed, claimed, started).state)).toBe('running')
    expect(agentStateOf(run(placed, claimed, started, ended()).state)).toBe('idle')
  })

  test('passes the stages from quote to receipt', () => {
    const stageAfter = (...events: readonly AgentEvent[]) => currentTask(run(...events).state).stage

    expect(stageAfter()).toBe('quote')
    expect(stageAfter(placed)).toBe('execute')
    expect(stageAfter(placed, claimed, started)).toBe('progress')
    expect(stageAfter(placed, claimed, started, ended())).toBe('settle')
    const receipt: AgentEvent = { type: 'receipt', attemptId: 'att_1', receiptId: 'rcp_1' }
    const { state } = run(placed, claimed, started, ended(), receipt)
    expect(currentTask(state)).toMatchObject({ stage: 'receipt', receiptId: 'rcp_1' })
    expect(Object.keys(currentTask(state).times).sort()).toEqual(
      ['approve', 'execute', 'progress', 'quote', 'receipt', 'review', 'settle'].sort(),
    )
    expect(run(placed, claimed, ended(), receipt, receipt).effects).toEqual([])
  })

  test('tells a node that says a known end once more that it arrived, also where its receipt is here', () => {
    const receipt: AgentEvent = { type: 'receipt', attemptId: 'att_1', receiptId: 'rcp_1' }

    const { effects } = run(placed, claimed, started, ended(), receipt, ended())

    expect(effects).toMatchObject([
      { type: 'keep_as_evidence' },
      { type: 'send_collected', ref: { attemptId: 'att_1' } },
    ])
  })

  test('takes no receipt before the end, and the real one after it', () => {
    const early: AgentEvent = { type: 'receipt', attemptId: 'att_1', receiptId: 'rcp_early' }
    const real: AgentEvent = { type: 'receipt', attemptId: 'att_1', receiptId: 'rcp_real' }

    const { state } = run(placed, claimed, early, started, ended(), real)

    expect(currentTask(state)).toMatchObject({ stage: 'receipt', receiptId: 'rcp_real' })
  })

  test('sends the claim with everything but the brief', () => {
    const { effects } = run(placed)

    expect(effects).toEqual([
      { type: 'persist' },
      {
        type: 'send_claim',
        peerId: 'peer-vm1',
        claim: {
          type: 'claim',
          commandId: 'att_1.claim',
          ref: { agentId: 'agt_1', taskId: 'tsk_1', attemptId: 'att_1', epoch: 1 },
          turn: 1,
          dir: 'site',
          lostAfterMs: 150_000,
        },
      },
    ])
  })

  test('delivers a result and tells its node that it may settle, in that order after persist', () => {
    const { state, effects } = run(placed, claimed, started, ended({ sessionId: 'ses_1', exitProof: 'scan_clean' }))

    expect(effects.map((one) => one.type)).toEqual(['persist', 'deliver', 'send_collected'])
    expect(effect(effects, 'deliver')?.entry).toMatchObject({
      deliveryId: 7,
      attempt: 1,
      turn: 1,
      outcome: 'completed',
      text: 'done',
      machine: 'vm1',
      isLate: false,
    })
    expect(currentTask(state).end).toMatchObject({ outcome: 'completed', deliveryId: 7, proof: 'scan_clean' })
    expect(usageOf(state)).toMatchObject({ inputTokens: 3, costUsd: 0.5 })
  })

  test('goes back to placement after a decline, with a higher epoch and the same attempt number', () => {
    const { state, effects } = run(placed, declined())
    const again = stepAgent(state, { ...placed, attemptId: 'att_2' }, context)

    expect(isQueued(state)).toBe(true)
    expect(state.home).toBeUndefined()
    expect(effects).toContainEqual({ type: 'find_place', taskId: 'tsk_1' })
    expect(currentTask(state).declines).toEqual([
      { peerId: 'peer-vm1', machine: 'vm1', reason: 'dir_busy', message: 'busy', isPermanent: false },
    ])
    expect(liveAttempt(again.state)).toMatchObject({ attemptId: 'att_2', number: 1, epoch: 2 })
  })

  test('keeps the last few attempts of a task that is declined again and again', () => {
    let state = fresh()
    for (let no = 1; no <= 20; no++) {
      state = stepAgent(state, { ...placed, attemptId: `att_${no}` }, context).state
      const event = { type: 'declined', epoch: no, reason: 'dir_busy', message: 'busy', isPermanent: false } as const
      state = stepAgent(state, about(event, `att_${no}`), context).state
    }

    expect(currentTask(state).attempts).toHaveLength(8)
    expect(currentTask(state).nextEpoch).toBe(21)
  })

  test('ends rejected when no place is found, and is closed', () => {
    const { state, effects } = run({ type: 'unplaced', reason: 'no_machine', declines: [] })

    expect(agentStateOf(state)).toBe('closed')
    expect(effect(effects, 'deliver')?.entry).toMatchObject({ outcome: 'rejected', reason: 'no_machine', text: '' })
    expect(run(placed, { type: 'unplaced', reason: 'no_machine', declines: [] }).effects).toEqual([])
  })

  test('is node_lost after a loss, and idle again with the late result, which comes once', () => {
    const gone = run(placed, claimed, started, lost)
    const late = run(placed, claimed, started, lost, ended())
    const again = run(placed, claimed, started, lost, ended(), ended())

    expect(agentStateOf(gone.state)).toBe('closed')
    expect(effect(gone.effects, 'deliver')?.entry).toMatchObject({ outcome: 'node_lost', ground: 'silent' })
    expect(effect(late.effects, 'deliver')?.entry).toMatchObject({ outcome: 'completed', isLate: true })
    expect(agentStateOf(late.state)).toBe('idle')
    // Nothing is decided; a node that says it once more is told that it arrived.
    expect(again.effects).toMatchObject([
      { type: 'keep_as_evidence', reason: 'already_ended' },
      { type: 'send_collected', ref: { attemptId: 'att_1' } },
    ])
  })

  test('names the attempts of which something may still come', () => {
    const names = (agent: Agent) => unsettledAttempts(agent).map((attempt) => attempt.attemptId)

    expect(names(run(placed, claimed).state)).toEqual(['att_1'])
    expect(names(run(placed, claimed, lost).state)).toEqual(['att_1'])
    expect(names(run(placed, claimed, ended()).state)).toEqual([])
    expect(names(run(placed, declined()).state)).toEqual([])
  })

  test('ignores words about attempts it does not have', () => {
    expect(run(about({ type: 'claimed', epoch: 1 }, 'att_9')).effects).toEqual([
      { type: 'keep_as_evidence', reason: 'unknown_attempt' },
    ])
    expect(run({ type: 'receipt', attemptId: 'att_9', receiptId: 'rcp' }).effects).toEqual([])
    expect(run(messageState('msg_9', 'taken')).effects).toEqual([])
  })
})

describe('stopping an agent', () => {
  test('ends a queued one: nothing ran', () => {
    const { state, effects } = run({ type: 'stop' })

    expect(effect(effects, 'deliver')?.entry).toMatchObject({ outcome: 'stopped', attempt: 1 })
    expect(agentStateOf(state)).toBe('closed')
  })

  test('asks the node once, and takes the end that the node recorded first', () => {
    const stopping = run(placed, claimed, started, { type: 'stop', reason: 'enough' })
    const quicker = run(placed, claimed, started, { type: 'stop' }, ended())

    expect(agentStateOf(stopping.state)).toBe('stopping')
    expect(effect(stopping.effects, 'send_stop')?.stop).toMatchObject({ commandId: 'att_1.stop', reason: 'enough' })
    expect(stepAgent(stopping.state, { type: 'stop' }, context).effects).toEqual([])
    expect(effect(quicker.effects, 'deliver')?.entry).toMatchObject({ outcome: 'completed' })
  })

  test('changes nothing on one that ended', () => {
    expect(run(placed, claimed, started, ended(), { type: 'stop' }).effects).toEqual([])
  })

  test('is done when the node declines what it was asked for', () => {
    const { state, effects } = run(placed, { type: 'stop' }, declined())

    expect(effect(effects, 'deliver')?.entry).toMatchObject({ outcome: 'stopped' })
    expect(isActive(state)).toBe(false)
  })
})

describe('messages to an agent', () => {
  test('join the running turn', () => {
    const { effects } = run(placed, claimed, started, send('msg_1'))

    expect(effect(effects, 'send_steer')).toMatchObject({ peerId: 'peer-vm1', messageId: 'msg_1' })
    expect(run(placed, claimed, started, send('msg_1'), send('msg_1')).effects).toEqual([])
  })

  test('wait for a queued turn and follow its claim', () => {
    const waiting = run(send('msg_1'))
    const { effects } = run(send('msg_1'), placed)

    expect(waiting.effects).toEqual([{ type: 'persist' }])
    expect(effects.map((one) => one.type)).toEqual(['persist', 'send_claim', 'send_steer'])
  })

  test('wait again after a decline', () => {
    const { state } = run(send('msg_1'), placed, declined())

    expect(currentTask(state).steers).toEqual([{ messageId: 'msg_1', state: 'waiting', isReported: false }])
  })

  test('that a node had accepted before it declined wait again too', () => {
    const { state } = run(placed, send('msg_1'), messageState('msg_1', 'accepted'), declined())

    expect(currentTask(state).steers).toMatchObject([{ messageId: 'msg_1', state: 'waiting' }])
  })

  test('are with the newest attempt, whatever one that declined did not take', () => {
    const again: AgentEvent = { ...placed, attemptId: 'att_2' }
    const { state } = run(placed, send('msg_1'), declined(), again)
    const taken = { ...messageState('msg_1', 'taken'), attemptId: 'att_2' } as AgentEvent

    expect(stepAgent(state, messageState('msg_1', 'not_taken'), context)).toEqual({ state, effects: [] })
    expect(currentTask(stepAgent(state, taken, context).state).steers[0]).toMatchObject({ state: 'taken' })
  })

  test('start the next turn of an idle agent in its session', () => {
    const { state, effects } = run(placed, claimed, started, ended(), send('msg_1', 'tsk_2'))
    const claim = stepAgent(state, { ...placed, attemptId: 'att_2' }, context).effects

    expect(agentStateOf(state)).toBe('queued')
    expect(effects).toEqual([
      { type: 'persist' },
      { type: 'use_as_brief', messageId: 'msg_1', taskId: 'tsk_2' },
      { type: 'find_place', taskId: 'tsk_2' },
    ])
    expect(effect(claim, 'send_claim')?.claim).toMatchObject({ turn: 2, resumeSessionId: 'ses_1' })
  })

  test('change nothing on an agent that is closed', () => {
    expect(run({ type: 'stop' }, send('msg_1')).effects).toEqual([])
    expect(run({ type: 'stop' }, { ...send('msg_1'), type: 'carry_over' } as AgentEvent).effects).toEqual([])
  })

  test('are reported by the result, first as the node has it', () => {
    const reports = [{ messageId: 'msg_1', state: 'taken' }] as const
    const { effects } = run(
      placed,
      claimed,
      started,
      send('msg_1'),
      send('msg_2'),
      send('msg_3'),
      messageState('msg_2', 'accepted'),
      messageState('msg_3', 'not_taken'),
      ended({ messages: reports }),
    )

    expect(effect(effects, 'deliver')?.entry.messages).toEqual([
      { messageId: 'msg_1', state: 'taken' },
      { messageId: 'msg_2', state: 'interrupted' },
      { messageId: 'msg_3', state: 'not_taken' },
    ])
  })

  test('become a turn of their own when the turn ended without them', () => {
    const over = run(placed, claimed, started, send('msg_1'), ended())
    const { state, effects } = stepAgent(over.state, messageState('msg_1', 'not_taken'), context)
    const next = stepAgent(state, { ...send('msg_1', 'tsk_2'), type: 'carry_over' } as AgentEvent, context)

    expect(effect(over.effects, 'deliver')?.entry.messages).toEqual([])
    expect(effects).toContainEqual({ type: 'carry_over', messageId: 'msg_1' })
    expect(agentStateOf(next.state)).toBe('queued')
    expect(stepAgent(state, messageState('msg_1', 'not_taken'), context).effects).toEqual([])
  })

  test('are told as not taken by a result after which no turn can follow', () => {
    const { state, effects } = run(placed, claimed, send('msg_1'), ended({ outcome: 'rejected' }))

    expect(effect(effects, 'deliver')?.entry.messages).toEqual([{ messageId: 'msg_1', state: 'not_taken' }])
    expect(stepAgent(state, messageState('msg_1', 'not_taken'), context).effects).toEqual([])
  })

  test('to an earlier turn are told as not taken once no turn can follow', () => {
    const second = { type: 'placed', attemptId: 'att_2', peerId: 'peer_a', machine: 'gpu' } as const
    const { effects } = run(placed, claimed, started, send('msg_1'), ended(), send('msg_2', 'tsk_2'), second, {
      type: 'attempt',
      attemptId: 'att_2',
      event: { type: 'lost', ground: 'silent', message: 'gone' },
    })

    expect(effect(effects, 'deliver')?.entry.messages).toEqual([{ messageId: 'msg_1', state: 'not_taken' }])
  })

  test('lose to a stop', () => {
    const { effects } = run(placed, claimed, started, send('msg_1'), { type: 'stop' }, ended({ outcome: 'stopped' }))

    expect(effect(effects, 'deliver')?.entry.messages).toEqual([{ messageId: 'msg_1', state: 'not_taken' }])
  })

  test('are interrupted by a loss, or not taken where nothing ran', () => {
    const gone = run(placed, claimed, started, send('msg_1'), lost)
    const rejected = run(send('msg_1'), { type: 'unplaced', reason: 'no_machine', declines: [] })

    expect(effect(gone.effects, 'deliver')?.entry.messages).toEqual([{ messageId: 'msg_1', state: 'interrupted' }])
    expect(effect(rejected.effects, 'deliver')?.entry.messages).toEqual([{ messageId: 'msg_1', state: 'not_taken' }])
  })
})

describe('whether an agent can go on', () => {
  const turn = [placed, claimed, started] as const

  test.each(['completed', 'failed', 'stopped'] as const)('yes after %s, where its session exists', (outcome) => {
    expect(canContinue(run(...turn, ended({ outcome })).state)).toBe(true)
    expect(canContinue(run(placed, claimed, ended({ outcome })).state)).toBe(false)
    expect(canContinue(run(placed, claimed, ended({ outcome, sessionId: 'ses_1' })).state)).toBe(true)
  })

  test('not after its session or workspace went missing', () => {
    expect(canContinue(run(...turn, ended({ outcome: 'failed', reason: 'session_missing' })).state)).toBe(false)
  })

  test('yes when only the continuation found no place', () => {
    const idle = run(...turn, ended(), send('msg_1')).state
    const { state } = stepAgent(idle, { type: 'unplaced', reason: 'no_machine', declines: [] }, context)

    expect(agentStateOf(state)).toBe('idle')
    expect(state.home?.machine).toBe('vm1')
  })
})

describe('an agent, whatever its node says', () => {
  // Goal: one end, at most one late result, and everything decided is persisted first.
  test('ends each turn once and hands over at most one late result of an attempt', () => {
    const ids = fc.constantFrom('att_1', 'att_2', 'att_3')
    const epochs = fc.integer({ min: 1, max: 3 })
    const event = fc.oneof(
      ids.map((attemptId): AgentEvent => ({ ...placed, attemptId })),
      fc.constantFrom<AgentEvent>({ type: 'stop' }, { type: 'unplaced', reason: 'no_machine', declines: [] }, lost),
      fc.tuple(ids, epochs).map(([id, epoch]) => about({ type: 'claimed', epoch }, id)),
      fc.tuple(ids, epochs).map(([id, epoch]) => about({ type: 'started', epoch, sessionId: 'ses' }, id)),
      fc.tuple(ids, epochs).map(([id, epoch]) => about({ type: 'ended', epoch, result: result() }, id)),
      ids.map((id) => about({ type: 'lost', ground: 'keeper_gone', message: 'gone' }, id)),
      ids.map((id) => about({ type: 'superseded' }, id)),
      epochs.map((no) => send(`msg_${no}`, `tsk_${no + 1}`)),
      epochs.map((no) => messageState(`msg_${no}`, 'not_taken')),
    )

    fc.assert(
      fc.property(fc.array(event, { maxLength: 50 }), (events) => {
        let state = fresh({ tasks: [newTask({ taskId: 'tsk_1', turn: 1, textHash: 'aa', timeoutMs: 1, atMs: 1 })] })
        const delivered = new Map<string, number>()
        for (const next of events) {
          const step = stepAgent(state, next, context)
          if (step.state !== state) expect(step.effects[0]).toEqual({ type: 'persist' })
          expect(step.effects.filter((one) => one.type === 'persist').length).toBeLessThanOrEqual(1)
          for (const one of step.effects) {
            if (one.type !== 'deliver') continue
            const key = `${one.entry.taskId}/${one.entry.isLate}`
            delivered.set(key, (delivered.get(key) ?? 0) + 1)
          }
          state = step.state
        }
        for (const [key, count] of delivered) {
          if (key.endsWith('/false')) expect(count).toBe(1)
          else expect(count).toBeLessThanOrEqual(3)
        }
        expect(usageOf(state).costUsd).toBeGreaterThanOrEqual(0)
      }),
    )
  })

  test('leaves usage empty where nothing was used', () => {
    expect(usageOf(fresh())).toEqual(noUsage)
  })
})

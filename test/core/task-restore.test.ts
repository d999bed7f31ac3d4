import { describe, expect, test } from 'vitest'
import { fenceOf } from '../../src/core/attempt.ts'
import { factsOfChange } from '../../src/core/history.ts'
import type { AttemptSummary } from '../../src/core/messages.ts'
import { stepAgent } from '../../src/core/task.ts'
import { type Agent, currentTask, liveAttempt } from '../../src/core/task-record.ts'
import { adoptAttempt } from '../../src/core/task-restore.ts'
import { type AgentEvent, newTask } from '../../src/core/task-step.ts'

const context = { atMs: 5_000, deliveryId: 7 }
const home = { peerId: 'peer-vm2', machine: 'vm2' }

function queued(): Agent {
  const task = newTask({ taskId: 'tsk_1', turn: 1, textHash: 'aa', timeoutMs: 600_000, atMs: 1_000 })
  const filters = { labels: {}, requires: [] }
  return { agentId: 'agt_1', no: 1, filters, lostAfterMs: 150_000, settings: {}, startedAtMs: 1_000, tasks: [task] }
}

function run(...events: readonly AgentEvent[]): Agent {
  return events.reduce((agent, event) => stepAgent(agent, event, context).state, queued())
}

const placed: AgentEvent = { type: 'placed', attemptId: 'att_known', peerId: 'peer-vm1', machine: 'vm1' }
const doubted: AgentEvent = { type: 'attempt', attemptId: 'att_known', event: { type: 'doubted', side: 'hub' } }

function told(more: Partial<AttemptSummary> & { readonly epoch?: number } = {}): AttemptSummary {
  const { epoch = 1, ...summary } = more
  const ref = { agentId: 'agt_1', taskId: 'tsk_1', attemptId: 'att_found', epoch }
  return { ref, turn: 1, state: 'running', claimedAtMs: 2_000, ...summary }
}

function adopt(agent: Agent, summary: AttemptSummary) {
  const adopted = adoptAttempt({ agent, no: 1 }, summary, home)
  if (adopted === undefined) throw new Error('it was known')
  return adopted
}

function factsOf(previous: Agent, next: Agent) {
  return factsOfChange({ previous, next, effects: [], sha256: (text) => text })
}

describe('an attempt that only its node knows', () => {
  test('is the turn’s owner, and whoever it had been offered to before had declined it', () => {
    const before = run(placed, doubted)
    const { state, effects } = adopt(before, told({ epoch: 2 }))

    expect(liveAttempt(state)?.attemptId).toBe('att_found')
    expect(effects).toEqual([{ type: 'persist' }])
    expect(factsOf(before, state)).toMatchObject([
      { type: 'attempt_became', attemptId: 'att_known', phase: 'declined' },
      { type: 'attempt_made', attemptId: 'att_found', found: 'taken_up' },
      { type: 'attempt_became', attemptId: 'att_found', phase: 'claimed' },
    ])
  })

  test('may still be declined where its node has not answered the claim', () => {
    const { state } = adopt(queued(), told({ state: 'claimed' }))
    const decline = { epoch: 1, reason: 'disk_full', message: 'full', isPermanent: false } as const
    const step = stepAgent(
      state,
      { type: 'attempt', attemptId: 'att_found', event: { type: 'declined', ...decline } },
      context,
    )

    expect(step.effects).toContainEqual({ type: 'find_place', taskId: 'tsk_1' })
  })

  test.each([
    ['was stopped since', run({ type: 'stop' })],
    ['found no place since', run({ type: 'unplaced', reason: 'no_machine', declines: [] })],
    ['has another owner since', run(placed)],
  ])('is told to stop where its turn %s, and its result comes as a late one', (_what, before) => {
    const { state, effects } = adopt(before, told())
    const ref = { agentId: 'agt_1', taskId: 'tsk_1', attemptId: 'att_found', epoch: 1 }

    expect(effects).toEqual([
      { type: 'persist' },
      { type: 'send_stop', peerId: 'peer-vm2', stop: { type: 'stop', commandId: 'att_found.stop', ref } },
    ])
    expect(liveAttempt(state)?.attemptId).toBe(liveAttempt(before)?.attemptId)
    expect(factsOf(before, state)[0]).toMatchObject({ type: 'attempt_made', found: 'left_behind' })
    const found = currentTask(state).attempts.find(({ attemptId }) => attemptId === 'att_found')
    // Its node has to act on the stop, and on the word that its result arrived.
    expect(found === undefined ? undefined : fenceOf(found)).toBe(1)
    const result = { outcome: 'stopped', text: '', denied: [], messages: [], details: {} } as const
    const usage = { inputTokens: 0, outputTokens: 0, costUsd: 0, durationMs: 0 }
    const end = stepAgent(
      state,
      { type: 'attempt', attemptId: 'att_found', event: { type: 'ended', epoch: 1, result: { ...result, usage } } },
      context,
    )
    expect(end.effects).toMatchObject([
      { type: 'persist' },
      { type: 'deliver', entry: { isLate: true, isSuperseded: true } },
      { type: 'send_collected', peerId: 'peer-vm2' },
    ])
  })

  test('is the turn of a message that is sent or carried over once more, and of no second one', () => {
    const { state } = adopt(queued(), told())
    const again = { messageId: 'msg_1', taskId: 'tsk_1', textHash: 'aa', timeoutMs: 1 }

    expect(stepAgent(state, { type: 'send', ...again }, context)).toEqual({ state, effects: [] })
    expect(stepAgent(state, { type: 'carry_over', ...again }, context)).toEqual({ state, effects: [] })
  })

  test('keeps in mind what was written to it, so that no message is carried over to a second turn', () => {
    const { state } = adopt(queued(), told())
    const messages = [{ messageId: 'msg_taken', state: 'taken' }] as const
    const usage = { inputTokens: 0, outputTokens: 0, costUsd: 0, durationMs: 0 }
    const result = {
      outcome: 'completed',
      text: 'done',
      sessionId: 'ses_1',
      denied: [],
      messages,
      usage,
      details: {},
    } as const
    const event = { type: 'ended', epoch: 1, result } as const
    const ended = stepAgent(state, { type: 'attempt', attemptId: 'att_found', event }, context).state
    const again = { messageId: 'msg_taken', taskId: 'tsk_2', textHash: 'aa', timeoutMs: 1 }
    const other = { ...again, messageId: 'msg_other' }

    expect(stepAgent(ended, { type: 'carry_over', ...again }, context).effects).toEqual([])
    expect(stepAgent(ended, { type: 'carry_over', ...other }, context).effects).not.toEqual([])
  })
})

import { describe, expect, test } from 'vitest'
import type { Attempt } from '../../src/core/attempt.ts'
import { noUsage } from '../../src/core/model.ts'
import type { Agent, Task } from '../../src/core/task-record.ts'
import { newTask } from '../../src/core/task-step.ts'
import { AgentIndex } from '../../src/hub/agent-index.ts'

const task = newTask({ taskId: 'tsk_1', turn: 1, textHash: 'aa', timeoutMs: 1, atMs: 1 })
const end: Task['end'] = { outcome: 'completed', atMs: 2, deliveryId: 1, usage: noUsage, isSuperseded: false }
const attempt: Attempt = {
  attemptId: 'att_1',
  number: 1,
  epoch: 1,
  peerId: 'peer',
  machine: 'vm1',
  phase: 'ended',
  isSuperseded: false,
  hasLateResult: false,
}

function agent(no: number, changes: Partial<Task>): Agent {
  return {
    agentId: `agt_${no}`,
    no,
    filters: { labels: {}, requires: [] },
    lostAfterMs: 1,
    settings: {},
    startedAtMs: 1,
    tasks: [{ ...task, ...changes }],
  }
}

const names = (agents: readonly Agent[]): readonly string[] => agents.map(({ agentId }) => agentId)

describe('the index of agents', () => {
  test('keeps apart what something may still come of', () => {
    const index = new AgentIndex([
      agent(1, { end, attempts: [attempt] }),
      agent(2, { attempts: [{ ...attempt, phase: 'running' }] }),
      agent(3, { end, attempts: [{ ...attempt, phase: 'lost' }] }),
      agent(4, {}),
    ])

    expect(names(index.all())).toEqual(['agt_1', 'agt_2', 'agt_3', 'agt_4'])
    expect(names(index.open())).toEqual(['agt_2', 'agt_3', 'agt_4'])
  })

  test('follows agents that end and that go on, oldest first', () => {
    const index = new AgentIndex([agent(1, { end, attempts: [attempt] }), agent(2, {})])

    index.set(agent(2, { end, attempts: [attempt] }))
    expect(names(index.open())).toEqual([])
    index.set(agent(3, {}))
    index.set(agent(1, { attempts: [attempt] }))

    expect(names(index.open())).toEqual(['agt_1', 'agt_3'])
    expect(index.get('agt_2')?.tasks[0]?.end).toEqual(end)
    expect(index.nextNo).toBe(4)
  })

  test('counts states and what was used, also of agents that go on', () => {
    const used = { ...noUsage, inputTokens: 7, costUsd: 0.1 }
    const ended = agent(1, { end: { ...end, usage: used }, attempts: [attempt] })
    const idle: Agent = { ...ended, agentId: 'agt_9', sessionId: 's', home: { peerId: 'peer', machine: 'vm1' } }
    const index = new AgentIndex([ended, idle, agent(3, {})])

    expect(index.states(() => false)).toEqual({ closed: 1, idle: 1, queued: 1 })
    expect(index.states(() => true)).toEqual({ closed: 2, queued: 1 })
    expect(index.usage()).toMatchObject({ inputTokens: 14, costUsd: 0.2 })

    index.set({ ...idle, tasks: [...idle.tasks, { ...task, turn: 2 }] })
    expect(index.states(() => true)).toEqual({ closed: 1, queued: 2 })
    expect(index.usage()).toMatchObject({ inputTokens: 14, costUsd: 0.2 })
  })

  test('numbers the first agent 1', () => {
    expect(new AgentIndex([]).nextNo).toBe(1)
  })
})

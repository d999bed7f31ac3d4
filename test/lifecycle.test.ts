import { describe, expect, test } from 'vitest'
import type { AttemptEvent } from '../src/core/attempt.ts'
import { type AgentState, type AttemptResult, noUsage, type Stage } from '../src/core/model.ts'
import { stepAgent } from '../src/core/task.ts'
import { type Agent, agentStateOf, currentTask } from '../src/core/task-record.ts'
import { type AgentEvent, newTask } from '../src/core/task-step.ts'
import { read } from './support/sources.ts'

const page = read('docs/concepts/task-lifecycle.md')
const turnsMax = 2

/** Steps that a figure shows, as `from > to`; the points where a life begins and ends are not steps. */
function drawn(heading: string): readonly string[] {
  const figure = /```mermaid\n([\s\S]*?)```/.exec(page.split(`## ${heading}\n`)[1] ?? '')?.[1] ?? ''
  return [...figure.matchAll(/^ {2}(\w+) --> (\w+): \S.*$/gm)].map(([, from, to]) => `${from} > ${to}`).toSorted()
}

interface Step {
  readonly before: Agent
  readonly after: Agent
}

/** Every step that the function makes from a new agent on, whatever happens in whatever order, over two turns. */
function everyStep(): readonly Step[] {
  const task = newTask({ taskId: 'tsk_1', turn: 1, textHash: 'aa', timeoutMs: 1, atMs: 1 })
  const filters = { labels: {}, requires: [] }
  const first: Agent = { agentId: 'agt_1', no: 1, filters, lostAfterMs: 1, settings: {}, startedAtMs: 1, tasks: [task] }
  const made: Step[] = []
  const seen = new Set([kindOf(first)])
  const open = [first]
  for (let before = open.pop(); before !== undefined; before = open.pop()) {
    for (const event of eventsFor(before)) {
      const after: Agent = stepAgent(before, event, { atMs: 2, deliveryId: 1 }).state
      if (after === before || after.tasks.length > turnsMax) continue
      made.push({ before, after })
      if (seen.has(kindOf(after))) continue
      seen.add(kindOf(after))
      open.push(after)
    }
  }
  return made
}

/** What decides about the next step; ids, times and what was tried before do not. */
function kindOf(agent: Agent): string {
  const { turn, stage, attempts, stop, end, lateEnd, receiptId } = currentTask(agent)
  const ends = [end, lateEnd].map((one) => [one?.outcome, one?.reason])
  return JSON.stringify([turn, stage, attempts.at(-1)?.phase, stop !== undefined, ends, receiptId, agent.sessionId])
}

function eventsFor(agent: Agent): readonly AgentEvent[] {
  const { turn, nextEpoch, attempts } = currentTask(agent)
  return [
    { type: 'placed', attemptId: `att_${turn}_${nextEpoch}`, peerId: 'peer', machine: 'vm1' },
    { type: 'unplaced', reason: 'no_machine', declines: [] },
    { type: 'stop' },
    { type: 'send', messageId: `msg_${turn}`, taskId: `tsk_${turn + 1}`, textHash: 'bb', timeoutMs: 1 },
    ...attempts.slice(-1).flatMap(({ attemptId, epoch, phase }): readonly AgentEvent[] => [
      ...wordsAbout(epoch).map((event) => ({ type: 'attempt', attemptId, event }) as const),
      // A node signs what its hub has collected, and nothing before that.
      ...(phase === 'ended' ? [{ type: 'receipt', attemptId, receiptId: 'rcp_1' } as const] : []),
    ]),
  ]
}

function wordsAbout(epoch: number): readonly AttemptEvent[] {
  return [
    { type: 'claimed', epoch },
    { type: 'declined', epoch, reason: 'dir_busy', message: '', isPermanent: false },
    { type: 'started', epoch, sessionId: 'ses_1' },
    { type: 'lost', ground: 'silent', message: '' },
    ...results.map((result) => ({ type: 'ended', epoch, result }) as const),
  ]
}

const base = { text: '', denied: [], usage: noUsage, messages: [], details: {} }
const results: readonly AttemptResult[] = [
  { ...base, outcome: 'completed', sessionId: 'ses_1' },
  { ...base, outcome: 'failed', reason: 'crashed' },
  { ...base, outcome: 'failed', reason: 'session_missing' },
  { ...base, outcome: 'stopped' },
]

const steps = everyStep()

function changes<T extends Stage | AgentState>(of: (step: Step) => readonly [T, T]): readonly string[] {
  const found = steps
    .map(of)
    .filter(([from, to]) => from !== to)
    .map(([from, to]) => `${from} > ${to}`)
  return [...new Set(found)].toSorted()
}

describe('the figures of the life of a task', () => {
  test('show the stages that a task goes through, and no other way', () => {
    const ways = changes(({ before, after }) => {
      const { turn, stage } = currentTask(before)
      return [stage, after.tasks[turn - 1]?.stage ?? stage]
    })

    expect(drawn('Stages of a task')).toEqual(ways)
  })

  test('show the states that an agent goes through, and no other way', () => {
    const ways = changes(({ before, after }) => [agentStateOf(before), agentStateOf(after)])

    expect(drawn('States of an agent')).toEqual(ways)
  })
})

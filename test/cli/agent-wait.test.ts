import { afterEach, describe, expect, test, vi } from 'vitest'
import { agentList } from '../../src/cli/commands/agent-list.ts'
import { agentResult } from '../../src/cli/commands/agent-result.ts'
import { agentSpawn } from '../../src/cli/commands/agent-spawn.ts'
import { agentWait } from '../../src/cli/commands/agent-wait.ts'
import type { CliIo } from '../../src/cli/io.ts'
import { NfltrError } from '../../src/core/errors.ts'
import type { HubApi, ToolCall } from '../../src/ports/hub-api.ts'
import { scriptedHub } from '../control/scripted-hub.ts'

const nothing = { results: [], events: [], requests: [], still_running: [], unconfirmed: [], facts: { undelivered: 0 } }
const result = (deliveryId: number, more: object = {}) => ({
  delivery_id: deliveryId,
  agent_id: `agt_${deliveryId}`,
  turn: 1,
  outcome: 'completed',
  text: `text ${deliveryId}`,
  ...more,
})
const alert = (deliveryId: number, more: object = {}) => ({
  delivery_id: deliveryId,
  kind: 'alert',
  at: '2030-01-01T00:00:00.000Z',
  source: 'hub',
  text: `alert ${deliveryId}`,
  ...more,
})
const running = { agent_id: 'agt_9', state: 'running' }

/** Runs a command over a hub that gives these answers to the calls of its tool, one after the other. */
async function run(
  command: typeof agentWait,
  tool: string,
  options: { readonly answers: readonly object[]; readonly args?: readonly string[]; readonly isLost?: boolean },
) {
  const answers = [...options.answers]
  const hub = scriptedHub()
  const calls: ToolCall[] = []
  hub.answer = async (call) => {
    if (call.tool === 'get_result' && tool !== 'get_result')
      return { body: JSON.stringify({ entry: {}, text: 'the whole text' }) }
    if (call.tool !== tool) return { body: '{}' }
    calls.push(call)
    return { body: JSON.stringify(answers.shift() ?? {}) }
  }
  if (options.isLost === true) hub.confirm = () => Promise.reject(new NfltrError('link_down', 'The hub went away.'))
  const warnings: string[] = []
  const said: { document: Record<string, unknown>; text: string }[] = []
  const notes: string[] = []
  const io = {
    answer: (document: object, text: string) => void said.push({ document: { ...document }, text }),
    note: (text: string) => void notes.push(text),
    warn: (text: string) => void warnings.push(text),
    flushed: async () => undefined,
    readInput: async () => 'brief',
  } as unknown as CliIo
  const world = { io, connect: async () => hub, openReceipt: () => Promise.reject(new Error('nobody asks')) }
  await command(world).parseAsync([...(options.args ?? [])], { from: 'user' })
  const exitCode = process.exitCode
  process.exitCode = undefined
  return {
    text: said[0]?.text ?? '',
    document: said[0]?.document ?? {},
    notes,
    calls,
    exitCode,
    warnings,
    words: hub.words,
  }
}

const wait = (answers: readonly object[], ...args: readonly string[]) =>
  run(agentWait, 'wait_for_agents', { answers, args })

afterEach(() => {
  process.exitCode = undefined
})

test('a wait that is refused lets the hub go, so that it can end and others can have it', async () => {
  const release = vi.fn(async () => undefined)
  const refusal = new NfltrError('not_found', 'No agent agt_x is known to this hub.')
  const hub = {
    hold: async () => ({ release }),
    call: async () => {
      throw refusal
    },
  } as unknown as HubApi
  const command = agentWait({
    io: {} as CliIo,
    openReceipt: () => Promise.reject(new Error('nobody asks')),
    connect: async () => hub,
  })

  await expect(command.parseAsync(['agt_x'], { from: 'user' })).rejects.toBe(refusal)

  expect(release).toHaveBeenCalledOnce()
})

describe('agent wait tells people all that it confirms', () => {
  test('each entry that may not have been read, with the command that reads it', async () => {
    const unconfirmed = [
      { delivery_id: 3, kind: 'result', agent_id: 'agt_3' },
      { delivery_id: 4, kind: 'event' },
      { delivery_id: 5, kind: 'spawn', agent_id: 'agt_5' },
    ]

    const { text, words } = await wait([{ ...nothing, unconfirmed }], '--hub-id', 'hub_x')

    expect(words).toHaveLength(1)
    expect(text).toContain('result 3 of agt_3: nfltr agent result --delivery-id 3 --hub-id hub_x')
    expect(text).toContain('event 4: nfltr agent result --delivery-id 4')
    expect(text).toContain('spawn 5 of agt_5: nfltr agent result --delivery-id 5')
    expect(text).not.toContain('Nothing runs')
  })

  test('what any of several replies named, and nothing that it gives itself', async () => {
    const first = { ...nothing, results: [result(1)], facts: { undelivered: 1 } }
    const unconfirmed = [1, 7].map((deliveryId) => ({ delivery_id: deliveryId, kind: 'result', agent_id: 'agt_7' }))
    const second = { ...nothing, results: [result(2)], unconfirmed }

    const { document, text, words } = await wait([first, second])

    expect(words).toHaveLength(2)
    expect(document['results']).toMatchObject([{ delivery_id: 1 }, { delivery_id: 2 }])
    expect(document['unconfirmed']).toMatchObject([{ delivery_id: 7 }])
    expect(text).toContain('--delivery-id 7')
  })

  test('that a result is late, maybe seen or superseded, what became of its messages, and what to do', async () => {
    const marks = { late: true, maybe_seen: true, superseded: true }
    const messages = [
      { message_id: 'msg_1', state: 'taken' },
      { message_id: 'msg_2', state: 'not_taken' },
    ]
    const failed = result(1, { ...marks, messages, outcome: 'failed', reason: 'tools_not_allowed', hint: 'allow it' })

    const { text } = await wait([{ ...nothing, results: [failed, result(2)] }])

    expect(text.split('\n')).toEqual([
      '== agt_1 turn 1: failed (tools_not_allowed)',
      '   hint: allow it',
      expect.stringMatching(/^ {3}late: /),
      expect.stringMatching(/^ {3}maybe seen: /),
      expect.stringMatching(/^ {3}superseded: /),
      '   message msg_2: not taken',
      'text 1',
      '== agt_2 turn 1: completed',
      'text 2',
    ])
  })

  test('on what ground a machine counts as lost', async () => {
    const lost = result(1, { outcome: 'node_lost', machine: 'vm1', details: { ground: 'rebooted' }, text: '' })

    const { text } = await wait([{ ...nothing, results: [lost] }])

    expect(text).toContain('== agt_1 turn 1: node_lost (rebooted) on vm1')
  })

  test('that more waits, that more run, and that not every node was heard', async () => {
    const facts = { undelivered: 2, note: '30 more agents run: list_agents has them.' }
    const { text, exitCode } = await wait([{ ...nothing, still_running: [running], facts, catching_up: true }], 'agt_9')

    expect(text).toContain('still running: agt_9')
    expect(text).toContain('waiting to be read: 2')
    expect(text).toContain('30 more agents run')
    expect(text).toContain('not heard all of its nodes')
    expect(exitCode).toBe(4)
  })
})

describe('alerts', () => {
  test('come where no agent is named, whole, and are no time that ran out', async () => {
    const first = { ...nothing, events: [alert(1), alert(2, { truncated: true })], facts: { undelivered: 1 } }
    const second = { ...nothing, events: [alert(3)], still_running: [running] }

    const { text, document, calls, exitCode } = await wait([first, second])

    expect(calls).toHaveLength(2)
    for (const call of calls) expect(call.args).not.toHaveProperty('events', false)
    expect(text).toContain('== alert of hub at 2030-01-01T00:00:00.000Z\nalert 1\n')
    expect(document['events']).toMatchObject([{ text: 'alert 1' }, { text: 'the whole text' }, { text: 'alert 3' }])
    expect(exitCode).toBeUndefined()
  })

  test('stay for a wait without names where agents are named', async () => {
    const { calls, text } = await wait([{ ...nothing, facts: { undelivered: 1 } }], 'agt_1')

    expect(calls[0]?.args).toMatchObject({ agent_ids: ['agt_1'] })
    expect(calls[0]?.args).not.toHaveProperty('events', true)
    expect(text).toContain('waiting to be read: 1')
  })
})

describe('the other commands tell people what their replies hold', () => {
  test('agent result shows a spawn, and says what a text is not', async () => {
    const read = (entry: object, more: object = {}) =>
      run(agentResult, 'get_result', { answers: [{ entry, text: 'words', ...more }], args: ['agt_1', '--offset', '0'] })
    const spawn = { delivery_id: 5, kind: 'spawn', agent_id: 'agt_5', state: 'queued', machine: 'vm1' }

    expect(await read(spawn)).toMatchObject({ text: 'agt_5 queued on vm1', notes: [] })
    expect(await read(result(1))).toMatchObject({ text: 'words', notes: [] })
    expect(await read(alert(1))).toMatchObject({ text: 'words', notes: [] })
    expect((await read(result(1, { outcome: 'stopped' }))).notes[0]).toContain('stopped')
    expect((await read({ agent_id: 'agt_1', turn: 1, state: 'running' })).notes[0]).toContain('has not ended')
    expect((await read(result(1), { next_offset: 700 })).notes[0]).toContain('--offset 700')
  })

  test('agent spawn says why the agent waits', async () => {
    const note = 'Every matching machine is away; the agent waits for one within timeout_ms.'
    const { notes } = await run(agentSpawn, 'spawn_agent', {
      answers: [{ agent_id: 'agt_1', state: 'queued', facts: { note } }],
      args: ['--brief-file', '-'],
    })

    expect(notes).toEqual([note])
  })

  test('agent list says that there are more', async () => {
    const { notes } = await run(agentList, 'list_agents', { answers: [{ agents: [], next_cursor: 'c1' }] })

    expect(notes).toEqual(['There are more: --cursor c1'])
  })
})

describe('a hub that goes away between an answer and its confirmation', () => {
  test.each([
    ['spawn', agentSpawn, 'spawn_agent', { agent_id: 'agt_1', state: 'queued' }, ['--brief-file', '-']],
    ['list', agentList, 'list_agents', { agents: [] }, []],
    ['result', agentResult, 'get_result', { entry: {}, text: 'all' }, ['agt_1']],
    ['wait', agentWait, 'wait_for_agents', { ...nothing, results: [result(1)] }, []],
  ])('leaves the answer of `agent %s` and its exit code as they are', async (_name, command, tool, answer, args) => {
    const { document, warnings, exitCode } = await run(command, tool, { answers: [answer], args, isLost: true })

    expect(document).toMatchObject(answer)
    expect(warnings).toEqual([expect.stringContaining('The hub went away.')])
    expect(exitCode).toBeUndefined()
  })
})

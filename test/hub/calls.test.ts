import { describe, expect, test } from 'vitest'
import { toolOutputs } from '../../src/control/schema/tool-outputs.ts'
import { limits } from '../../src/core/limits.ts'
import type { ToolName } from '../../src/ports/hub-api.ts'
import { settle } from '../contracts/manual-clock.ts'
import { completed } from './support/scripted-node.ts'
import { TwinHub } from './support/twin-hub.ts'

describe('arguments', () => {
  test.each([
    ['spawn_agent', 'brief', {}],
    ['spawn_agent', 'brief', { brief: '' }],
    ['spawn_agent', 'brief', { brief: 'a\0b' }],
    ['spawn_agent', 'brief', { brief: 'a\ud800b' }],
    ['spawn_agent', 'brief', { brief: 'x'.repeat(limits.briefMaxBytes + 1) }],
    ['spawn_agent', 'labels', { brief: 'x', labels: { zone: 1 } }],
    ['spawn_agent', 'machines', { brief: 'x', machines: 'vm1' }],
    ['wait_for_agents', 'max_bytes', { max_bytes: 10 }],
    ['wait_for_agents', 'mode', { mode: 'some' }],
    ['send_message', 'text', { agent_id: 'agt_1' }],
    ['stop_agent', 'agent_id', {}],
    ['get_result', 'turn', { turn: 0 }],
    ['get_result', 'turn', { turn: 1, delivery_id: 1 }],
    ['list_agents', 'state', { state: ['asleep'] }],
    ['list_nodes', 'cursor', { cursor: 1 }],
  ] as const)('%s names its argument %s', async (tool, argument, args) => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })

    await expect(twin.ask(tool, { ...args })).rejects.toMatchObject({ code: 'invalid_argument', details: { argument } })
    expect(await twin.ask('list_agents', {})).toEqual({ agents: [] })
  })

  test.each([
    ['1 byte', () => 'x'],
    ['1 MiB', () => 'x'.repeat(limits.briefMaxBytes)],
    ['50,000 CJK characters', () => '漢'.repeat(50_000)],
  ])('a brief of %s arrives unchanged', async (_, text) => {
    const brief = text()
    const twin = await TwinHub.withNodes({ name: 'vm1' })

    await twin.spawn({ brief })
    await settle(100)

    expect(twin.node('vm1').claims[0]?.request.brief === brief).toBe(true)
  })

  test.each([
    [{ labels: { '': 'v' } }, 'spawn_agent: labels: has a name that is empty'],
    [{ labels: { ['k'.repeat(100)]: 'v' } }, 'spawn_agent: labels: has a name that is longer than 63 bytes of UTF-8'],
    [{ brief: '' }, 'spawn_agent: brief: is empty'],
    [{ title: 5 }, 'spawn_agent: title: has to be text'],
    [{ max_turns: 1.5 }, 'spawn_agent: max_turns: has to be a whole number'],
    [{ max_turns: 0 }, 'spawn_agent: max_turns: has to be more than 0'],
    [{ timeout_ms: -1 }, 'spawn_agent: timeout_ms: has to be at least 0'],
  ])('what is wrong with %j is said in our words', async (args, message) => {
    const twin = await TwinHub.withNodes()

    await expect(twin.ask('spawn_agent', { brief: 'one', ...args })).rejects.toMatchObject({
      code: 'invalid_argument',
      message,
    })
  })

  test('an unknown tool is refused by name', async () => {
    const twin = await TwinHub.withNodes()

    await expect(twin.ask('guess' as ToolName, {})).rejects.toMatchObject({ code: 'unknown_tool' })
  })
})

describe('replies', () => {
  test('have the shapes that tools/list publishes', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 3 })
    const node = twin.node('vm1')
    const one = await twin.spawn({ title: 'one' })
    const two = await twin.spawn()
    await settle()
    const [claim] = node.claims
    if (claim === undefined) throw new Error('no claim came')
    await node.end(claim.ref, completed('done', { messages: [{ messageId: 'msg_1', state: 'taken' }] }))
    const check = async (tool: Exclude<ToolName, 'stop_agent'>, args: Record<string, unknown>): Promise<void> => {
      const shape = toolOutputs[tool]
      expect(shape.safeParse(await twin.read(tool, args)).error).toBeUndefined()
    }

    await check('spawn_agent', { brief: 'three', requires: ['gpu'] })
    await check('wait_for_agents', {})
    await check('get_result', { agent_id: one.agent_id })
    await check('get_result', { agent_id: two.agent_id })
    await check('send_message', { agent_id: two.agent_id, text: 'x' })
    await check('list_agents', {})
    await check('list_nodes', {})
    const stopped = twin.ask('stop_agent', { agent_id: two.agent_id })
    await settle()
    await twin.clock.advance(12_000)
    expect(toolOutputs.stop_agent.safeParse(await stopped).error).toBeUndefined()
  })

  test('hold no null and no key without a value', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    await twin.spawn()
    await settle()

    for (const tool of ['list_agents', 'list_nodes'] as const) {
      expect((await twin.call(tool, {})).body).not.toContain('null')
    }
    expect((await twin.call('wait_for_agents', { timeout_ms: 0 })).body).not.toContain('null')
  })
})

describe('holding the hub', () => {
  const other = { pid: 200, host: 'desk', since: '2024-01-01T00:00:00.000Z', sessionKey: 'other' }

  test('is for one session at a time, and a refusal names the holder', async () => {
    const twin = await TwinHub.withNodes()

    await expect(twin.hub.hold(other)).rejects.toMatchObject({
      code: 'hub_held',
      details: { pid: 100, host: 'laptop', since: '2023-11-14T22:13:20.000Z' },
    })
    await (await twin.hold()).release()
    await expect(twin.hub.hold(other)).resolves.toBeDefined()
  })

  test('lets the same session take it again, and only the newest hold release it', async () => {
    const twin = await TwinHub.withNodes()
    const first = await twin.hold()
    await twin.hold()

    await first.release()

    await expect(twin.hub.hold(other)).rejects.toMatchObject({ code: 'hub_held' })
  })

  test('is needed to wait, and for nothing else', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    const beside = { sessionKey: 'shell' }

    await expect(twin.ask('wait_for_agents', {}, beside)).rejects.toMatchObject({
      code: 'hub_held',
      details: { pid: 100 },
    })
    const spawned = await twin.spawn({}, beside)
    await settle()
    expect(await twin.ask('send_message', { agent_id: spawned.agent_id, text: 'x' }, beside)).toMatchObject({
      how: 'running_turn',
    })
    await (await twin.hold()).release()
    await expect(twin.ask('wait_for_agents', {}, beside)).rejects.toMatchObject({ code: 'hub_held' })
    await twin.hold('session-2')
    expect((await twin.wait({ timeout_ms: 0 })).unconfirmed).toEqual([])
  })
})

describe('the life of a hub', () => {
  test('is idle since its last agent ended and its session left', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    const hold = await twin.hold()
    expect(twin.hub.idleSince).toBeUndefined()
    await twin.spawn()
    await settle()
    await hold.release()
    expect(twin.hub.idleSince).toBeUndefined()

    await twin.clock.advance(2_000)
    const [claim] = twin.node('vm1').claims
    if (claim !== undefined) await twin.node('vm1').end(claim.ref, completed('done'))
    await settle()
    const sinceMs = twin.hub.idleSince
    await twin.clock.advance(5_000)

    expect(sinceMs).toBe(3_000)
    expect(twin.hub.idleSince).toBe(sinceMs)
    await twin.hold()
    expect(twin.hub.idleSince).toBeUndefined()
  })

  test('ends when it is told to, and leaves its agents running', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    await twin.spawn()
    await settle()

    await twin.hub.stop()
    await twin.hub.run()
    await twin.hub.close()
    await settle()

    expect(twin.node('vm1').heard.map((message) => message.type)).toEqual(['claim'])
    expect(twin.clock.pending).toBe(0)
  })

  test('ends when its store fails', async () => {
    const twin = await TwinHub.withNodes()
    const ended = expect(twin.hub.run()).rejects.toMatchObject({ code: 'disk_full' })

    twin.store.failNext({ code: 'disk_full', survives: false })
    await expect(twin.spawn()).rejects.toMatchObject({ code: 'disk_full' })
    await ended
  })

  test('has no timer but the tick while nothing runs and no link is up', async () => {
    const twin = await TwinHub.withNodes()
    const atStart = twin.clock.pending
    await twin.clock.advance(60_000)

    expect(atStart).toBe(1)
    expect(twin.clock.pending).toBe(1)
  })
})

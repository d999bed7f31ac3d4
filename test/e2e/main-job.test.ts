import { writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { untilRuns } from './agent-states.ts'
import { type McpSession, openSession } from './mcp-client.ts'
import { type MeshOfTwo, meshOfTwo } from './mesh-of-two.ts'

interface Entry {
  readonly agent_id: string
  readonly delivery_id: number
  readonly outcome: string
  readonly text: string
  readonly next_offset?: number
  readonly reason?: string
}

const entries = (reply: Record<string, unknown>): readonly Entry[] => reply['results'] as readonly Entry[]

describe('two machines', () => {
  let mesh: MeshOfTwo
  let session: McpSession
  beforeAll(async () => {
    mesh = await meshOfTwo()
    session = await openSession(mesh.hub)
  }, 60_000)
  afterAll(async () => {
    await session?.close()
    await mesh?.[Symbol.asyncDispose]()
  })

  test('run one agent and deliver its answer byte for byte, once', async () => {
    const answer = Array.from({ length: 26 }, (_, index) => `line ${index + 1} ünïcode ✓`).join('\n')
    await mesh.play({
      'count to 26': [{ tool: 'Write', input: { file_path: 'result.txt', content: answer } }, { say: answer }],
    })

    const spawned = await session.tool('spawn_agent', { brief: 'count to 26', machine: 'vm1' })
    const reply = await session.tool('wait_for_agents', { agent_ids: [spawned['agent_id']] })
    const again = await session.tool('wait_for_agents', {})

    expect(entries(reply)).toHaveLength(1)
    expect(entries(reply)[0]).toMatchObject({ agent_id: spawned['agent_id'], outcome: 'completed', text: answer })
    expect(entries(again)).toHaveLength(0)
    expect(again['unconfirmed']).toEqual([])
    const read = await session.tool('get_result', { agent_id: spawned['agent_id'] })
    expect(read['text']).toBe(answer)
  }, 60_000)

  test('page an answer of 5 MiB byte for byte', async () => {
    const answer = 'abcdefghijklmnopqrstuvwxyz✓é\n'.repeat(160_000)
    await mesh.play({ 'long answer': [{ say: answer }] })

    const spawned = await session.tool('spawn_agent', { brief: 'long answer' })
    const reply = await session.tool('wait_for_agents', { agent_ids: [spawned['agent_id']] })

    const [entry] = entries(reply)
    let text = entry?.text ?? ''
    let offset = entry?.next_offset
    while (offset !== undefined) {
      const page = await session.tool('get_result', { agent_id: spawned['agent_id'], offset, max_bytes: 200_000 })
      text += String(page['text'])
      offset = page['next_offset'] as number | undefined
    }
    expect(text.length).toBe(answer.length)
    expect(text === answer).toBe(true)
  }, 60_000)

  test('steer a running agent, continue an idle one, stop another', async () => {
    await mesh.play({
      'wait for word': [{ wait_for_message: true }, { say: 'heard you' }],
      'and now more': [{ say: 'second turn' }],
      'hang for ever': [{ say: 'started' }, { hang: true }],
    })
    const steered = await session.tool('spawn_agent', { brief: 'wait for word' })
    const stopped = await session.tool('spawn_agent', { brief: 'hang for ever' })

    await untilRuns(session, stopped['agent_id'])
    const sent = await session.tool('send_message', { agent_id: steered['agent_id'], text: 'the word' })
    const first = await session.tool('wait_for_agents', { agent_ids: [steered['agent_id']] })
    const more = await session.tool('send_message', { agent_id: steered['agent_id'], text: 'and now more' })
    const second = await session.tool('wait_for_agents', { agent_ids: [steered['agent_id']] })
    const stop = await session.tool('stop_agent', { agent_id: stopped['agent_id'] })
    const third = await session.tool('wait_for_agents', { agent_ids: [stopped['agent_id']] })

    expect(['running_turn', 'held']).toContain(sent['how'])
    expect(entries(first)[0]).toMatchObject({ outcome: 'completed', text: 'heard you' })
    expect(more['how']).toBe('new_turn')
    expect(entries(second)[0]).toMatchObject({ outcome: 'completed', text: 'second turn', turn: 2 })
    expect(stop['receipt']).toMatchObject({ turn_status: 'interrupted', process_exited: true })
    expect(entries(third)[0]).toMatchObject({ outcome: 'stopped' })
  }, 60_000)

  test('name twenty agents that end together in one reply', async () => {
    await mesh.play({ quick: [{ say: 'done' }] })
    const ids: unknown[] = []
    for (let index = 0; index < 20; index++)
      ids.push((await session.tool('spawn_agent', { brief: 'quick' }))['agent_id'])

    const waiting = session.tool('wait_for_agents', { agent_ids: ids, mode: 'all', max_bytes: 200_000 })
    // Whatever is on its way meanwhile, nobody is accused of it.
    const audits = [await mesh.hub.json(['audit']), await mesh.hub.json(['audit'])]
    const reply = await waiting

    for (const audit of audits) {
      expect(audit).toMatchObject({ ok: true, checked: { nodes: 1, nodes_not_asked: [] }, violations: [] })
    }
    expect(
      entries(reply)
        .map((entry) => entry.agent_id)
        .sort(),
    ).toEqual(ids.sort())
  }, 120_000)

  test('leave a history that an audit finds clean, with each result accepted once and delivered once', async () => {
    const audit = await mesh.hub.json(['audit'])

    expect(audit).toMatchObject({ ok: true, checked: { nodes: 1, nodes_not_asked: [] }, violations: [] })
    const agents = audit['agents'] as { results: { accepted: number; delivered: number; accepted_at: string }[] }[]
    const results = agents.flatMap((agent) => agent.results)
    expect(results.length).toBeGreaterThan(0)
    expect(results.filter(({ accepted, delivered }) => accepted !== 1 || delivered !== 1)).toEqual([])
    const { code, stdout, stderr } = await mesh.node.run(['audit', '--json'])
    expect(code).not.toBe(0)
    expect(stdout + stderr).toContain('not_found')
  }, 60_000)

  test('refuse a second session while the first one holds the hub', async () => {
    await session.tool('list_nodes', {})
    const second = await openSession(mesh.hub)

    const refusal = await second.refused('list_agents', {})

    expect(refusal.code).toBe('hub_held')
    expect(refusal.details['pid']).toBe(session.pid)
    await second.close()
  }, 60_000)
})

// Each starts a dozen processes, one after the other, on a machine that may do more than this.
describe('a killed', () => {
  test('node that is started again takes its agents over, and each gives one result', async () => {
    await using mesh = await meshOfTwo()
    const go = `${mesh.hub.home}-go`
    await mesh.play({ 'wait for go': [{ say: 'before' }, { wait_for_file: go }, { say: 'after' }] })
    const session = await openSession(mesh.hub)
    const spawned = await session.tool('spawn_agent', { brief: 'wait for go' })
    await untilRuns(session, spawned['agent_id'])

    mesh.running().kill('SIGKILL')
    await mesh.running().finished
    const alone = await mesh.hub.json(['audit'])
    await mesh.restartNode()
    await writeFile(go, '')
    const reply = await session.tool('wait_for_agents', { agent_ids: [spawned['agent_id']] })

    expect(entries(reply)).toHaveLength(1)
    expect(entries(reply)[0]).toMatchObject({ outcome: 'completed', text: 'after' })
    await session.close()
    expect(alone).toMatchObject({ ok: true, checked: { nodes: 0, nodes_not_asked: ['vm1'] }, violations: [] })
    expect(await mesh.hub.json(['audit'])).toMatchObject({ ok: true, checked: { nodes: 1 }, violations: [] })
  }, 120_000)

  test('hub and adapter leave the result for the next session, once', async () => {
    await using mesh = await meshOfTwo()
    const go = `${mesh.hub.home}-go`
    await mesh.play({ 'wait for go': [{ wait_for_file: go }, { say: 'kept' }] })
    const session = await openSession(mesh.hub)
    const spawned = await session.tool('spawn_agent', { brief: 'wait for go' })
    await untilRuns(session, spawned['agent_id'])

    process.kill(session.pid, 'SIGKILL')
    process.kill(await hubPid(mesh), 'SIGKILL')
    await writeFile(go, '')
    const next = await openSession(mesh.hub)
    const reply = await next.tool('wait_for_agents', {})

    const results = entries(reply).filter((entry) => entry.agent_id === spawned['agent_id'])
    expect(results).toHaveLength(1)
    expect(results[0]).toMatchObject({ outcome: 'completed', text: 'kept' })
    await next.close()
    expect(await mesh.hub.json(['audit'])).toMatchObject({ ok: true, violations: [] })
  }, 120_000)
})

async function hubPid(mesh: MeshOfTwo): Promise<number> {
  const status = await mesh.hub.json(['hub', 'status'])
  return status['pid'] as number
}

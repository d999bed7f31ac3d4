import { afterAll, beforeAll, expect, test } from 'vitest'
import { untilRuns } from './agent-states.ts'
import { type McpSession, openSession } from './mcp-client.ts'
import { type MeshOfTwo, meshOfTwo } from './mesh-of-two.ts'

type Fields = Readonly<Record<string, unknown>>

let mesh: MeshOfTwo
const sessions: McpSession[] = []
beforeAll(async () => {
  mesh = await meshOfTwo()
  await mesh.play({ 'work of one project': [{ wait_for_message: true }, { say: 'done' }] })
  sessions.push(await openSession(mesh.hub, { args: ['--hub-id', 'project-1'] }))
  sessions.push(await openSession(mesh.hub, { args: ['--hub-id', 'project-2'] }))
}, 60_000)
afterAll(async () => {
  for (const session of sessions) await session.close()
  await mesh?.[Symbol.asyncDispose]()
})

test('two hubs on one machine see nothing of each other but the slots that are taken', async () => {
  const [one, other] = sessions
  if (one === undefined || other === undefined) throw new Error('no sessions')
  const { agent_id } = await one.tool('spawn_agent', { brief: 'work of one project', machine: 'vm1' })
  await untilRuns(one, agent_id)

  const list = await other.tool('list_agents', {})
  const waited = await other.tool('wait_for_agents', { timeout_ms: 500 })
  const refusals = await Promise.all([
    other.refused('get_result', { agent_id }),
    other.refused('get_result', { delivery_id: 1 }),
    other.refused('send_message', { agent_id, text: 'from another project' }),
    other.refused('stop_agent', { agent_id }),
  ])
  const free = async (): Promise<unknown> =>
    ((await other.tool('list_nodes', {}))['nodes'] as readonly Fields[]).find(({ name }) => name === 'vm1')?.[
      'free_slots'
    ]
  await expect.poll(free, { timeout: 30_000, interval: 100 }).toBe(3)
  await one.tool('send_message', { agent_id, text: 'go on' })
  const results = await one.tool('wait_for_agents', { agent_ids: [agent_id] })

  expect(list['agents']).toEqual([])
  expect(waited).toMatchObject({ results: [], events: [], still_running: [], unconfirmed: [] })
  expect(refusals.map(({ code }) => code)).toEqual(['not_found', 'not_found', 'not_found', 'not_found'])
  expect(results['results']).toMatchObject([{ agent_id, outcome: 'completed', text: 'done' }])
  expect((await other.tool('wait_for_agents', {}))['results']).toEqual([])
}, 90_000)

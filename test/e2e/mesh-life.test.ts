import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type McpSession, openSession } from './mcp-client.ts'
import { type MeshOfTwo, meshOfTwo } from './mesh-of-two.ts'

type Entry = Record<string, unknown>
const members = async (mesh: MeshOfTwo): Promise<readonly Entry[]> =>
  (await mesh.hub.json(['mesh', 'members']))['members'] as readonly Entry[]

describe('a member that is revoked while its agent works', () => {
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

  test('is cut off, its agent is lost at once, and it is told apart in the list', async () => {
    await mesh.play({ 'work for ever': [{ hang: true }] })
    const { agent_id } = await session.tool('spawn_agent', { brief: 'work for ever', machine: 'vm1' })
    await expect.poll(async () => (await agentOf(session, agent_id))?.['state'], { timeout: 20_000 }).toBe('running')

    const unknown = await mesh.hub.run(['mesh', 'revoke', 'vm9', '--json'])
    const revoked = await mesh.hub.json(['mesh', 'revoke', 'vm1'])
    const reply = await session.tool('wait_for_agents', { agent_ids: [agent_id], timeout_ms: 20_000 })

    expect(unknown.code).toBe(1)
    expect(revoked).toMatchObject({
      revoked: { name: 'vm1', roles: ['node'] },
      version: 1,
      confirmed: [{ name: 'laptop' }],
      unconfirmed: [],
    })
    expect(reply['results']).toMatchObject([{ agent_id, outcome: 'node_lost', details: { ground: 'member_gone' } }])
    expect(await members(mesh)).toContainEqual(expect.objectContaining({ name: 'vm1', state: 'revoked' }))
    expect((await session.tool('list_nodes', {}))['nodes']).not.toContainEqual(expect.objectContaining({ name: 'vm1' }))
  }, 90_000)

  test('cannot revoke anybody itself', async () => {
    const refused = await mesh.node.run(['mesh', 'revoke', 'laptop', '--json'])

    expect(refused.code).toBe(3)
    expect(JSON.parse(refused.stdout)).toMatchObject({ error: { code: 'not_owner' } })
  })
})

async function agentOf(session: McpSession, agentId: unknown): Promise<Entry | undefined> {
  const { agents } = await session.tool('list_agents', {})
  return (agents as readonly Entry[]).find((agent) => agent['agent_id'] === agentId)
}

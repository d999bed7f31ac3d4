import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { untilRuns } from './agent-states.ts'
import { type Machine, newMachine } from './machine.ts'
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
    await untilRuns(session, agent_id)

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

describe('a machine without an invite', () => {
  let owner: Machine
  let newcomer: Machine
  beforeAll(async () => {
    owner = await newMachine()
    newcomer = await newMachine()
  })
  afterAll(async () => {
    await newcomer?.[Symbol.asyncDispose]()
    await owner?.[Symbol.asyncDispose]()
  })

  test('is let in by the fingerprint that its owner types, becomes an owner, and outlives the first one', async () => {
    const { mesh_fingerprint } = await owner.json(['mesh', 'create', '--name', 'laptop'])
    const serving = owner.start(['mesh', 'serve'])
    const { listen } = await serving.event('ready')
    const [address] = listen as readonly string[]
    const at = ['--peer', String(address).replace(/\/p2p\/.*/, '')]

    const blind = await newcomer.run(['mesh', 'join', ...at, '--json'])
    const wrong = await newcomer.run(['mesh', 'join', ...at, '--mesh', `SHA256:${'0'.repeat(64)}`, '--json'])
    const joining = newcomer.start(['mesh', 'join', ...at, '--mesh', String(mesh_fingerprint), '--name', 'desk'])
    const knocking = await joining.event('knocking')
    const { pending } = await owner.json(['mesh', 'pending'])
    const short = await owner.run(['mesh', 'approve', String(knocking['fingerprint']).slice(0, 30), '--json'])
    const approved = await owner.json(['mesh', 'approve', String(knocking['fingerprint']), '--role', 'hub'])
    const joined = await joining.event('joined')

    expect([blind.code, wrong.code, short.code]).toEqual([3, 3, 2])
    expect(JSON.parse(wrong.stdout)).toMatchObject({ error: { code: 'wrong_mesh' } })
    expect(pending).toMatchObject([{ fingerprint: knocking['fingerprint'], name: 'desk' }])
    expect(approved).toMatchObject({ approved: { name: 'desk', roles: ['hub'] }, issuer_running: true })
    expect(joined).toMatchObject({ machine: 'desk', roles: ['hub'] })

    // Somebody is there to hear of it, and nothing has to be waited for in vain.
    const listening = newcomer.start(['hub', 'serve'])
    await listening.event('ready')
    const promoted = await owner.json(['mesh', 'promote', 'desk'])
    const renewed = await owner.json(['mesh', 'renew', 'desk'])
    expect(promoted).toMatchObject({ promoted: { name: 'desk', roles: ['hub', 'owner'] } })
    expect(renewed).toMatchObject({ renewed: { name: 'desk', roles: ['hub', 'owner'] } })
    for (const process of [listening, serving]) process.kill()
    await Promise.all([listening.finished, serving.finished])
  }, 120_000)

  test('takes the key over from the recovery file of a machine that was lost, and revokes that', async () => {
    const file = join(owner.home, '..', 'recovery.json')
    const exported = await owner.json(['mesh', 'key', 'export', file, '--passphrase-file', '-'], { input: passphrase })
    const wrong = await newcomer.run(['mesh', 'key', 'import', file, '--passphrase-file', '-'], { input: 'wrong' })
    const imported = await newcomer.json(['mesh', 'key', 'import', file, '--passphrase-file', '-'], {
      input: `${passphrase}\n`,
    })
    const revoked = await newcomer.json(['mesh', 'revoke', 'laptop'])

    expect(exported).toMatchObject({ file })
    expect(wrong.code).toBe(2)
    expect(imported).toMatchObject({ machine: 'desk', mesh_id: exported['mesh_id'] })
    expect(revoked).toMatchObject({ revoked: { name: 'laptop' }, confirmed: [{ name: 'desk' }], unconfirmed: [] })
    expect((await newcomer.json(['mesh', 'show']))['is_owner']).toBe(true)
  }, 90_000)
})

const passphrase = 'correct horse battery staple'

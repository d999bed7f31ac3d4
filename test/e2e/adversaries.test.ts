import { existsSync, readFileSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Machine, newMachine, repository } from './machine.ts'
import { type McpSession, openSession } from './mcp-client.ts'
import { joinedNode, type MeshOfTwo, meshOfTwo } from './mesh-of-two.ts'

type Fields = Readonly<Record<string, unknown>>

const list = (reply: Fields, name: string): readonly Fields[] => reply[name] as readonly Fields[]
const soon = { timeout: 40_000, interval: 200 }

/** A copy on another machine holds no lock of this one. */
const isKept = (file: string): boolean => !/(?:\/run|\/LOCK|\.lock\.\d+|\/holder\.json)$/.test(file)

/** What strangers and former members try with real processes: each is refused, or does no harm. */
describe('a mesh', () => {
  let mesh: MeshOfTwo
  let session: McpSession
  let world: string
  const others: Machine[] = []
  beforeAll(async () => {
    mesh = await meshOfTwo({ nodeFlags: ['--max-agents', '4', '--allow-all-tools'] })
    session = await openSession(mesh.hub)
    world = join(mesh.hub.project, '..', 'world')
    const deed = (brief: string): object => ({ tool: 'Bash', input: { command: `echo "${brief} $PWD" >> '${world}'` } })
    await mesh.play({
      'work at 1970': [deed('at 1970'), { say: 'done' }],
      'work of the right one': [deed('right one'), { say: 'done' }],
      'work of a third machine': [deed('third'), { say: 'done' }],
      'work of the revoked': [deed('revoked'), { hang: true }],
      'work for the old name': [deed('old name'), { say: 'done' }],
    })
  }, 90_000)
  afterAll(async () => {
    await session?.close()
    for (const machine of others) await machine[Symbol.asyncDispose]()
    await mesh?.[Symbol.asyncDispose]()
  })

  const machine = async (env: Readonly<Record<string, string>> = {}): Promise<Machine> => {
    const made = await newMachine({ env })
    others.push(made)
    return made
  }
  const deeds = (name: string): readonly string[] =>
    (existsSync(world) ? readFileSync(world, 'utf8') : '').split('\n').filter((line) => line.startsWith(`${name} `))
  const nodesOf = async (of: McpSession): Promise<readonly Fields[]> => list(await of.tool('list_nodes', {}), 'nodes')
  const stateOf = async (of: McpSession, name: string): Promise<unknown> =>
    (await nodesOf(of)).find((node) => node['name'] === name)?.['state']

  test('keeps a member whose clock is at 1970', async () => {
    // Whoever starts anew finds the others where they were last.
    await expect.poll(() => stateOf(session, 'vm1'), soon).toBe('online')
    const clock = join(repository, 'test/fixtures/wall-at-1970.mjs')
    mesh.running().kill()
    await mesh.running().finished
    const node = await mesh.restartNode({ env: { NODE_OPTIONS: `--import=${clock}` } })
    await expect.poll(() => stateOf(session, 'vm1'), soon).toBe('online')

    const { agent_id } = await session.tool('spawn_agent', { brief: 'work at 1970', machine: 'vm1' })
    const reply = await session.tool('wait_for_agents', { agent_ids: [agent_id] })
    node.kill()
    await node.finished
    await mesh.restartNode()

    expect(reply['results']).toMatchObject([{ outcome: 'completed', text: 'done' }])
    expect(deeds('at 1970')).toHaveLength(1)
  }, 120_000)

  test('has one machine where one was copied and both are up', async () => {
    await expect.poll(() => stateOf(session, 'vm1'), soon).toBe('online')
    const clone = await machine({ ANTHROPIC_API_KEY: 'sk-ant-test-0000' })
    await cp(mesh.node.home, clone.home, { recursive: true, filter: isKept })
    const twin = clone.start(['node', 'join', '--claude', join(mesh.node.project, '..', 'claude'), '--max-agents', '4'])
    await twin.event('ready')

    const refusals = async (): Promise<unknown> =>
      JSON.stringify(await clone.json(['doctor']).catch((error: unknown) => String(error)))
    await expect.poll(refusals, soon).toContain('duplicate_identity')
    const { agent_id } = await session.tool('spawn_agent', { brief: 'work of the right one', machine: 'vm1' })
    const reply = await session.tool('wait_for_agents', { agent_ids: [agent_id] })
    twin.kill()
    await twin.finished

    expect(reply['results']).toMatchObject([{ outcome: 'completed', text: 'done' }])
    expect(deeds('right one')).toEqual([expect.stringContaining(mesh.node.home)])
  }, 120_000)

  test('gives a machine that knocked for the role of a hub what its owner typed', async () => {
    const show = await mesh.hub.json(['mesh', 'show'])
    const newcomer = await machine()
    const at = (show['listen'] as readonly string[]).flatMap((address) => ['--peer', address.replace(/\/p2p\/.*/, '')])
    const joining = newcomer.start([
      'mesh',
      'join',
      ...at,
      '--mesh',
      String(show['mesh_fingerprint']),
      '--name',
      'desk2',
    ])
    const { fingerprint } = await joining.event('knocking')
    const { pending } = await mesh.hub.json(['mesh', 'pending'])
    await mesh.hub.json(['mesh', 'approve', String(fingerprint)])
    const joined = await joining.event('joined')
    const refused = await newcomer.run(['agent', 'spawn', '--brief-file', '-', '--json'], { input: 'work for itself' })

    expect(pending).toMatchObject([{ fingerprint, roles: ['hub'] }])
    expect(joined).toMatchObject({ machine: 'desk2', roles: ['node'] })
    expect(refused.code).toBe(3)
    expect(JSON.parse(refused.stdout)).toMatchObject({ error: { code: 'wrong_role' } })
  }, 120_000)

  test('serves a hub on a third machine, which learns it from its roster, until that is revoked: then also at a node that was off', async () => {
    const desk = await machine()
    const inviting = mesh.hub.start(['mesh', 'invite', '--role', 'hub', '--name', 'desk'])
    const { invite } = await inviting.event('invite')
    await desk.json(['mesh', 'join', '--invite-file', '-'], { input: String(invite) })
    await inviting.finished
    const third = await openSession(desk)
    await expect.poll(() => stateOf(third, 'vm1'), soon).toBe('online')
    const { agent_id } = await third.tool('spawn_agent', { brief: 'work of a third machine' })
    const served = await third.tool('wait_for_agents', { agent_ids: [agent_id] })
    const ofTheFirst = await session.tool('list_agents', {})

    mesh.running().kill()
    await mesh.running().finished
    const revoked = await mesh.hub.json(['mesh', 'revoke', 'desk'])
    await mesh.restartNode()
    // The first who reaches it decides what it knows: it hears of the revocation with the hello of whoever has heard of it.
    await expect.poll(() => stateOf(session, 'vm1'), soon).toBe('online')
    await expect.poll(() => stateOf(third, 'vm1'), soon).not.toBe('online')
    const late = await third
      .tool('spawn_agent', { brief: 'work of the revoked', timeout_ms: 5_000 })
      .catch((e: unknown) => ({ error: String(e) }))
    const ended = await third
      .tool('wait_for_agents', { timeout_ms: 25_000 })
      .catch((e: unknown) => ({ error: String(e) }))
    const status = await mesh.node.json(['node', 'status'])

    expect(served['results']).toMatchObject([{ outcome: 'completed', text: 'done', machine: 'vm1' }])
    expect(list(ofTheFirst, 'agents').map((agent) => agent['agent_id'])).not.toContain(agent_id)
    expect(list(revoked, 'unconfirmed').map(({ name }) => name)).toContain('vm1')
    expect(late).toMatchObject({ state: 'queued' })
    expect(ended).toMatchObject({ results: [{ outcome: 'rejected' }] })
    expect(status['agents']).toEqual([])
    expect(deeds('revoked')).toEqual([])
    await third.close()
  }, 180_000)

  test('runs nothing on a machine that got the name for which a spawn waited', async () => {
    mesh.running().kill()
    await mesh.running().finished
    const { agent_id, state } = await session.tool('spawn_agent', { brief: 'work for the old name', machine: 'vm1' })
    const scenario = join(mesh.hub.project, '..', 'scenario.json')
    await using successor = await joinedNode(mesh.hub, {
      name: 'vm1',
      replaces: 'vm1',
      scenario,
      flags: ['--allow-all-tools'],
    })
    const reply = await session.tool('wait_for_agents', { agent_ids: [agent_id] })
    await expect.poll(() => stateOf(session, 'vm1'), soon).toBe('online')

    expect(state).toBe('queued')
    expect(reply['results']).toMatchObject([{ outcome: 'rejected', reason: 'machine_changed' }])
    expect(deeds('old name')).toEqual([])
    expect(successor.name).toBe('vm1')
  }, 120_000)
})

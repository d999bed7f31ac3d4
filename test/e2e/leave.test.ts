import { existsSync, watch } from 'node:fs'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { agentOf, untilRuns } from './agent-states.ts'
import type { Finished } from './machine.ts'
import { type McpSession, openSession } from './mcp-client.ts'
import { type MeshOfTwo, meshOfTwo } from './mesh-of-two.ts'

type Entry = Record<string, unknown>

const stateOf = async (mesh: MeshOfTwo): Promise<unknown> => {
  const { members } = await mesh.hub.json(['mesh', 'members'])
  return (members as readonly Entry[]).find(({ name }) => name === 'vm1')?.['state']
}
const errorOf = ({ stdout }: Finished): Entry => (JSON.parse(stdout) as { error: Entry }).error

/** Starts an agent that works until it is stopped. */
async function busyAgent(mesh: MeshOfTwo, session: McpSession): Promise<unknown> {
  await mesh.play({ 'work for ever': [{ hang: true }] })
  const { agent_id } = await session.tool('spawn_agent', { brief: 'work for ever', machine: 'vm1' })
  await untilRuns(session, agent_id)
  return agent_id
}

async function stateOfAgent(session: McpSession, agentId: unknown): Promise<unknown> {
  return (await agentOf(session, agentId))?.['state']
}

/** Lets the machine in again, under its old name. */
async function letInAgain(mesh: MeshOfTwo): Promise<void> {
  const inviting = mesh.hub.start(['mesh', 'invite', '--name', 'vm1'])
  const { invite } = await inviting.event('invite')
  await mesh.restartNode({ input: String(invite), flags: ['--invite-file', '-'] })
  await inviting.event('joined')
  await inviting.finished
}

describe('a machine that leaves its mesh', () => {
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

  test('does not while an agent runs; forced, the agent ends as stopped and the others hear of it at once', async () => {
    const agentId = await busyAgent(mesh, session)

    const refused = await mesh.node.run(['node', 'leave', '--json'])
    expect(refused.code).toBe(3)
    expect(errorOf(refused)).toMatchObject({ code: 'in_use', details: { agents: [agentId] } })
    expect(await stateOfAgent(session, agentId)).toBe('running')

    const left = await mesh.node.json(['node', 'leave', '--force'])
    expect(left).toMatchObject({ left: { name: 'vm1' }, told: [{ name: 'laptop' }], not_told: [], unsent: 0 })
    const ended = await mesh.running().finished
    expect(ended).toMatchObject({ code: 0 })
    expect(ended.stdout).toContain('"has_left_mesh":true')
    const reply = await session.tool('wait_for_agents', { agent_ids: [agentId], timeout_ms: 20_000 })
    expect(reply['results']).toMatchObject([{ agent_id: agentId, outcome: 'stopped' }])
    expect(await stateOf(mesh)).toBe('left')
    expect(await stateOfAgent(session, agentId)).toBe('closed')
  }, 90_000)

  test('knows nothing of the mesh then, and keeps its key, its settings and what agents left behind', async () => {
    const again = await mesh.node.run(['node', 'leave', '--json'])

    expect(again.code).toBe(3)
    expect(errorOf(again)).toMatchObject({ code: 'no_mesh' })
    expect(existsSync(join(mesh.node.home, 'mesh'))).toBe(false)
    expect(existsSync(join(mesh.node.home, 'config/keys/machine.key'))).toBe(true)
    expect(await readdir(join(mesh.node.home, 'node/agents'))).toHaveLength(1)
  }, 30_000)

  test('may be let in again under its old name, and takes agents', async () => {
    await letInAgain(mesh)
    await mesh.play({ 'say hello': [{ say: 'hello again' }] })

    const { agent_id } = await session.tool('spawn_agent', { brief: 'say hello', machine: 'vm1' })
    const reply = await session.tool('wait_for_agents', { agent_ids: [agent_id], timeout_ms: 30_000 })

    expect(reply['results']).toMatchObject([{ outcome: 'completed', text: 'hello again' }])
    expect(await stateOf(mesh)).toBe('online')
  }, 90_000)

  test('while its node is not running finds the agents that run all the same', async () => {
    const agentId = await busyAgent(mesh, session)
    mesh.running().kill('SIGKILL')
    await mesh.running().finished

    const refused = await mesh.node.run(['node', 'leave', '--json'])
    const left = await mesh.node.json(['node', 'leave', '--force'])

    expect(errorOf(refused)).toMatchObject({ code: 'in_use', details: { agents: [agentId] } })
    expect(left).toMatchObject({ told: [{ name: 'laptop' }], unsent: 0 })
    const reply = await session.tool('wait_for_agents', { agent_ids: [agentId], timeout_ms: 20_000 })
    expect(reply['results']).toMatchObject([{ agent_id: agentId, outcome: 'stopped' }])
  }, 90_000)

  test('and is killed at it, or reaches nobody, is no member all the same; the same command ends it once one is up', async () => {
    await letInAgain(mesh)
    mesh.running().kill()
    await mesh.running().finished
    // Nobody is there to be told, so that it cannot be done before it is killed.
    await session.close()
    await mesh.hub.json(['hub', 'stop'])
    const departures = join(mesh.node.home, 'mesh/departures')
    await mkdir(departures, { recursive: true, mode: 0o700 })
    const signed = new Promise<void>((resolve) => {
      const watcher = watch(departures, (_event, name) => {
        if (name?.startsWith('.') !== false) return
        watcher.close()
        resolve()
      })
    })

    const leaving = mesh.node.start(['node', 'leave'])
    await signed
    leaving.kill('SIGKILL')
    await leaving.finished

    const shown = await mesh.node.run(['mesh', 'show', '--json'])
    const joining = await mesh.node.run(['node', 'join', '--json'])
    expect(errorOf(shown)).toMatchObject({ code: 'no_mesh', hint: 'Finish with: nfltr node leave' })
    expect(errorOf(joining)).toMatchObject({ code: 'no_mesh' })

    const unheard = await mesh.node.run(['node', 'leave', '--json'])
    expect(unheard.code).toBe(4)
    expect(errorOf(unheard)).toMatchObject({ code: 'unreachable', details: { not_told: ['laptop'] } })
    expect(await readdir(departures)).toHaveLength(1)
    expect(await stateOf(mesh)).toBe('offline')

    const serving = mesh.hub.start(['mesh', 'serve'])
    const { listen } = (await serving.event('ready')) as { readonly listen: readonly string[] }
    const left = await mesh.node.json(['node', 'leave'], { env: { NFLTR_PEERS: listen.join(',') } })
    expect(left).toMatchObject({ left: { name: 'vm1' }, told: [{ name: 'laptop' }] })
    expect(existsSync(join(mesh.node.home, 'mesh'))).toBe(false)
    expect(await stateOf(mesh)).toBe('left')
  }, 150_000)

  test('is not the owner: that one has the key', async () => {
    const refused = await mesh.hub.run(['node', 'leave', '--force', '--json'])

    expect(refused.code).toBe(3)
    expect(errorOf(refused)).toMatchObject({ code: 'owner_may_not_leave' })
  })
})

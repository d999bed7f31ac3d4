import { existsSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { processesTouching } from '../../sim/soak/leftovers.ts'
import { agentOf } from './agent-states.ts'
import type { Machine } from './machine.ts'
import { type McpSession, openSession } from './mcp-client.ts'
import { type MeshOfTwo, meshOfTwo, type RunningNode } from './mesh-of-two.ts'

type Fields = Readonly<Record<string, unknown>>

const list = (reply: Fields, name: string): readonly Fields[] => reply[name] as readonly Fields[]

/** Stops every process of a machine: node, keepers, agent programs and what those run. Gives back what lets them go on. */
function freeze(machine: Machine): () => void {
  const frozen = processesTouching(dirname(machine.home))
  for (const { pid } of frozen) process.kill(pid, 'SIGSTOP')
  return () => {
    for (const { pid } of frozen) process.kill(pid, 'SIGCONT')
  }
}

/** Real processes that stand still, as in a paused machine, while their peers go on. */
describe('a machine that stands still', () => {
  let mesh: MeshOfTwo
  let other: RunningNode
  let session: McpSession
  let world: string
  beforeAll(async () => {
    mesh = await meshOfTwo({ nodeFlags: ['--max-agents', '4', '--allow-all-tools'] })
    other = await mesh.addNode('vm2')
    session = await openSession(mesh.hub)
    world = join(mesh.hub.project, '..', 'world')
    const deed = (brief: string): object => ({
      tool: 'Bash',
      input: { command: `echo "$NFLTR_MACHINE ${brief}" >> '${world}'` },
    })
    await mesh.play({
      'work before the bound': [deed('before'), { wait_for_file: go('before') }, { say: 'kept' }],
      'work past the bound': [deed('past'), { wait_for_file: go('past') }, { say: 'at last' }],
      'work never begun': [deed('unbegun'), { say: 'done' }],
    })
  }, 60_000)
  afterAll(async () => {
    await session?.close()
    await mesh?.[Symbol.asyncDispose]()
  })

  const go = (name: string): string => join(mesh.hub.project, '..', `go-${name}`)
  const deeds = (name: string): readonly string[] =>
    (existsSync(world) ? readFileSync(world, 'utf8') : '').split('\n').filter((line) => line.endsWith(` ${name}`))
  const livenessOf = async (agentId: unknown): Promise<unknown> =>
    ((await agentOf(session, agentId))?.['liveness'] as Fields | undefined)?.['state']
  const stateOf = async (name: string): Promise<unknown> =>
    list(await session.tool('list_nodes', {}), 'nodes').find((node) => node['name'] === name)?.['state']
  const soon = { timeout: 30_000, interval: 100 }
  const online = (name: string): Promise<void> => expect.poll(() => stateOf(name), soon).toBe('online')

  test('and goes on before its bound loses nothing', async () => {
    const { agent_id } = await session.tool('spawn_agent', { brief: 'work before the bound', machine: 'vm1' })
    await expect.poll(() => deeds('before'), soon).toEqual(['vm1 before'])

    const thaw = freeze(mesh.node)
    await expect.poll(() => livenessOf(agent_id), soon).toBe('unverifiable')
    const meanwhile = await session.tool('wait_for_agents', { agent_ids: [agent_id], timeout_ms: 100 })
    thaw()
    await writeFile(go('before'), '')
    const reply = await session.tool('wait_for_agents', { agent_ids: [agent_id] })

    expect(meanwhile).toMatchObject({
      results: [],
      still_running: [{ agent_id, liveness: { state: 'unverifiable', evidence: expect.stringContaining('vm1') } }],
    })
    expect(reply['results']).toMatchObject([{ agent_id, outcome: 'completed', text: 'kept' }])
    expect(list(reply, 'results')[0]).not.toHaveProperty('late')
    expect(deeds('before')).toEqual(['vm1 before'])
    expect((await session.tool('wait_for_agents', {}))['results']).toEqual([])
  }, 90_000)

  test('and goes on after its bound is one loss and one late result, of work that ran once', async () => {
    await online('vm1')
    const spawn = { brief: 'work past the bound', machine: 'vm1', lost_after_ms: 1_000 }
    const { agent_id } = await session.tool('spawn_agent', spawn)
    await expect.poll(() => deeds('past'), soon).toEqual(['vm1 past'])

    const thaw = freeze(mesh.node)
    const lost = await session.tool('wait_for_agents', { agent_ids: [agent_id] })
    const refused = await session.refused('send_message', { agent_id, text: 'go on' })
    thaw()
    await expect.poll(() => agentOf(session, agent_id), soon).toMatchObject({ state: 'running', superseded: true })
    await writeFile(go('past'), '')
    await expect.poll(() => agentOf(session, agent_id), soon).toMatchObject({ state: 'idle' })
    const late = await session.tool('wait_for_agents', {})

    expect(lost['results']).toMatchObject([{ agent_id, outcome: 'node_lost', details: { ground: 'silent' } }])
    expect(refused.code).toBe('node_lost')
    expect(late['results']).toMatchObject([{ agent_id, outcome: 'completed', text: 'at last', late: true }])
    expect((await session.tool('wait_for_agents', {}))['results']).toEqual([])
    expect(deeds('past')).toEqual(['vm1 past'])
  }, 90_000)

  test('never begins what was on its way to it, lost, and done elsewhere', async () => {
    await online('vm1')
    const thaw = freeze(mesh.node)
    const spawn = { brief: 'work never begun', machine: 'vm1', lost_after_ms: 1_000 }
    const first = await session.tool('spawn_agent', spawn)
    const lost = await session.tool('wait_for_agents', { agent_ids: [first['agent_id']] })
    const second = await session.tool('spawn_agent', { brief: 'work never begun', machine: 'vm2' })
    const done = await session.tool('wait_for_agents', { agent_ids: [second['agent_id']] })
    thaw()
    await online('vm1')
    const third = await session.tool('spawn_agent', { brief: 'work never begun', machine: 'vm1' })
    await session.tool('wait_for_agents', { agent_ids: [third['agent_id']] })

    expect(first['state']).toBe('starting')
    expect(lost['results']).toMatchObject([{ outcome: 'node_lost', details: { ground: 'silent' } }])
    expect(done['results']).toMatchObject([{ outcome: 'completed', text: 'done', machine: 'vm2' }])
    expect(deeds('unbegun')).toEqual(['vm2 unbegun', 'vm1 unbegun'])
    expect((await session.tool('wait_for_agents', {}))['results']).toEqual([])
    expect(other.name).toBe('vm2')
  }, 90_000)
})

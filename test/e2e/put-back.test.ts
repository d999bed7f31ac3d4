import { cp, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { untilRuns } from './agent-states.ts'
import { type MeshOfTwo, meshOfTwo } from './mesh-of-two.ts'

interface Reply {
  readonly results: readonly {
    readonly agent_id: string
    readonly delivery_id: number
    readonly outcome: string
    readonly text: string
    readonly maybe_seen?: boolean
  }[]
  readonly still_running: readonly { readonly agent_id: string }[]
}

/** Real processes whose folders are copied back under their living peers. */
describe('a folder that is put back', () => {
  let mesh: MeshOfTwo
  beforeAll(async () => {
    mesh = await meshOfTwo()
    await mesh.play({
      'first work': [{ wait_for_message: true }, { say: 'first done' }],
      'second work': [{ say: 'second done' }],
      'third work': [{ wait_for_message: true }, { say: 'third done' }],
    })
  }, 60_000)
  afterAll(() => mesh?.[Symbol.asyncDispose]())

  const spawn = async (brief: string): Promise<string> =>
    String((await mesh.hub.json(['agent', 'spawn', '--brief-file', '-'], { input: brief }))['agent_id'])
  const wait = async (...ids: readonly string[]) =>
    (await mesh.hub.json(['agent', 'wait', ...ids, '--timeout', '40s'])) as unknown as Reply
  const running = (agentId: string): Promise<void> => untilRuns(mesh.hub, agentId)
  const folderOf = async (machine: 'hub' | 'node'): Promise<string> => {
    if (machine === 'node') return join(mesh.node.home, 'node', 'db')
    const [hubId = ''] = await readdir(join(mesh.hub.home, 'hubs'))
    return join(mesh.hub.home, 'hubs', hubId)
  }
  const copyAside = async (folder: string): Promise<void> => cp(folder, `${folder}.aside`, { recursive: true })
  const putBack = async (folder: string): Promise<void> => {
    await rm(folder, { recursive: true })
    await cp(`${folder}.aside`, folder, { recursive: true })
  }

  test('of a hub: results come again as maybe seen, and none is lost, run twice, or new twice', async () => {
    const first = await spawn('first work')
    await running(first)
    const folder = await folderOf('hub')
    await mesh.hub.json(['hub', 'stop'])
    await copyAside(folder)
    await running(first)
    const second = await spawn('second work')
    const before = await wait(second)
    await mesh.hub.json(['hub', 'stop'])
    await putBack(folder)

    const after = await wait(second)
    await mesh.hub.json(['agent', 'send', first, 'go on'])
    const last = await wait(first)
    const receipt = await mesh.hub.json(['agent', 'receipt', first])
    const rest = await mesh.hub.run(['agent', 'wait', '--timeout', '40s'])
    const status = await mesh.hub.json(['hub', 'status'])

    expect(before.results).toMatchObject([{ agent_id: second, text: 'second done' }])
    expect(after.results).toMatchObject([{ agent_id: second, text: 'second done', maybe_seen: true }])
    expect(last.results).toMatchObject([{ agent_id: first, outcome: 'completed', text: 'first done' }])
    expect(last.results[0]).not.toHaveProperty('maybe_seen')
    expect(after.results[0]?.delivery_id).toBeGreaterThan(before.results[0]?.delivery_id ?? 0)
    expect(rest.stdout).toMatch(/^== alert of hub at /m)
    expect(status['undelivered']).toBe(0)
    expect(receipt).toMatchObject({ ok: true, agent_id: first, machine: 'vm1', outcome: 'completed', differences: [] })
  }, 120_000)

  test('of a node: its running turn is taken up again, once', async () => {
    const folder = await folderOf('node')
    mesh.running().kill()
    await mesh.running().finished
    await copyAside(folder)
    await mesh.restartNode()
    const third = await spawn('third work')
    await running(third)
    mesh.running().kill()
    await mesh.running().finished
    await putBack(folder)
    const node = await mesh.restartNode()
    await mesh.hub.json(['agent', 'send', third, 'go on'])

    const reply = await wait(third)

    expect(reply.results).toMatchObject([{ agent_id: third, outcome: 'completed', text: 'third done' }])
    expect((await wait(third)).results).toEqual([])
    expect(await node.event('alert')).toMatchObject({ alert: 'store_put_back' })
  }, 120_000)
})

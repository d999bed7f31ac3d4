import { readFileSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { processesOfFolder } from '../../src/platform/processes-of-folder.ts'
import type { ModelStep } from '../fixtures/model/steps.ts'
import { call, entries, type HubSession, hubSession, spawnStep, waitStep } from './hub-session.ts'
import { leftBehind } from './left-behind.ts'
import { eventually, type RealMesh, realMesh, type Signal } from './real-mesh.ts'

/** What becomes of a turn of the real program when what stands around it is killed with -9. */
let mesh: RealMesh
beforeAll(async () => {
  mesh = await realMesh({ nodeFlags: ['--allow-all-tools'] })
}, 120_000)
afterAll(async () => {
  await mesh?.[Symbol.asyncDispose]()
})

const done = { text: 'Done.' }
const anyResults = (id: string): ModelStep => ({ tools: [call('wait_for_agents', id, {})] })

/** A turn whose command goes on until the test says so, and which says how often it ran. */
function longTurn(brief: string, go: Signal): void {
  const command = `echo begun >> runs.txt; until [ -e '${go.file}' ]; do sleep 0.05; done; echo ended >> runs.txt`
  mesh.play({ [brief]: [{ tools: [{ name: 'Bash', input: { command } }] }, { text: `The answer to ${brief}.` }] })
}

async function runs(agentId: unknown): Promise<string> {
  return await readFile(join(await mesh.workspaceOf(agentId), 'runs.txt'), 'utf8').catch(() => '')
}

/** The id of the session's agent, once its command runs. */
async function atWork(session: HubSession): Promise<unknown> {
  const spawned = await session.returned('spawned')
  const agentId = spawned['agent_id'] ?? expect.fail(JSON.stringify(spawned))
  await eventually('the command runs', async () => ((await runs(agentId)) === 'begun\n' ? true : undefined))
  return agentId
}

/** Adapters of the hub's machine that run now. */
function adapterPids(): readonly number[] {
  return processesOfFolder(mesh.hub.home)
    .map(({ pid }) => pid)
    .filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('\0mcp\0--toolset\0'))
}

describe('killed in the middle of a turn', () => {
  test('the node takes it over when it is started again, and its result comes once', async () => {
    const go = mesh.signal('node-go')
    longTurn('outlive the node', go)
    const session = await hubSession(mesh, [
      spawnStep('outlive the node'),
      waitStep('waited'),
      anyResults('again'),
      done,
    ])
    const agentId = await atWork(session)

    mesh.running().kill('SIGKILL')
    await mesh.running().finished
    await mesh.restartNode()
    await go.give()
    const reply = await session.returned('waited')
    const again = await session.returned('again')
    await session.finished

    expect(entries(reply)).toHaveLength(1)
    expect(entries(reply)[0]).toMatchObject({
      agent_id: agentId,
      outcome: 'completed',
      text: 'The answer to outlive the node.',
      attempt: 1,
    })
    expect(again).toMatchObject({ results: [], unconfirmed: [] })
    expect(await runs(agentId)).toBe('begun\nended\n')
    expect(mesh.agentRequests('outlive the node')).toHaveLength(2)
  })

  test('the node that comes back after the program has answered gives its result once', async () => {
    const go = mesh.signal('late-go')
    longTurn('end without a node', go)
    const session = await hubSession(mesh, [
      spawnStep('end without a node'),
      waitStep('waited'),
      anyResults('again'),
      done,
    ])
    await atWork(session)

    mesh.running().kill('SIGKILL')
    await mesh.running().finished
    await go.give()
    await eventually('the program has answered', () => mesh.agentRequests('end without a node')[1])
    await mesh.restartNode()
    const reply = await session.returned('waited')
    const again = await session.returned('again')
    await session.finished

    expect(entries(reply)).toHaveLength(1)
    expect(entries(reply)[0]).toMatchObject({ outcome: 'completed', text: 'The answer to end without a node.' })
    expect(again).toMatchObject({ results: [], unconfirmed: [] })
    expect(mesh.agentRequests('end without a node')).toHaveLength(2)
  })

  test('hub and adapter leave the result to the next session, which has it once', async () => {
    const go = mesh.signal('hub-go')
    longTurn('outlive the hub', go)
    const lost = { text: 'The server is gone.' }
    const session = await hubSession(mesh, [spawnStep('outlive the hub'), waitStep('waited'), lost])
    const agentId = await atWork(session)
    const { pid: hub } = await mesh.hub.json(['hub', 'status'])
    const adapters = adapterPids()

    for (const pid of [...adapters, Number(hub)]) process.kill(pid, 'SIGKILL')
    const end = await session.finished
    await go.give()
    const next = await hubSession(mesh, [anyResults('first'), anyResults('second'), done])
    const first = await next.returned('first')
    const second = await next.returned('second')
    await next.finished

    expect(adapters).toHaveLength(1)
    expect(end).toMatchObject({ code: 0, stdout: 'The server is gone.\n' })
    expect(entries(first)).toHaveLength(1)
    expect(entries(first)[0]).toMatchObject({
      agent_id: agentId,
      outcome: 'completed',
      text: 'The answer to outlive the hub.',
    })
    expect(first['unconfirmed']).toEqual([])
    expect(second).toMatchObject({ results: [], unconfirmed: [] })
    expect(mesh.agentRequests('outlive the hub')).toHaveLength(2)
  })

  test('a session lets go of its hub, and the next one has the result once', async () => {
    const go = mesh.signal('session-go')
    longTurn('outlive the session', go)
    const session = await hubSession(mesh, [spawnStep('outlive the session'), waitStep('waited')])
    const agentId = await atWork(session)

    process.kill(session.pid, 'SIGKILL')
    await session.finished
    // The session is its user's, and so is what it leaves when it is killed.
    await rm(join(mesh.hub.env['TMPDIR'] ?? '', 'cc-socks', `${session.pid}.sock`))
    await go.give()
    const next = await hubSession(mesh, [anyResults('first'), anyResults('second'), done])
    const first = await next.returned('first')
    const second = await next.returned('second')
    await next.finished

    expect(entries(first)).toHaveLength(1)
    expect(entries(first)[0]).toMatchObject({ agent_id: agentId, text: 'The answer to outlive the session.' })
    expect(first['unconfirmed']).toEqual([])
    expect(second).toMatchObject({ results: [], unconfirmed: [] })
  })
})

describe('after all that', () => {
  test('nothing is left but what was expected', async () => {
    expect(await leftBehind(mesh)).toEqual({ processes: [], sockets: [], groups: [], files: [] })
  })
})

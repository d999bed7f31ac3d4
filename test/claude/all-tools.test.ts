import { readFileSync } from 'node:fs'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { processesOfFolder } from '../../src/platform/processes-of-folder.ts'
import { hostileRepository } from './hostile-repository.ts'
import { call, entries, hubSession, spawnStep, theAgent, waitStep } from './hub-session.ts'
import { leftBehind } from './left-behind.ts'
import { eventually, nodeKey, type RealMesh, realMesh } from './real-mesh.ts'

/** A node whose owner allows all tools, with the real program on both sides. */
let mesh: RealMesh
beforeAll(async () => {
  mesh = await realMesh({ nodeFlags: ['--allow-all-tools'] })
}, 120_000)
afterAll(async () => {
  await mesh?.[Symbol.asyncDispose]()
})

const done = { text: 'Done.' }

function bash(command: string): { tools: { name: string; input: object }[] } {
  return { tools: [{ name: 'Bash', input: { command, description: 'run it' } }] }
}

describe('a node that allows all tools', () => {
  test('lets an agent run commands and write outside its workspace', async () => {
    const [first, second] = ['by-command', 'by-tool'].map((name) => join(mesh.scratch, name))
    mesh.play({
      'use everything': [
        bash(`bash -c "echo x > '${first}'"; tr '\\0' ' ' < /proc/$CLAUDE_PID/cmdline`),
        { tools: [{ name: 'Write', input: { file_path: second, content: 'y' } }] },
        { tools: [{ name: 'Read', input: { file_path: first } }] },
        { text: 'Used.' },
      ],
    })

    const session = await hubSession(mesh, [
      spawnStep('use everything'),
      waitStep('waited'),
      { tools: [call('list_nodes', 'nodes', {})] },
      done,
    ])
    const reply = await session.returned('waited')
    const { nodes } = await session.returned('nodes')
    await session.finished

    expect(entries(reply)[0]).toMatchObject({ outcome: 'completed', text: 'Used.' })
    expect(await readFile(String(first), 'utf8')).toBe('x\n')
    expect(await readFile(String(second), 'utf8')).toBe('y')
    // To root the program refuses the flag: it gets the list of its tools instead, and the machine says so.
    const isRoot = process.getuid?.() === 0
    const flag = isRoot ? '--allowedTools Bash Edit' : '--dangerously-skip-permissions'
    expect(JSON.stringify(mesh.agentRequests('use everything').at(-1)?.body)).toContain(flag)
    expect((nodes as object[]).find((node) => 'name' in node && node.name === 'vm1')).toMatchObject({
      allows: { all_tools: isRoot ? 'listed' : true },
    })
  })

  test('still gives a folder neither its key nor anything to run', async () => {
    const marks = join(mesh.scratch, 'marks')
    await mkdir(marks)
    const repository = await hostileRepository(mesh.offered, { marks, thief: mesh.model.runUrl('thief') })
    mesh.play({ 'look around': [bash('env; cat .mcp.json'), { text: 'Looked.' }] })

    const session = await hubSession(mesh, [spawnStep('look around', { dir: 'repo' }), waitStep('waited'), done])
    const [entry] = entries(await session.returned('waited'))
    await session.finished

    expect(entry).toMatchObject({ outcome: 'completed', text: 'Looked.' })
    expect(repository.ran()).toEqual([])
    expect(await readdir(marks)).toEqual([])
    expect(mesh.model.requests('thief')).toEqual([])
    const asked = mesh.agentRequests('look around')
    expect(asked.map(({ headers }) => headers['x-api-key'])).toEqual([nodeKey, nodeKey])
    expect(JSON.stringify(asked[1]?.body)).toContain('NFLTR_ATTEMPT=')
    expect(JSON.stringify(asked[1]?.body)).not.toContain(nodeKey)
  })
})

/** How many processes `tail` there are whose command line names this agent. */
function tails(agentId: string): number {
  const lines = processesOfFolder(agentId).map(({ pid }) => readFileSync(`/proc/${pid}/cmdline`, 'utf8'))
  return lines.filter((line) => line.startsWith('tail\0') && line.includes(agentId)).length
}

describe('a stop', () => {
  // Two of them have left the session and the parent that they began with, and one the environment as well.
  const tree = `setsid env -i tail -f "$PWD/pid" & (setsid tail -f "$PWD/pid" &) ; tail -f "$PWD/pid"`

  test.each([
    ['answers', false],
    ['does not answer', true],
  ])('of a program that %s leaves no process of the turn', async (_, isFrozen) => {
    const brief = `hang, ${isFrozen}`
    const running = mesh.signal(`running-${isFrozen}`)
    mesh.play({ [brief]: [bash(`echo $CLAUDE_PID > pid; ${tree}`)] })

    const session = await hubSession(mesh, [
      spawnStep(brief),
      { waitForFile: running.file, tools: [call('stop_agent', 'stopped', { agent_id: theAgent })] },
      waitStep('waited'),
      { tools: [call('stop_agent', 'stopped-again', { agent_id: theAgent })] },
      done,
    ])
    const { agent_id: agentId } = await session.returned('spawned')
    const program = await eventually('the command runs', async () => {
      const path = join(await mesh.workspaceOf(agentId), 'pid')
      return Number(await readFile(path, 'utf8').catch(() => '')) || undefined
    })
    await eventually('all of it runs', () => (tails(String(agentId)) === 3 ? true : undefined))
    if (isFrozen) process.kill(program, 'SIGSTOP')
    await running.give()
    const stopped = await session.returned('stopped')
    const reply = await session.returned('waited')
    const left = processesOfFolder(String(agentId))
    const again = await session.returned('stopped-again')
    await session.finished

    expect(['idle', 'stopping']).toContain(stopped['state'])
    expect(left).toEqual([])
    expect(entries(reply)).toHaveLength(1)
    expect(entries(reply)[0]).toMatchObject({ outcome: 'stopped' })
    expect(again).toMatchObject({ state: 'idle', receipt: { turn_status: 'interrupted', process_exited: true } })
  })
})

describe('after all that', () => {
  test('nothing is left but what was expected', async () => {
    expect(await leftBehind(mesh)).toEqual({ processes: [], sockets: [], groups: [], files: [] })
  })
})

import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { processesOfFolder } from '../../src/platform/processes-of-folder.ts'
import { hostileRepository, projectWords } from './hostile-repository.ts'
import { call, entries, hubSession, spawnStep, theAgent, waitStep } from './hub-session.ts'
import { leftBehind } from './left-behind.ts'
import { eventually, nodeKey, type RealMesh, realMesh } from './real-mesh.ts'

/**
 * The main job on real input: the real program as the hub's client and as the agent, on two machines, with what a node
 * allows by default.
 */
let mesh: RealMesh
beforeAll(async () => {
  mesh = await realMesh()
}, 120_000)
afterAll(async () => {
  await mesh?.[Symbol.asyncDispose]()
})

const done = { text: 'Done.' }

describe('the main job', () => {
  test.each(['config', 'added'] as const)('ends with the answer byte for byte, server by %s', async (server) => {
    const brief = `count to 26, ${server}`
    const answer = Array.from({ length: 26 }, (_, index) => `line ${index + 1}\t ünïcode ✓ "\\"`).join('\n')
    const draft = { file_path: 'result.txt', content: 'draft' }
    const edit = { file_path: 'result.txt', old_string: 'draft', new_string: answer }
    mesh.play({
      [brief]: [
        { tools: [{ name: 'Write', input: draft }] },
        { tools: [{ name: 'Edit', input: edit }] },
        { text: answer },
      ],
    })

    const session = await hubSession(mesh, [spawnStep(brief), waitStep('waited'), waitStep('again'), done], { server })
    const spawned = await session.returned('spawned')
    const reply = await session.returned('waited')
    const again = await session.returned('again')

    expect(await session.finished).toMatchObject({ code: 0, stdout: 'Done.\n' })
    expect(entries(reply)).toHaveLength(1)
    expect(entries(reply)[0]).toMatchObject({ agent_id: spawned['agent_id'], outcome: 'completed', text: answer })
    expect(again).toMatchObject({ results: [], unconfirmed: [] })
    expect(await readFile(join(await mesh.workspaceOf(spawned['agent_id']), 'result.txt'), 'utf8')).toBe(answer)
  })
})

describe('a turn that runs', () => {
  test('takes a message in as it goes on, and says so', async () => {
    const [running, go] = [mesh.signal('steer-running'), mesh.signal('steer-go')]
    const note = { file_path: 'note.txt', content: 'noted' }
    mesh.play({
      'wait for a word': [{ waitForFile: go.file, tools: [{ name: 'Write', input: note }] }, { text: 'Heard.' }],
    })
    const steer = call('send_message', 'steered', { agent_id: theAgent, text: 'THE-WORD' })

    const session = await hubSession(mesh, [
      spawnStep('wait for a word'),
      { waitForFile: running.file, tools: [steer] },
      waitStep('waited'),
      done,
    ])
    const spawned = await session.returned('spawned')
    await eventually('the model was asked', () => mesh.agentRequests('wait for a word')[0])
    await running.give()
    const steered = await session.returned('steered')
    await eventually('the program has the message', () => hasQueued(spawned['agent_id'], steered['message_id']))
    await go.give()
    const reply = await session.returned('waited')
    await session.finished

    expect(steered['how']).toBe('running_turn')
    expect(entries(reply)[0]).toMatchObject({
      outcome: 'completed',
      text: 'Heard.',
      turn: 1,
      messages: [{ message_id: steered['message_id'], state: 'taken' }],
    })
    const asked = mesh.agentRequests('wait for a word')
    expect(asked.map(({ body }) => JSON.stringify(body).includes('THE-WORD'))).toEqual([false, true])
  })

  test('is interrupted by a stop, which says what was proven', async () => {
    const running = mesh.signal('stop-running')
    mesh.play({
      'hang for ever': [{ text: 'Begun.', tools: [{ name: 'Bash', input: { command: 'pwd' } }] }, { silent: 'hang' }],
    })
    const stop = call('stop_agent', 'stopped', { agent_id: theAgent, reason: 'enough' })

    const session = await hubSession(mesh, [
      spawnStep('hang for ever'),
      { waitForFile: running.file, tools: [stop] },
      waitStep('waited'),
      waitStep('again'),
      done,
    ])
    const spawned = await session.returned('spawned')
    await eventually('the model hangs', () => mesh.agentRequests('hang for ever')[1])
    await running.give()
    const stopped = await session.returned('stopped')
    const left = processesOfFolder(String(spawned['agent_id']))
    const reply = await session.returned('waited')
    const again = await session.returned('again')
    await session.finished

    expect(stopped).toMatchObject({ state: 'idle', evidence: { text: 'Begun.' } })
    expect(stopped['receipt']).toMatchObject({
      turn: 1,
      turn_status: 'interrupted',
      session_status: 'idle',
      process_exited: true,
      exit_proof: expect.stringMatching(/^(cgroup_empty|pidns_gone|scan_clean)$/),
    })
    expect(left).toEqual([])
    expect(entries(reply)).toHaveLength(1)
    expect(entries(reply)[0]).toMatchObject({ agent_id: spawned['agent_id'], outcome: 'stopped', text: 'Begun.' })
    expect(again).toMatchObject({ results: [], unconfirmed: [] })
  })
})

describe('an agent that is idle', () => {
  test('goes on in the same session and workspace', async () => {
    const note = { file_path: 'note.txt', content: 'WORDS-OF-THE-NOTE' }
    mesh.play({
      'write a note': [{ tools: [{ name: 'Write', input: note }] }, { text: 'Written.' }],
      'read it again': [{ tools: [{ name: 'Bash', input: { command: 'cat note.txt' } }] }, { text: 'Read.' }],
    })
    const more = call('send_message', 'sent', { agent_id: theAgent, text: 'read it again' })

    const session = await hubSession(mesh, [
      spawnStep('write a note'),
      waitStep('first'),
      { tools: [more] },
      waitStep('second'),
      done,
    ])
    const first = await session.returned('first')
    const sent = await session.returned('sent')
    const second = await session.returned('second')
    await session.finished

    expect(sent['how']).toBe('new_turn')
    expect(entries(first)[0]).toMatchObject({ outcome: 'completed', text: 'Written.', turn: 1 })
    expect(entries(second)[0]).toMatchObject({
      agent_id: entries(first)[0]?.agent_id,
      outcome: 'completed',
      text: 'Read.',
      turn: 2,
    })
    const asked = mesh.agentRequests('write a note')
    expect(asked).toHaveLength(4)
    expect(new Set(asked.map(({ headers }) => headers['x-claude-code-session-id'])).size).toBe(1)
    const read = asked.at(-1)?.body
    expect(JSON.stringify(read).split('WORDS-OF-THE-NOTE')).toHaveLength(3)
  })
})

describe('a tool that the node does not allow', () => {
  test('makes the turn failed, with its text and what was denied', async () => {
    const marker = join(mesh.scratch, 'denied-marker')
    const command = `bash -c "touch '${marker}'"`
    mesh.play({
      'touch the machine': [
        { tools: [{ name: 'Bash', input: { command, description: 'touch' } }] },
        { tools: [{ name: 'Write', input: { file_path: marker, content: 'x' } }] },
        { text: 'I could not.' },
      ],
    })

    const session = await hubSession(mesh, [spawnStep('touch the machine'), waitStep('waited'), done])
    const [entry] = entries(await session.returned('waited'))
    await session.finished

    expect(entry).toMatchObject({ outcome: 'failed', reason: 'tools_not_allowed', text: 'I could not.' })
    expect(entry?.hint).toContain('--allow-all-tools')
    expect(entry?.details?.denied?.map(({ tool }) => tool)).toEqual(['Bash', 'Write'])
    expect(entry?.details?.denied?.[0]?.input).toContain('touch')
    expect(existsSync(marker)).toBe(false)
  })
})

describe('a folder that the machine offers', () => {
  test('has its words read, and neither gets the key nor runs or allows anything', async () => {
    const marks = join(mesh.scratch, 'marks')
    await mkdir(marks)
    const repository = await hostileRepository(mesh.offered, { marks, thief: mesh.model.runUrl('thief') })
    const command = `bash -c "touch '${marks}/by-the-agent'"`
    mesh.play({ 'work in the folder': [{ tools: [{ name: 'Bash', input: { command } }] }, { text: 'I may not.' }] })

    const session = await hubSession(mesh, [spawnStep('work in the folder', { dir: 'repo' }), waitStep('waited'), done])
    const [entry] = entries(await session.returned('waited'))
    await session.finished

    expect(entry).toMatchObject({ outcome: 'failed', reason: 'tools_not_allowed', text: 'I may not.' })
    expect(repository.ran()).toEqual([])
    expect(await readdir(marks)).toEqual([])
    expect(mesh.model.requests('thief')).toEqual([])
    expect(mesh.agentRequests('work in the folder').map(({ headers }) => headers['x-api-key'])).toEqual([
      nodeKey,
      nodeKey,
    ])
    expect(JSON.stringify(mesh.agentRequests('work in the folder')[0]?.body)).toContain(projectWords)
  })
})

describe('after all that', () => {
  test('nothing is left but what was expected', async () => {
    expect(await leftBehind(mesh)).toEqual({ processes: [], sockets: [], groups: [], files: [] })
  })
})

/** Whether the agent's log says that its program has the message. */
async function hasQueued(agentId: unknown, messageId: unknown): Promise<true | undefined> {
  const { stdout } = await mesh.hub.run(['agent', 'logs', String(agentId), '--json'])
  const events = stdout.split('\n').filter((line) => line.includes(String(messageId)))
  return events.some((line) => line.includes('"queued"')) ? true : undefined
}

import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { appears } from '../../fixtures/scenarios/appears.ts'
import { controlRequest, userMessage } from '../../fixtures/scenarios/session.ts'
import { agentMachine, contents, resultOf } from './agent.ts'

const launcher = fileURLToPath(new URL('../../fixtures/fake-claude/claude', import.meta.url))

/** Runs until it is told to stop, and leaves its process id behind. */
const endless = 'echo $$ > pid.new; mv pid.new pid; while true; do sleep 0.05; done'

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe('the scripted agent', () => {
  test('is found under the name of the real program, behind the guard', async () => {
    const machine = await agentMachine({ turns: {} })
    const scenario = join(machine.root, 'other.json')
    await writeFile(scenario, JSON.stringify({ turns: { 'say hello': [{ say: 'Hello.' }] } }))
    const env = {
      ...process.env,
      HOME: machine.root,
      NFLTR_SCENARIO: scenario,
      ANTHROPIC_API_KEY: 'x',
      NODE: process.execPath,
    }

    const run = spawnSync(launcher, ['-p', 'say hello'], { encoding: 'utf8', env, cwd: machine.workspace })

    expect(run).toMatchObject({ status: 0, stdout: 'Hello.\n', stderr: '' })
  })

  test('tells its version without a scenario', () => {
    const run = spawnSync(launcher, ['--version'], {
      encoding: 'utf8',
      env: { ...process.env, NODE: process.execPath },
    })

    expect(run).toMatchObject({ status: 0, stdout: '2.1.332 (Claude Code)\n' })
  })

  test('says exactly as many bytes and lines as it was told', async () => {
    const bytes = 300_001
    const machine = await agentMachine({
      turns: { long: [{ say: { $bytes: bytes } }], lines: [{ say: { $lines: 26 } }] },
    })
    const session = machine.open()

    session.send(userMessage('long'))
    session.send(userMessage('lines'))
    const [long, lines] = [await resultOf(session), await resultOf(session, 1)]

    expect(Buffer.byteLength(String(long['result']))).toBe(bytes)
    expect(String(lines['result']).split('\n')).toHaveLength(26)
  })

  test('adds up what a session costs over its processes', async () => {
    const turns = { one: [{ usage: { input_tokens: 1000, output_tokens: 100 } }, { say: '1' }], two: [{ say: '2' }] }
    const machine = await agentMachine({ turns })
    const id = randomUUID()
    const first = machine.open(['--session-id', id])
    first.send(userMessage('one'))
    const before = await resultOf(first)
    first.end()
    await first.exited

    const second = machine.open(['--resume', id])
    second.send(userMessage('two'))
    const after = await resultOf(second)

    expect(before['total_cost_usd']).toBeCloseTo(0.0045, 9)
    expect(after['total_cost_usd']).toBeCloseTo(0.0045 + 0.000105, 9)
    expect(after['usage']).toMatchObject({ input_tokens: 10, output_tokens: 5 })
  })

  test('killed before the model answered, it runs the same message after --resume', async () => {
    const machine = await agentMachine({ turns: { go: [{ wait_for_file: 'go' }, { say: 'Went.' }] } })
    const [id, uuid] = [randomUUID(), randomUUID()]
    const killed = machine.open(['--session-id', id])
    killed.send(userMessage('go', uuid))
    await killed.waitFor('init', (line) => line['subtype'] === 'init')
    killed.signal('SIGKILL')
    await killed.exited
    await writeFile(join(machine.workspace, 'go'), '')

    const again = machine.open(['--resume', id])
    again.send(userMessage('go', uuid))

    expect(await resultOf(again)).toMatchObject({ result: 'Went.' })
  })

  test('killed while a command runs, it leaves the command alive, and the same message does nothing after --resume', async () => {
    const machine = await agentMachine({ turns: { go: [{ tool: 'Bash', input: { command: endless } }, { say: 'x' }] } })
    const [id, uuid] = [randomUUID(), randomUUID()]
    const killed = machine.open(['--session-id', id, '--dangerously-skip-permissions'])
    killed.send(userMessage('go', uuid))
    const pidFile = join(machine.workspace, 'pid')
    await appears(pidFile)
    const pid = Number(await readFile(pidFile, 'utf8'))
    killed.signal('SIGKILL')
    await killed.exited

    const alive = isAlive(pid)
    const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
    process.kill(-pid, 'SIGKILL')
    const again = machine.open(['--resume', id])
    again.send(userMessage('go', uuid))
    await again.waitFor('the end', (line) => line['state'] === 'completed')
    again.end()

    expect(alive).toBe(true)
    expect(environment).toContain(`CLAUDE_CODE_SESSION_ID=${id}`)
    expect(await again.exited).toEqual({ code: 0, signal: null })
    expect(again.lines.map((line) => line['type'])).toEqual(['user', 'command_lifecycle'])
  })

  test('a stop ends the command with all its children', async () => {
    const machine = await agentMachine({ turns: { go: [{ tool: 'Bash', input: { command: endless } }, { say: 'x' }] } })
    const session = machine.open(['--dangerously-skip-permissions'])
    session.send(userMessage('go'))
    const pidFile = join(machine.workspace, 'pid')
    await appears(pidFile)

    session.send(controlRequest('stop', { subtype: 'interrupt' }))
    const result = await resultOf(session)

    expect(result).toMatchObject({ subtype: 'error_during_execution', terminal_reason: 'aborted_tools' })
    expect(isAlive(Number(await readFile(pidFile, 'utf8')))).toBe(false)
  })

  test('a stop before the turn has begun cancels the message, and there is no result', async () => {
    const machine = await agentMachine({ turns: { go: [{ say: 'x' }] } })
    const session = machine.open()
    const uuid = randomUUID()

    session.sendText(
      [userMessage('go', uuid), controlRequest('stop', { subtype: 'interrupt', cancel_queued: true })]
        .map((line) => JSON.stringify(line))
        .join('\n'),
    )
    session.end()

    expect(await session.exited).toEqual({ code: 0, signal: null })
    expect(session.lines.map((line) => line['state'] ?? line['type'])).toEqual([
      'queued',
      'cancelled',
      'control_response',
    ])
  })

  test('SIGINT ends the turn as a stop does, and the process with 0', async () => {
    const machine = await agentMachine({ turns: { go: [{ hang: true }] } })
    const session = machine.open()
    session.send(userMessage('go'))
    await session.waitFor('init', (line) => line['subtype'] === 'init')

    session.signal('SIGINT')

    expect(await session.exited).toEqual({ code: 0, signal: null })
    expect(await resultOf(session)).toMatchObject({ terminal_reason: 'aborted_streaming' })
  })

  test.each([
    { crash: { exit: 7 }, exit: { code: 7, signal: null } },
    { crash: { signal: 'SIGKILL' }, exit: { code: null, signal: 'SIGKILL' } },
  ])('crashes as told: $crash', async ({ crash, exit }) => {
    const machine = await agentMachine({ turns: { go: [{ say: 'Before.' }, { crash }] } })
    const session = machine.open()

    session.send(userMessage('go'))

    expect(await session.exited).toEqual(exit)
    expect(contents(session)).toEqual(['Before.'])
  })

  test('takes a message in between two answers when the scenario waits for one', async () => {
    const turns = {
      go: [{ say: 'Waiting.' }, { wait_for_message: true }, { say: { $join: ['Got: ', { $ref: 'messages.1' }] } }],
    }
    const machine = await agentMachine({ turns })
    const session = machine.open()
    session.send(userMessage('go', randomUUID()))
    await session.waitFor('the first text', (line) => line['type'] === 'assistant')

    session.send(userMessage('left, not right', randomUUID()))

    expect(await resultOf(session)).toMatchObject({ result: 'Got: left, not right' })
  })

  test('does not hand the subscription token to commands', async () => {
    const command = 'echo key=$ANTHROPIC_API_KEY token=$CLAUDE_CODE_OAUTH_TOKEN'
    const machine = await agentMachine({
      turns: { go: [{ tool: 'Bash', input: { command }, as: 'seen' }, { say: { $ref: 'seen' } }] },
    })
    const session = machine.open([], { CLAUDE_CODE_OAUTH_TOKEN: 'secret', ANTHROPIC_API_KEY: 'given' })

    session.send(userMessage('go'))

    expect(await resultOf(session)).toMatchObject({ result: 'key=given token=' })
  })

  test('keeps no history when told so', async () => {
    const machine = await agentMachine({ turns: { go: [{ say: 'x' }] } })
    const session = machine.open(['--no-session-persistence'])
    session.send(userMessage('go'))
    await resultOf(session)

    expect(existsSync(join(machine.config, 'projects')) ? readdirSync(join(machine.config, 'projects')) : []).toEqual(
      [],
    )
  })

  test('prints the result alone as JSON', async () => {
    const machine = await agentMachine({ turns: { go: [{ say: 'x' }] } })

    const session = machine.start(['-p', 'go', '--output-format', 'json'])
    await session.exited

    expect(session.lines).toMatchObject([{ type: 'result', result: 'x', is_error: false }])
  })
})

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parseFlags } from '../../../src/cli/demo/scripted-agent/flags.ts'
import { parseScenario } from '../../../src/cli/demo/scripted-agent/scenario.ts'
import { controlRequest, userMessage } from '../../fixtures/scenarios/session.ts'
import { agentMachine, refusal } from './agent.ts'

const hello = { turns: { hello: [{ say: 'Hello.' }] } }

describe('the scripted agent ends with 64 on what it does not know', () => {
  test.each([
    { args: ['--include-partial-messages'], names: '--include-partial-messages' },
    { args: ['--frobnicate=1'], names: '--frobnicate=1' },
    { args: ['--permission-mode', 'plan'], names: 'plan' },
    { args: ['--max-turns', 'many'], names: '--max-turns' },
    { args: ['--session-id'], names: '--session-id needs a value' },
    { args: ['one', 'two'], names: 'two' },
  ])('on the command line: $names', ({ args, names }) => {
    expect(() => parseFlags(args)).toThrow(names)
  })

  test.each([
    { args: ['--frobnicate'], names: '--frobnicate' },
    { args: ['--setting-sources', 'team'], names: 'team' },
    { args: ['--mcp-config', '{"mcpServers":{"far":{"type":"http","url":"http://127.0.0.1"}}}'], names: 'far' },
  ])('when it starts: $names', async ({ args, names }) => {
    const machine = await agentMachine(hello)

    const refused = await refusal(machine.open(args))

    expect(refused).toEqual({ code: 64, stderr: expect.stringContaining(names) as string })
  })

  test.each([
    { line: { type: 'hello' }, names: '"hello"' },
    { line: controlRequest('1', { subtype: 'interrupt', now: true }), names: 'interrupt has no field now' },
    { line: controlRequest('1', { subtype: 'initialize', hooks: { Stop: [] } }), names: 'hooks' },
    { line: { ...userMessage('hello'), priority: 'now' }, names: 'priority' },
    { line: userMessage('hello '), names: 'no turn for the message "hello "' },
  ])('on standard input: $names', async ({ line, names }) => {
    const machine = await agentMachine(hello)
    const session = machine.open()

    session.send(line)

    expect(await refusal(session)).toEqual({ code: 64, stderr: expect.stringContaining(names) as string })
  })

  test.each([
    { turn: [{ sing: 'la' }], names: 'sing' },
    { turn: [{ say: 'x', loudly: true }], names: 'loudly' },
    { turn: [{ say: 'x', think: 'y' }], names: 'unknown step' },
    { turn: [{ tool: 'Bash', input: {}, after: 1 }], names: 'after' },
    { turn: [{ crash: { signal: 'SIGSEGV' } }], names: 'SIGKILL' },
    { turn: [{ http_error: { status: 'bad' } }], names: 'whole number' },
    { turn: [], names: 'list of steps' },
  ])('in a scenario, before anything runs: $names', ({ turn, names }) => {
    expect(() => parseScenario({ turns: { hello: turn } })).toThrow(names)
  })

  test.each([
    { turn: [{ say: { $now: 1 } }], names: '$now' },
    { turn: [{ say: { $ref: 'nothing.there' } }], names: 'nothing.there' },
    {
      turn: [{ tool: 'Bash', input: { command: 'true', run_in_background: true } }, { say: 'x' }],
      names: 'run_in_background',
    },
    { turn: [{ tool: 'Bash', input: { command: 'true' } }], names: 'ended after a call' },
  ])('in a scenario, when it comes to it: $names', async ({ turn, names }) => {
    const machine = await agentMachine({ turns: { hello: turn } })
    const session = machine.open()

    session.send(userMessage('hello'))

    expect(await refusal(session)).toEqual({ code: 64, stderr: expect.stringContaining(names) as string })
  })

  test('in a launch that would load the settings of a repository', async () => {
    const machine = await agentMachine(hello)
    await mkdir(join(machine.workspace, '.claude'))
    await writeFile(join(machine.workspace, '.claude', 'settings.json'), '{}')

    const refused = await refusal(machine.start(['-p', '--verbose', '--setting-sources', 'project', 'hello']))

    expect(refused).toEqual({ code: 64, stderr: expect.stringContaining('settings.json') as string })
  })
})

describe('the scripted agent ends with 1 on what the real program refuses', () => {
  test.each([
    {
      args: ['-p', '--output-format', 'stream-json', 'x'],
      says: 'Error: When using --print, --output-format=stream-json requires --verbose',
    },
    {
      args: ['-p', '--append-system-prompt-file', 'missing.md', 'x'],
      says: 'Error: Append system prompt file not found: missing.md',
    },
  ])('$says', async ({ args, says }) => {
    const machine = await agentMachine(hello)

    expect(await refusal(machine.start(args))).toEqual({ code: 1, stderr: `${says}\n` })
  })

  test('a line that is no JSON', async () => {
    const machine = await agentMachine(hello)
    const session = machine.open()

    session.sendText('this is not json')

    expect(await refusal(session)).toEqual({
      code: 1,
      stderr: 'Error parsing streaming input line (type=unknown, 16 chars): SyntaxError\n',
    })
  })
})

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { controlRequest, userMessage } from '../../fixtures/scenarios/session.ts'
import { type AgentMachine, agentMachine, contents, resultOf } from './agent.ts'

const echoServer = fileURLToPath(new URL('../../fixtures/scenarios/echo-server.ts', import.meta.url))

/** A hub session with the echo server under the name `echo`; `server` adds to its configuration. */
function hubFlags(machine: AgentMachine, server: object = {}): readonly string[] {
  const env = { ECHO_LOG: join(machine.root, 'echo.jsonl') }
  const config = { type: 'stdio', command: process.execPath, args: [echoServer], env, ...server }
  const servers = JSON.stringify({ mcpServers: { echo: config } })
  return ['--allowedTools', 'mcp__echo', '--mcp-config', servers]
}

function asks(input: object): object {
  return { turns: { go: [{ tool: 'mcp__echo__echo', input, as: 'answer' }, { say: { $ref: 'answer' } }] } }
}

async function received(machine: AgentMachine): Promise<readonly string[]> {
  const lines = (await readFile(join(machine.root, 'echo.jsonl'), 'utf8')).trim().split('\n')
  return lines.map((line) => {
    const fact = JSON.parse(line) as { received?: { method?: string }; signal?: string }
    return fact.received?.method ?? fact.signal ?? 'start'
  })
}

describe('the scripted agent as a hub session', () => {
  test('speaks to its server as the real program does, and ends it with SIGINT', async () => {
    const machine = await agentMachine(asks({ text: 'hello' }))
    const session = machine.open(hubFlags(machine))
    session.send(userMessage('go'))
    const result = await resultOf(session)
    session.end()
    await session.exited

    expect(result['result']).toBe('{"text":"hello"}')
    expect(await received(machine)).toEqual([
      ...['start', 'server/discover', 'initialize', 'notifications/initialized', 'tools/list', 'tools/call', 'SIGINT'],
    ])
  })

  test('shows the beginning of an answer that is too large, and keeps the rest in a file', async () => {
    const machine = await agentMachine(asks({ text: { $bytes: 50_001 } }))
    const session = machine.open(hubFlags(machine))

    session.send(userMessage('go'))
    const text = String((await resultOf(session))['result'])

    const [, path = ''] = /Full output saved to: (\S+)/.exec(text) ?? []
    expect(text.length).toBeLessThan(3_000)
    expect(await readFile(path, 'utf8')).toHaveLength(50_001 + '{"text":""}'.length + countEscapes(50_001))
  })

  test('an answer just below the bound is shown whole', async () => {
    const machine = await agentMachine(asks({ text: { $bytes: 48_000 } }))
    const session = machine.open(hubFlags(machine))

    session.send(userMessage('go'))

    const shown = JSON.parse(String((await resultOf(session))['result'])) as { text: string }
    expect(shown.text).toHaveLength(48_000)
  })

  test('a call that takes longer than its server may is given up', async () => {
    const machine = await agentMachine(asks({ silent: true }))
    const session = machine.open(hubFlags(machine, { timeout: 300 }))

    session.send(userMessage('go'))

    expect((await resultOf(session))['result']).toBe('MCP server "echo" tool "echo" timed out after 0.3s')
  })

  test('a server that died is not started again', async () => {
    const call = { tool: 'mcp__echo__echo', input: { die: true } }
    const machine = await agentMachine({ turns: { go: [call, call, { say: 'x' }] } })
    const session = machine.open(hubFlags(machine))

    session.send(userMessage('go'))
    await resultOf(session)

    expect(contents(session)).toEqual([
      'MCP error -32000: Connection closed',
      '<tool_use_error>Error: No such tool available: mcp__echo__echo</tool_use_error>',
      'x',
    ])
  })

  test('a server that cannot be started is shown as failed', async () => {
    const machine = await agentMachine({ turns: { go: [{ say: 'x' }] } })
    const session = machine.open(hubFlags(machine, { command: join(machine.root, 'missing') }))
    session.send(userMessage('go'))
    await resultOf(session)

    const init = session.lines.find((line) => line['subtype'] === 'init')
    expect(init?.['mcp_servers']).toEqual([{ name: 'echo', status: 'failed', source: 'dynamic' }])
  })

  test('a stop during a call ends the turn', async () => {
    const machine = await agentMachine(asks({ silent: true }))
    const session = machine.open(hubFlags(machine))
    session.send(userMessage('go'))
    await session.waitFor('the call', (line) => JSON.stringify(line).includes('"tool_use"'))

    session.send(controlRequest('stop', { subtype: 'interrupt', cancel_queued: true }))

    expect(await resultOf(session)).toMatchObject({ terminal_reason: 'aborted_tools', is_error: true })
  })

  test('finds the servers that were added for the folder and the project, unless told to be strict', async () => {
    const machine = await agentMachine({ turns: { go: [{ say: 'x' }] } })
    const server = { type: 'stdio', command: process.execPath, args: [echoServer] }
    await machine.write('config/.claude.json', { projects: { [machine.workspace]: { mcpServers: { mine: server } } } })
    await machine.write('workspace/.mcp.json', { mcpServers: { ours: server } })
    const flags = ['-p', 'go', '--output-format', 'stream-json', '--verbose', '--setting-sources', '']

    const names = async (args: readonly string[]): Promise<readonly string[]> => {
      const session = machine.start(args)
      await session.exited
      const init = session.lines.find((line) => line['subtype'] === 'init')
      const servers = init?.['mcp_servers'] as { name: string; source: string }[] | undefined
      return servers?.map(({ name, source }) => `${name} ${source}`) ?? []
    }

    expect((await names(flags)).toSorted()).toEqual(['mine local', 'ours project'])
    expect(await names([...flags, '--strict-mcp-config'])).toEqual([])
  })
})

/** Newlines take two characters in JSON. */
function countEscapes(bytes: number): number {
  return Math.floor(bytes / 64)
}

import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import { type HubConnection, HubLink } from '../../src/mcp/hub-link.ts'
import { hubInstructions } from '../../src/mcp/instructions.ts'
import { type Adapter, serveMcp } from '../../src/mcp/server.ts'
import { hubTools } from '../../src/mcp/tools/table.ts'
import { toolNames } from '../../src/ports/hub-api.ts'
import { type ScriptedHub, scriptedHub } from '../control/scripted-hub.ts'

interface Message {
  readonly id?: number
  readonly result?: Record<string, unknown>
  readonly error?: { readonly code: number }
  readonly method?: string
}

/** A client on the other end of the pipes; every hub that `connect` gives out is `hub`, unless a test says otherwise. */
async function openAdapter(hub: ScriptedHub, connect = async (): Promise<HubConnection> => connectionTo(hub)) {
  const input = new PassThrough()
  const output = new PassThrough()
  const link = new HubLink({ connect }, { pid: 1, host: 'here', since: '', sessionKey: 'session-1' })
  const adapter: Adapter = await serveMcp({
    link,
    input,
    output,
    version: '0',
    callKeyOf: (id) => `call-${id ?? 'random'}`,
  })
  const arrived: Message[] = []
  const waiting = new Map<number, (message: Message) => void>()
  let rest = ''
  output.on('data', (chunk: Buffer) => {
    rest += chunk.toString()
    for (;;) {
      const end = rest.indexOf('\n')
      if (end < 0) return
      const message = JSON.parse(rest.slice(0, end)) as Message
      rest = rest.slice(end + 1)
      arrived.push(message)
      waiting.get(message.id ?? -1)?.(message)
    }
  })
  const write = (message: object): void => void input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const request = (id: number, method: string, params: object): Promise<Message> => {
    const answer = new Promise<Message>((resolve) => waiting.set(id, resolve))
    write({ id, method, params })
    return answer
  }
  return { adapter, input, output, write, request, arrived }
}

function connectionTo(hub: ScriptedHub): HubConnection {
  return {
    hub: {
      ...hub,
      hold: async (session) => ({ ...(await hub.hold(session)), lost: new Promise<void>(() => undefined) }),
    },
  }
}

const toolCall = (name: string, toolUseId: string, args: object = {}): object => ({
  name,
  arguments: args,
  _meta: { 'claudecode/toolUseId': toolUseId },
})

describe('the adapter', () => {
  test('answers the client’s probe for a newer protocol with method not found', async () => {
    const { request } = await openAdapter(scriptedHub())

    const answer = await request(1, 'server/discover', {})

    expect(answer.error?.code).toBe(-32601)
  })

  test.each([
    ['arguments that are text', { name: 'list_nodes', arguments: 'all' }, 'invalid_argument'],
    ['arguments that are a list', { name: 'list_nodes', arguments: [{}] }, 'invalid_argument'],
    ['a name that is none', { name: 7, arguments: {} }, 'unknown_tool'],
    ['no parameters', undefined, 'unknown_tool'],
  ])('refuses %s with a tool error', async (_name, params, code) => {
    const hub = scriptedHub()
    const { request } = await openAdapter(hub)

    const answer = await request(1, 'tools/call', params as object)

    expect(answer.error).toBeUndefined()
    expect(answer.result).toMatchObject({ isError: true, content: [{ text: expect.stringContaining(`"${code}"`) }] })
    expect(hub.calls).toEqual([])
  })

  test('lists seven tools, each loaded, described and with schemas', async () => {
    const { request } = await openAdapter(scriptedHub())

    const answer = await request(1, 'tools/list', {})

    const tools = answer.result?.['tools'] as Record<string, unknown>[]
    expect(tools.map((tool) => tool['name']).sort()).toEqual([...toolNames].sort())
    for (const tool of tools) {
      expect(tool['_meta']).toEqual({ 'anthropic/alwaysLoad': true })
      expect(tool['inputSchema']).toMatchObject({ type: 'object', additionalProperties: false })
      expect(tool['outputSchema']).toMatchObject({ type: 'object' })
    }
  })

  test('stays within the lengths that the client cuts at', () => {
    expect(hubInstructions.length).toBeLessThanOrEqual(2048)
    for (const tool of hubTools) expect(tool.description.length).toBeLessThanOrEqual(1024)
  })

  test('confirms a reply once it has been written, and not before', async () => {
    const hub = scriptedHub()
    const { request } = await openAdapter(hub)

    const answer = await request(1, 'tools/call', toolCall('wait_for_agents', 'toolu_1'))

    expect(answer.result?.['structuredContent']).toEqual({ echoed: {} })
    await expect.poll(() => hub.words).toEqual(['confirm call-toolu_1'])
  })

  test('does not confirm what could not be written', async () => {
    const hub = scriptedHub()
    const { adapter, output, write } = await openAdapter(hub)
    hub.answer = async () => {
      output.destroy(new Error('the client is gone'))
      return { body: '{}' }
    }

    write({ id: 1, method: 'tools/call', params: toolCall('wait_for_agents', 'toolu_1') })

    await adapter.closed
    await adapter.close()
    expect(hub.words).toEqual([])
  })

  test('withdraws a reply that the client cancelled before anything was written', async () => {
    const hub = scriptedHub()
    const { write, arrived } = await openAdapter(hub)
    hub.answer = (call) =>
      new Promise((resolve) => {
        call.signal?.addEventListener('abort', () => resolve({ body: '{}' }), { once: true })
        write({ method: 'notifications/cancelled', params: { requestId: 1 } })
      })

    write({ id: 1, method: 'tools/call', params: toolCall('wait_for_agents', 'toolu_1') })

    await expect.poll(() => hub.words).toEqual(['withdraw call-toolu_1'])
    expect(arrived).toEqual([])
  })

  test('casts doubt on a reply whose cancellation crossed it', async () => {
    const hub = scriptedHub()
    const { request, write } = await openAdapter(hub)
    await request(1, 'tools/call', toolCall('wait_for_agents', 'toolu_1'))

    write({ method: 'notifications/cancelled', params: { requestId: 1 } })

    await expect.poll(() => hub.words.at(-1)).toBe('doubt call-toolu_1')
  })

  test('repeats a call under its key on the next hub when the first one died', async () => {
    const dead = scriptedHub()
    dead.answer = async () => {
      throw new NfltrError('link_down', 'The hub went away before it answered.')
    }
    const next = scriptedHub()
    const hubs = [dead, next]
    const { request } = await openAdapter(next, async () => connectionTo(hubs.shift() ?? next))

    const answer = await request(1, 'tools/call', toolCall('spawn_agent', 'toolu_1', { brief: 'x' }))

    expect(answer.result?.['structuredContent']).toEqual({ echoed: { brief: 'x' } })
    expect([...dead.calls, ...next.calls].map((call) => call.callKey)).toEqual(['call-toolu_1', 'call-toolu_1'])
  })

  test('turns a refusal into a tool error that names code and argument', async () => {
    const hub = scriptedHub()
    hub.answer = async () => {
      throw new NfltrError('invalid_argument', 'The brief was empty.', { details: { argument: 'brief' } })
    }
    const { request } = await openAdapter(hub)

    const answer = await request(1, 'tools/call', toolCall('spawn_agent', 'toolu_1'))

    expect(answer.result?.['isError']).toBe(true)
    const [content] = (answer.result?.['content'] ?? []) as { text: string }[]
    expect(JSON.parse(content?.text ?? '')).toMatchObject({
      error: { code: 'invalid_argument', details: { argument: 'brief' } },
    })
  })

  test('refuses an unknown tool by name', async () => {
    const { request } = await openAdapter(scriptedHub())

    const answer = await request(1, 'tools/call', toolCall('start_monitor', 'toolu_1'))

    expect(JSON.stringify(answer.result)).toContain('start_monitor')
    expect(answer.result?.['isError']).toBe(true)
  })

  test('closes when the client closes its side', async () => {
    const { adapter, input } = await openAdapter(scriptedHub())

    input.end()

    await adapter.closed
    await adapter.close()
  })
})

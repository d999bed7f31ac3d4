import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import process from 'node:process'
import { pathToFileURL } from 'node:url'
import type { ServerConfig } from './mcp-config.ts'
import { type RpcChild, RpcError, startRpcChild } from './rpc.ts'
import { failed, type Outcome } from './tools.ts'
import { isRecord, parsedResult } from './values.ts'

/** The MCP servers of a session, started and asked as Claude Code 2.1.332 does it. */
export interface McpServers {
  /** As `init` and `mcp_status` show them. */
  readonly states: readonly {
    readonly name: string
    readonly status: 'connected' | 'failed'
    readonly source: string
  }[]
  /** Full names, `mcp__<server>__<tool>`. */
  readonly tools: readonly string[]
  /** Fields an assistant line carries beside a call of this tool. */
  describe(tool: string): { display_name: string; server_display_name: string; tool_name: string } | undefined
  call(tool: string, input: unknown, options: { toolUseId: string; signal: AbortSignal }): Promise<Outcome>
  close(): Promise<void>
}

export interface McpOptions {
  readonly cwd: string
  readonly sessionId: string
  /** Where an answer that is too large for the model is put. */
  resultPath(toolUseId: string): string
  elicit(server: string, params: Record<string, unknown>): Promise<object>
}

interface Tool {
  readonly server: ServerConfig
  readonly rpc: RpcChild
  readonly name: string
  readonly title: string
}

const client = {
  protocolVersion: '2025-11-25',
  capabilities: { roots: { listChanged: true }, elicitation: { form: {}, url: {} } },
  clientInfo: { name: 'claude-code', title: 'Claude Code', version: '2.1.332' },
}

const connectTimeoutMs = 30_000

/** Above this many characters the real CLI writes the answer to a file and shows the model its beginning. */
const resultMaxChars = 50_000
const previewChars = 2_000

export async function startServers(configs: readonly ServerConfig[], options: McpOptions): Promise<McpServers> {
  const tools = new Map<string, Tool>()
  const children: RpcChild[] = []
  const states: McpServers['states'][number][] = []
  await Promise.all(
    configs.map(async (server) => {
      const rpc = startRpcChild({
        ...server,
        cwd: options.cwd,
        env: { ...process.env, ...sessionEnvironment(options), ...server.env },
        answer: (method, params) => answerServer(server.name, method, params, options),
      })
      children.push(rpc)
      const found = await connect(rpc).catch(() => undefined)
      states.push({ name: server.name, status: found === undefined ? 'failed' : 'connected', source: server.source })
      for (const tool of found ?? []) tools.set(`mcp__${server.name}__${tool.name}`, { server, rpc, ...tool })
    }),
  )
  return {
    states,
    tools: [...tools.keys()],
    describe: (name) => {
      const tool = tools.get(name)
      if (tool === undefined) return undefined
      return { display_name: tool.title, server_display_name: tool.server.name, tool_name: tool.name }
    },
    call: async (name, input, { toolUseId, signal }) => {
      const tool = tools.get(name)
      if (tool === undefined || !tool.rpc.alive) {
        return failed(`<tool_use_error>Error: No such tool available: ${name}</tool_use_error>`)
      }
      try {
        const timeoutMs = tool.server.timeoutMs ?? numberFrom(process.env['MCP_TOOL_TIMEOUT'])
        const meta = { 'claudecode/toolUseId': toolUseId }
        const result = await tool.rpc.request(
          'tools/call',
          (id) => ({ name: tool.name, arguments: input, _meta: { ...meta, progressToken: id } }),
          { timeoutMs, signal },
        )
        return shown(result, options.resultPath(toolUseId))
      } catch (error) {
        if (!(error instanceof RpcError)) throw error
        if (error.kind === 'aborted') return { ...failed('aborted'), aborted: true }
        if (error.kind !== 'timeout') return failed(error.message)
        return failed(`MCP server "${tool.server.name}" tool "${tool.name}" ${error.message}`)
      }
    },
    close: async () => {
      await Promise.all(children.map((child) => child.close()))
    },
  }
}

async function connect(rpc: RpcChild): Promise<readonly { name: string; title: string }[]> {
  const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
  const timeoutMs = connectTimeoutMs
  // A server of today answers "method not found", and is then spoken to as before.
  await rpc
    .request('server/discover', { _meta: meta }, { id: 'server-discover-probe-1', timeoutMs })
    .catch((error: unknown) => {
      if (!(error instanceof RpcError && error.kind === 'answer')) throw error
    })
  await rpc.request('initialize', client, { timeoutMs })
  rpc.notify('notifications/initialized')
  const tools: { name: string; title: string }[] = []
  let cursor: unknown
  do {
    const page = await rpc.request('tools/list', cursor === undefined ? undefined : { cursor }, { timeoutMs })
    for (const tool of Array.isArray(page['tools']) ? page['tools'].filter(isRecord) : []) {
      const name = String(tool['name'])
      tools.push({ name, title: typeof tool['title'] === 'string' ? tool['title'] : name })
    }
    cursor = page['nextCursor']
  } while (cursor !== undefined)
  return tools
}

/** `structuredContent` replaces the text in what the model sees, but not in an error (measured). */
function shown(result: Record<string, unknown>, path: string): Outcome {
  const content = Array.isArray(result['content']) ? result['content'].filter(isRecord) : []
  const text = content.map((block) => block['text']).filter((part) => typeof part === 'string')
  if (result['isError'] === true) return failed(text.join('\n'))
  const structured = result['structuredContent']
  const seen = structured === undefined ? text.join('\n') : JSON.stringify(structured)
  if (seen.length > resultMaxChars) return persisted(seen, path)
  if (structured === undefined) return { content, isError: false, toolUseResult: content, value: parsedResult(seen) }
  const toolUseResult = { content: seen, structuredContent: structured }
  return { content: seen, isError: false, toolUseResult, value: structured }
}

function persisted(text: string, path: string): Outcome {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
  const size = `${(Buffer.byteLength(text) / 1024).toFixed(1)}KB`
  const preview = text.slice(0, previewChars)
  const content = `<persisted-output>\nOutput too large (${size}). Full output saved to: ${path}\n\nPreview (first 2KB):\n${preview}\n...\n</persisted-output>`
  return { content, isError: false, toolUseResult: content, value: content }
}

async function answerServer(
  server: string,
  method: string,
  params: unknown,
  options: McpOptions,
): Promise<object | undefined> {
  if (method === 'ping') return {}
  if (method === 'roots/list') return { roots: [{ uri: pathToFileURL(options.cwd).href }] }
  if (method === 'elicitation/create') return await options.elicit(server, isRecord(params) ? params : {})
  return undefined
}

function sessionEnvironment(options: McpOptions): NodeJS.ProcessEnv {
  return {
    CLAUDECODE: '1',
    CLAUDE_PROJECT_DIR: options.cwd,
    CLAUDE_CODE_SESSION_ID: options.sessionId,
    CLAUDE_CODE_ENTRYPOINT: 'sdk-cli',
    AI_AGENT: 'claude-code_2-1-332_harness',
  }
}

function numberFrom(text: string | undefined): number | undefined {
  return text === undefined || text === '' ? undefined : Number(text)
}

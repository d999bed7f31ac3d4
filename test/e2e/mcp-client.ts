import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { waitingFor } from '../support/open-waits.ts'
import type { Machine } from './machine.ts'

/** A Claude Code session as the adapter sees it: an MCP client over stdio. */
export interface McpSession {
  readonly client: Client
  readonly pid: number
  /** Calls a tool; a tool error is thrown with its document's text. */
  tool(name: string, args: Readonly<Record<string, unknown>>): Promise<Record<string, unknown>>
  /** Calls a tool that has to be refused, and gives the error's fields. */
  refused(
    name: string,
    args: Readonly<Record<string, unknown>>,
  ): Promise<{ code: string; message: string; details: Record<string, unknown> }>
  close(): Promise<void>
}

export function openSession(
  machine: Machine,
  options: { readonly args?: readonly string[] } = {},
): Promise<McpSession> {
  return connectTo({
    command: process.execPath,
    args: [...machine.program, 'mcp', '--toolset', 'hub', ...(options.args ?? [])],
    env: { ...machine.env, CLAUDE_PROJECT_DIR: machine.project },
    cwd: machine.project,
  })
}

/** Starts an adapter and opens a session with it, as Claude Code does with the command that it was given. */
export async function connectTo(adapter: {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
}): Promise<McpSession> {
  const { command, args, env, cwd } = adapter
  const transport = new StdioClientTransport({ command, args: [...args], env: { ...env }, cwd, stderr: 'inherit' })
  const client = new Client({ name: 'test', version: '0' })
  await waitingFor(() => `the first words of ${command} ${args.join(' ')}`, client.connect(transport))
  const call = async (name: string, args: Readonly<Record<string, unknown>>): Promise<Record<string, unknown>> => {
    const reply = client.callTool({ name, arguments: { ...args } }, undefined, { timeout: 60_000 })
    const what = (): string => `the reply of ${name} to ${JSON.stringify(args).slice(0, 400)}`
    return (await waitingFor(what, reply)) as Record<string, unknown>
  }
  return {
    client,
    pid: transport.pid ?? -1,
    tool: async (name, args) => {
      const reply = await call(name, args)
      if (reply['isError'] === true) throw new Error(JSON.stringify(reply['content']))
      return reply['structuredContent'] as Record<string, unknown>
    },
    refused: async (name, args) => {
      const reply = await call(name, args)
      if (reply['isError'] !== true)
        throw new Error(`${name} was not refused: ${JSON.stringify(reply['structuredContent'])}`)
      const [first] = reply['content'] as { text: string }[]
      return (
        JSON.parse(first?.text ?? '{}') as {
          error: { code: string; message: string; details: Record<string, unknown> }
        }
      ).error
    },
    close: () => client.close(),
  }
}

import type { Readable, Writable } from 'node:stream'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import {
  type CallToolResult,
  type JSONRPCMessage,
  ListToolsRequestSchema,
  type ServerNotification,
} from '@modelcontextprotocol/sdk/types.js'
import * as z from 'zod'
import { errorDocument } from '../control/error-document.ts'
import { toolInputs } from '../control/schema/tool-inputs.ts'
import { toolOutputs } from '../control/schema/tool-outputs.ts'
import { NfltrError } from '../core/errors.ts'
import { type ToolName, toolNames } from '../ports/hub-api.ts'
import type { HubLink } from './hub-link.ts'
import { hubInstructions } from './instructions.ts'
import { StdioTransport } from './stdio-transport.ts'
import { hubTools } from './tools/table.ts'

/**
 * The MCP adapter: a thin client of the hub. It keeps nothing; what it owes is to say truthfully which replies left it
 * whole, which did not, and which the client may have thrown away (rule 1).
 */
export interface Adapter {
  /** Resolves once the client closed its side or the adapter was closed. */
  readonly closed: Promise<void>
  close(): Promise<void>
}

export async function serveMcp(options: {
  readonly link: HubLink
  readonly input: Readable
  readonly output: Writable
  readonly version: string
  /** Names calls: equal for a repeat of the same call by the same client, else never equal. */
  readonly callKeyOf: (toolUseId: string | undefined) => string
}): Promise<Adapter> {
  const { link } = options
  const transport = new StdioTransport(options.input, options.output)
  const server = new Server(
    { name: 'nfltr', version: options.version },
    { capabilities: { tools: {} }, instructions: hubInstructions },
  )
  const replies = new ReplyLedger(link)
  transport.onarrived = (message) => replies.arrived(message)
  transport.onsent = (message, error) => replies.sent(message, error)
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: listTools() }))
  server.setRequestHandler(callRequest, async (request, extra) => {
    const { name, arguments: args, _meta: meta } = request.params
    try {
      if (!isToolName(name))
        throw new NfltrError('unknown_tool', `There is no tool named ${name}.`, {
          hint: `Tools: ${toolNames.join(', ')}.`,
        })
      if (args === undefined)
        throw new NfltrError('invalid_argument', `The arguments of ${name} were no object.`, {
          details: { argument: 'arguments' },
        })
      // What became of earlier replies is told first: the hub must not doubt a reply that was confirmed just now.
      await replies.settled()
      const toolUseId = meta?.['claudecode/toolUseId']
      const callKey = options.callKeyOf(typeof toolUseId === 'string' ? toolUseId : undefined)
      const reply = await link.call({
        tool: name,
        args,
        callKey,
        signal: extra.signal,
        onProgress: progressSender(meta?.progressToken, (notification) => extra.sendNotification(notification)),
      })
      if (extra.signal.aborted) await link.withdraw(callKey)
      else replies.expect(extra.requestId, callKey)
      return {
        structuredContent: JSON.parse(reply.body) as Record<string, unknown>,
        content: [{ type: 'text', text: reply.body }],
      }
    } catch (thrown) {
      return toolError(thrown)
    }
  })
  const closed = new Promise<void>((resolve) => {
    server.onclose = resolve
  })
  await server.connect(transport)
  return {
    closed,
    close: async () => {
      await server.close()
      await replies.settled()
      await link.close()
    },
  }
}

/**
 * A tool call, whatever its parameters are: the kit would answer a wrong one with an internal error of its own. Arguments
 * that are no object are `undefined`.
 */
const callRequest = z.looseObject({
  method: z.literal('tools/call'),
  params: z
    .unknown()
    .optional()
    .transform((params) => {
      const given = isRecord(params) ? params : {}
      const { name, arguments: args = {}, _meta: meta } = given
      return {
        ...given,
        name: typeof name === 'string' ? name : '',
        arguments: isRecord(args) ? args : undefined,
        _meta: isRecord(meta) ? (meta as { [key: string]: unknown; progressToken?: string | number }) : {},
      }
    }),
})

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function listTools(): { name: string; [key: string]: unknown }[] {
  return hubTools.map((tool) => ({
    name: tool.name,
    title: tool.title,
    description: tool.description,
    inputSchema: z.toJSONSchema(toolInputs[tool.name], { io: 'input', target: 'draft-7' }) as { type: 'object' },
    outputSchema: z.toJSONSchema(toolOutputs[tool.name], { target: 'draft-7' }) as { type: 'object' },
    annotations: { title: tool.title, ...tool.annotations },
    // Without it the client lists the name only and the model has to look the tool up first.
    _meta: { 'anthropic/alwaysLoad': true },
  }))
}

function isToolName(name: string): name is ToolName {
  return (toolNames as readonly string[]).includes(name)
}

function toolError(thrown: unknown): CallToolResult {
  const document = errorDocument(thrown)
  return { isError: true, content: [{ type: 'text', text: JSON.stringify(document) }] }
}

function progressSender(
  token: string | number | undefined,
  notify: (notification: ServerNotification) => Promise<void>,
): (note: string) => void {
  let progress = 0
  return (message) => {
    if (token === undefined) return
    progress += 1
    notify({ method: 'notifications/progress', params: { progressToken: token, progress, message } }).catch(
      () => undefined,
    )
  }
}

/** Which replies are on their way, and what became of each. */
class ReplyLedger {
  readonly #link: HubLink
  readonly #expected = new Map<string | number, string>()
  readonly #cancelled = new Set<string | number>()
  /** Replies that left whole; a late cancellation still casts doubt on them. Oldest first. */
  readonly #written = new Map<string | number, string>()
  readonly #pending = new Set<Promise<void>>()

  constructor(link: HubLink) {
    this.#link = link
  }

  expect(requestId: string | number, callKey: string): void {
    this.#expected.set(requestId, callKey)
  }

  sent(message: JSONRPCMessage, error: Error | undefined): void {
    if (!('id' in message) || message.id === undefined || 'method' in message) return
    const callKey = this.#expected.get(message.id)
    if (callKey === undefined) return
    this.#expected.delete(message.id)
    const isCancelled = this.#cancelled.delete(message.id)
    if (error !== undefined) return
    if (isCancelled) {
      this.#track(this.#link.doubt(callKey))
      return
    }
    this.#written.set(message.id, callKey)
    for (const oldest of this.#written.keys()) {
      if (this.#written.size <= 64) break
      this.#written.delete(oldest)
    }
    this.#track(this.#link.confirm(callKey))
  }

  arrived(message: JSONRPCMessage): void {
    if (!('method' in message) || message.method !== 'notifications/cancelled') return
    const requestId = message.params?.['requestId']
    if (typeof requestId !== 'string' && typeof requestId !== 'number') return
    // The client may see a reply, and cancel, before this process learns that it was written.
    if (this.#expected.has(requestId)) this.#cancelled.add(requestId)
    const callKey = this.#written.get(requestId)
    if (callKey === undefined) return
    this.#written.delete(requestId)
    this.#track(this.#link.doubt(callKey))
  }

  async settled(): Promise<void> {
    await Promise.all(this.#pending)
  }

  /** A word that did not reach the hub leaves the entry offered, which reads as unconfirmed: never lost, never twice. */
  #track(word: Promise<void>): void {
    const settled = word
      .catch(() => undefined)
      .finally(() => {
        this.#pending.delete(settled)
      })
    this.#pending.add(settled)
  }
}

import type { DeniedTool, Usage } from '../../../core/model.ts'

/**
 * One line of Claude Code's standard output (`--output-format stream-json`), as far as a turn cares. Keys come in any
 * order, kinds and fields come and go between versions: what is not known is `other`, and never an error.
 *
 * Measured with 2.1.332; the authoritative types are in the Agent SDK's `sdk.d.ts`.
 */
export type StreamLine =
  /** Printed once per run of the model loop, before its first request. */
  | {
      readonly type: 'init'
      readonly sessionId: string
      readonly permissionMode: string
      readonly mcpServers: readonly string[]
      readonly capabilities: readonly string[]
      readonly version: string
    }
  | { readonly type: 'lifecycle'; readonly uuid: string; readonly state: string }
  /** A message of ours, echoed when the model loop takes it in. */
  | { readonly type: 'replay'; readonly uuid: string }
  | {
      readonly type: 'assistant'
      readonly messageId: string
      readonly blocks: readonly AssistantBlock[]
      /** False for what a sub-agent says. */
      readonly isMain: boolean
      readonly error: string | undefined
    }
  | { readonly type: 'tool_results'; readonly results: readonly ToolResult[] }
  | {
      readonly type: 'retry'
      readonly attempt: number
      readonly retriesMax: number
      readonly delayMs: number
      readonly status: number | undefined
      readonly error: string
    }
  | { readonly type: 'denied'; readonly tool: string; readonly toolUseId: string; readonly message: string }
  | ResultLine
  | {
      readonly type: 'request'
      readonly requestId: string
      readonly subtype: string
      readonly tool: string | undefined
    }
  | { readonly type: 'response'; readonly requestId: string }
  | { readonly type: 'progress'; readonly tool: string; readonly elapsedSeconds: number }
  | { readonly type: 'other' }
  /** Not a JSON object: the program was cut off in the middle of a line, or something else wrote there. */
  | { readonly type: 'broken' }

export type AssistantBlock =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'thinking'; readonly text: string }
  | { readonly type: 'tool_use'; readonly id: string; readonly tool: string; readonly input: string }

export interface ToolResult {
  readonly toolUseId: string
  readonly isError: boolean
  readonly text: string
}

/** Never trust `subtype: "success"`: a failed request has it too. `isError` and `terminalReason` tell. */
export interface ResultLine {
  readonly type: 'result'
  readonly subtype: string
  readonly isError: boolean
  readonly terminalReason: string | undefined
  readonly stopReason: string | undefined
  /** Absent in error results. */
  readonly text: string | undefined
  readonly errors: readonly string[]
  readonly apiStatus: number | undefined
  readonly startupFailure: string | undefined
  readonly denied: readonly (DeniedTool & { readonly toolUseId: string })[]
  readonly userMessageUuids: readonly string[]
  /** Since the result before, or since the process began; never of earlier turns of the session. */
  readonly usage: Usage
}

type Fields = Readonly<Record<string, unknown>>

const decoder = new TextDecoder()

export function parseLine(line: Uint8Array): StreamLine {
  let value: unknown
  try {
    value = JSON.parse(decoder.decode(line))
  } catch {
    return { type: 'broken' }
  }
  if (!isFields(value)) return { type: 'broken' }
  switch (value['type']) {
    case 'system':
      return parseSystem(value)
    case 'command_lifecycle':
      return { type: 'lifecycle', uuid: text(value['command_uuid']), state: text(value['state']) }
    case 'assistant':
      return parseAssistant(value)
    case 'user':
      return parseUser(value)
    case 'result':
      return parseResult(value)
    case 'control_request': {
      const request = fields(value['request'])
      const tool = typeof request['tool_name'] === 'string' ? request['tool_name'] : undefined
      return { type: 'request', requestId: text(value['request_id']), subtype: text(request['subtype']), tool }
    }
    case 'control_response':
      return { type: 'response', requestId: text(fields(value['response'])['request_id']) }
    case 'tool_progress':
      return { type: 'progress', tool: text(value['tool_name']), elapsedSeconds: number(value['elapsed_time_seconds']) }
    default:
      return { type: 'other' }
  }
}

function parseSystem(value: Fields): StreamLine {
  switch (value['subtype']) {
    case 'init':
      return {
        type: 'init',
        sessionId: text(value['session_id']),
        permissionMode: text(value['permissionMode']),
        mcpServers: list(value['mcp_servers']).map((server) => text(fields(server)['name'])),
        capabilities: list(value['capabilities']).map(text),
        version: text(value['claude_code_version']),
      }
    case 'api_retry':
      return {
        type: 'retry',
        attempt: number(value['attempt']),
        retriesMax: number(value['max_retries']),
        delayMs: number(value['retry_delay_ms']),
        status: typeof value['error_status'] === 'number' ? value['error_status'] : undefined,
        error: text(value['error']),
      }
    case 'permission_denied':
      return {
        type: 'denied',
        tool: text(value['tool_name']),
        toolUseId: text(value['tool_use_id']),
        message: text(value['message']),
      }
    default:
      return { type: 'other' }
  }
}

function parseAssistant(value: Fields): StreamLine {
  const message = fields(value['message'])
  return {
    type: 'assistant',
    messageId: text(message['id']),
    blocks: list(message['content']).flatMap((block) => parseBlock(fields(block))),
    isMain: typeof value['parent_tool_use_id'] !== 'string',
    error: typeof value['error'] === 'string' ? value['error'] : undefined,
  }
}

function parseBlock(block: Fields): readonly AssistantBlock[] {
  switch (block['type']) {
    case 'text':
      return [{ type: 'text', text: text(block['text']) }]
    case 'thinking':
      return [{ type: 'thinking', text: text(block['thinking']) }]
    case 'tool_use':
      return [{ type: 'tool_use', id: text(block['id']), tool: text(block['name']), input: json(block['input']) }]
    default:
      return []
  }
}

function parseUser(value: Fields): StreamLine {
  if (value['isReplay'] === true) return { type: 'replay', uuid: text(value['uuid']) }
  const content = fields(value['message'])['content']
  const results = list(content).flatMap((block): readonly ToolResult[] => {
    const { type, tool_use_id: id, is_error: isError, content: body } = fields(block)
    return type === 'tool_result' ? [{ toolUseId: text(id), isError: isError === true, text: resultText(body) }] : []
  })
  return results.length === 0 ? { type: 'other' } : { type: 'tool_results', results }
}

function resultText(body: unknown): string {
  if (typeof body === 'string') return body
  return list(body)
    .map((block) => text(fields(block)['text']))
    .join('\n')
}

function parseResult(value: Fields): ResultLine {
  return {
    type: 'result',
    subtype: text(value['subtype']),
    isError: value['is_error'] !== false,
    terminalReason: optionalText(value['terminal_reason']),
    stopReason: optionalText(value['stop_reason']),
    text: optionalText(value['result']),
    errors: list(value['errors']).map(text),
    apiStatus: typeof value['api_error_status'] === 'number' ? value['api_error_status'] : undefined,
    startupFailure: optionalText(value['startup_failure_reason']),
    denied: list(value['permission_denials']).map((denial) => {
      const { tool_name: tool, tool_use_id: id, tool_input: input } = fields(denial)
      return { tool: text(tool), toolUseId: text(id), input: json(input) }
    }),
    userMessageUuids: list(value['user_message_uuids']).map(text),
    usage: usageOf(value),
  }
}

/**
 * `usage` is empty when a run was cut short, and `total_cost_usd` counts earlier turns of the session as well; the usage
 * since the last result has neither fault. Input tokens include those that were read from or written to the cache.
 */
function usageOf(value: Fields): Usage {
  const durationMs = number(value['duration_ms'])
  const perModel = Object.values(fields(value['model_usage_since_last_result'])).map(fields)
  if (perModel.length === 0) {
    const usage = fields(value['usage'])
    const inputTokens = sum([
      usage['input_tokens'],
      usage['cache_creation_input_tokens'],
      usage['cache_read_input_tokens'],
    ])
    return { inputTokens, outputTokens: number(usage['output_tokens']), costUsd: 0, durationMs }
  }
  return {
    inputTokens: sum(
      perModel.flatMap((one) => [one['inputTokens'], one['cacheReadInputTokens'], one['cacheCreationInputTokens']]),
    ),
    outputTokens: sum(perModel.map((one) => one['outputTokens'])),
    costUsd: sum(perModel.map((one) => one['costUSD'])),
    durationMs,
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function fields(value: unknown): Fields {
  return isFields(value) ? value : {}
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function optionalText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function number(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0
}

function sum(values: readonly unknown[]): number {
  return values.reduce<number>((total, value) => total + number(value), 0)
}

function json(value: unknown): string {
  return value === undefined ? '' : JSON.stringify(value)
}

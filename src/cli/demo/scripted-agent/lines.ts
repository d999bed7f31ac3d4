import { randomUUID } from 'node:crypto'
import { costUsd, modelUsageLine, type Tokens, usageLine } from './usage.ts'

/** The lines of Claude Code 2.1.332's stream, as recorded. Fields that only its own interface reads are left out. */

export type Line = Readonly<Record<string, unknown>>

export const claudeVersion = '2.1.332'

export interface InitFacts {
  readonly cwd: string
  readonly sessionId: string
  readonly tools: readonly string[]
  readonly mcpServers: readonly object[]
  readonly model: string
  readonly permissionMode: string
  readonly apiKeySource: string
  readonly uuids: readonly string[]
}

export function initLine(facts: InitFacts): Line {
  return {
    type: 'system',
    subtype: 'init',
    cwd: facts.cwd,
    session_id: facts.sessionId,
    tools: facts.tools,
    mcp_servers: facts.mcpServers,
    model: facts.model,
    permissionMode: facts.permissionMode,
    slash_commands: [],
    apiKeySource: facts.apiKeySource,
    claude_code_version: claudeVersion,
    output_style: 'default',
    agents: [],
    skills: [],
    plugins: [],
    capabilities: ['interrupt_receipt_v1', 'interrupt_cancel_queued_v1', 'msg_lifecycle_v1'],
    uuid: randomUUID(),
    sandbox_enabled: false,
    original_cwd: facts.cwd,
    additional_directories: [],
    fast_mode_state: 'off',
    ...(facts.uuids.length === 0 ? {} : { user_message_uuids: facts.uuids }),
  }
}

export function lifecycleLine(sessionId: string, uuid: string, state: LifecycleState): Line {
  return { type: 'command_lifecycle', command_uuid: uuid, state, uuid: randomUUID(), session_id: sessionId }
}

export type LifecycleState = 'queued' | 'started' | 'completed' | 'cancelled'

export function replayLine(sessionId: string, text: string, uuid: string): Line {
  return {
    type: 'user',
    message: { role: 'user', content: text },
    session_id: sessionId,
    parent_tool_use_id: null,
    uuid,
    timestamp: new Date().toISOString(),
    isReplay: true,
  }
}

export function thinkingTokensLine(sessionId: string, tokens: number): Line {
  const estimate = { estimated_tokens: tokens, estimated_tokens_delta: tokens }
  return { type: 'system', subtype: 'thinking_tokens', ...estimate, session_id: sessionId, uuid: randomUUID() }
}

export interface AssistantFacts {
  readonly sessionId: string
  readonly messageId: string
  readonly model: string
  readonly block: object
  /** Fields beside the message: `aborted`, `error`, `tool_use_meta`, `user_message_uuids`. */
  readonly extra: Readonly<Record<string, unknown>>
}

/** One line per content block; blocks of one answer share the message id. */
export function assistantLine(facts: AssistantFacts): Line {
  return {
    type: 'assistant',
    message: {
      id: facts.messageId,
      type: 'message',
      role: 'assistant',
      model: facts.model,
      content: [facts.block],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 10, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 1 },
      context_management: null,
    },
    parent_tool_use_id: null,
    session_id: facts.sessionId,
    uuid: randomUUID(),
    timestamp: new Date().toISOString(),
    ...facts.extra,
  }
}

/** What the CLI says itself when the API gave up: no model, and the error beside it. */
export function syntheticLine(sessionId: string, text: string, extra: Readonly<Record<string, unknown>>): Line {
  return {
    type: 'assistant',
    message: {
      id: randomUUID(),
      type: 'message',
      role: 'assistant',
      model: '<synthetic>',
      content: [{ type: 'text', text }],
      stop_reason: 'stop_sequence',
      stop_sequence: '',
      usage: usageLine({ inputTokens: 0, outputTokens: 0 }),
    },
    parent_tool_use_id: null,
    session_id: sessionId,
    uuid: randomUUID(),
    timestamp: new Date().toISOString(),
    is_api_error_message: true,
    ...extra,
  }
}

export interface ToolResultFacts {
  readonly sessionId: string
  readonly toolUseId: string
  readonly content: unknown
  readonly isError: boolean
  readonly toolUseResult: unknown
  readonly meta?: object
}

export function toolResultLine(facts: ToolResultFacts): Line {
  const block = { tool_use_id: facts.toolUseId, type: 'tool_result', content: facts.content, is_error: facts.isError }
  return {
    ...userLine(facts.sessionId, [block]),
    tool_use_result: facts.toolUseResult,
    ...(facts.meta === undefined ? {} : { tool_result_meta: [{ id: facts.toolUseId, ...facts.meta }] }),
  }
}

export function interruptedLine(sessionId: string, duringTool: boolean): Line {
  const text = duringTool ? '[Request interrupted by user for tool use]' : '[Request interrupted by user]'
  return userLine(sessionId, [{ type: 'text', text }])
}

export interface ResultFacts {
  readonly sessionId: string
  readonly subtype: 'success' | 'error_during_execution' | 'error_max_turns' | 'error_max_budget_usd'
  readonly isError: boolean
  readonly terminalReason: string
  readonly stopReason: string | null
  readonly numTurns: number
  readonly resultIndex: number
  readonly durationMs: number
  readonly denials: readonly object[]
  readonly uuids: readonly string[]
  readonly model: string
  /** This turn's tokens, and those of the whole session. */
  readonly turn: Tokens
  readonly session: Tokens
  /** `result`, `errors`, `api_error_status`. */
  readonly extra: Readonly<Record<string, unknown>>
}

export function resultLine(facts: ResultFacts): Line {
  return {
    duration_api_ms: facts.durationMs,
    stop_reason: facts.stopReason,
    session_id: facts.sessionId,
    total_cost_usd: costUsd(facts.session),
    usage: usageLine(facts.turn),
    modelUsage: modelUsageLine(facts.model, facts.session),
    permission_denials: facts.denials,
    terminal_reason: facts.terminalReason,
    fast_mode_state: 'off',
    is_error: facts.isError,
    num_turns: facts.numTurns,
    subtype: facts.subtype,
    ...facts.extra,
    type: 'result',
    duration_ms: facts.durationMs,
    uuid: randomUUID(),
    ...(facts.uuids.length === 0 ? {} : { user_message_uuid: facts.uuids[0], user_message_uuids: facts.uuids }),
    queued_turn_count: 0,
    result_index: facts.resultIndex,
  }
}

function userLine(sessionId: string, content: readonly object[]): Record<string, unknown> {
  return {
    type: 'user',
    message: { role: 'user', content },
    parent_tool_use_id: null,
    session_id: sessionId,
    uuid: randomUUID(),
    timestamp: new Date().toISOString(),
  }
}

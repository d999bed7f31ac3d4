import { clip } from '../../../core/clip.ts'
import { limits } from '../../../core/limits.ts'
import type { MessageState, TaskEvent } from '../../../core/model.ts'
import type { TurnEffect } from '../../../ports/agent-driver.ts'
import { interruptPrefix, refusalLine } from './input-lines.ts'
import { addUsage, type ClaudeTurn, fateOf, type TurnStep, withMessage } from './state.ts'
import { type AssistantBlock, parseLine, type ResultLine, type StreamLine } from './stream.ts'

/** What the driver relies on and older programs do not have. */
const neededCapabilities = ['msg_lifecycle_v1', 'interrupt_cancel_queued_v1']

/** Calls whose input is remembered in case they are denied. */
const callsMax = 64

type Fields = Readonly<Record<string, string>>

/** What one line of the program changes in what is known of the turn, and what of it goes into the agent's log. */
export function onLine(turn: ClaudeTurn, bytes: Uint8Array): TurnStep {
  const line = parseLine(bytes)
  switch (line.type) {
    case 'init':
      return onInit(turn, line)
    case 'lifecycle':
      return onLifecycle(turn, line)
    case 'assistant':
      return onAssistant(turn, line)
    case 'tool_results':
      return onToolResults(turn, line)
    case 'retry':
      return onRetry(turn, line)
    case 'denied': {
      const input = turn.calls.get(line.toolUseId)?.input ?? ''
      const denied = new Map(turn.denied).set(line.toolUseId, { tool: line.tool, input })
      const fields = { tool: line.tool, tool_use_id: line.toolUseId, state: 'denied' }
      return { state: { ...turn, denied }, effects: [log('state', fields, line.message)] }
    }
    case 'result':
      return onResult(turn, line)
    case 'request':
      return { state: turn, effects: [{ type: 'answer', requestId: line.requestId, bytes: refusalLine(line) }] }
    case 'response': {
      const isInterruptAnswered = turn.isInterruptAnswered || line.requestId.startsWith(interruptPrefix)
      return { state: { ...turn, isInterruptAnswered }, effects: [] }
    }
    case 'progress':
      return logged(turn, log('progress', { tool: line.tool, elapsed_s: String(line.elapsedSeconds) }))
    case 'broken':
      return { state: { ...turn, isTruncated: true }, effects: [] }
    case 'replay':
    case 'other':
      return { state: turn, effects: [] }
  }
}

/** The second look at what was really loaded: the first is the launch that loads nothing (rule 30). */
function onInit(turn: ClaudeTurn, line: StreamLine & { type: 'init' }): TurnStep {
  const missing = neededCapabilities.filter((capability) => !line.capabilities.includes(capability))
  const state = { ...turn, sessionId: turn.sessionId ?? line.sessionId }
  if (missing.length > 0) {
    const message = `Claude Code ${line.version} lacks ${missing.join(', ')}: update it.`
    return { state: { ...state, failure: { reason: 'claude_too_old', message } }, effects: [] }
  }
  const unclean = uncleanness(turn, line)
  if (unclean !== undefined) {
    return { state: { ...state, failure: { reason: 'unclean_config', message: unclean } }, effects: [] }
  }
  if (turn.sessionId !== undefined) return { state, effects: [] }
  const fields = { state: 'running', session_id: line.sessionId, claude_version: line.version }
  return { state, effects: [{ type: 'session_ready', sessionId: line.sessionId }, log('state', fields)] }
}

function uncleanness(turn: ClaudeTurn, line: StreamLine & { type: 'init' }): string | undefined {
  const [server] = line.mcpServers
  if (server !== undefined) return `Claude Code loaded the MCP server ${server}, which the launch did not name.`
  if (line.permissionMode === 'bypassPermissions' && !turn.launch.allowAllTools) {
    return 'Claude Code skipped permissions, which the owner of this machine did not allow.'
  }
  return undefined
}

function onLifecycle(turn: ClaudeTurn, line: StreamLine & { type: 'lifecycle' }): TurnStep {
  const message = turn.messages.find(({ uuid }) => uuid === line.uuid)
  if (message === undefined) return { state: turn, effects: [] }
  switch (line.state) {
    case 'queued':
      return { state: withMessage(turn, { ...message, state: 'queued' }), effects: [messageLog(message, 'queued')] }
    case 'started':
      return { state: withMessage(turn, { ...message, state: 'started' }), effects: [messageLog(message, 'started')] }
    case 'completed':
      return settleMessage(turn, message, 'taken')
    case 'cancelled':
      return settleMessage(turn, message, message.state === 'started' ? 'interrupted' : 'withdrawn')
    default:
      return { state: turn, effects: [] }
  }
}

function settleMessage(
  turn: ClaudeTurn,
  message: ClaudeTurn['messages'][number],
  state: 'taken' | 'withdrawn' | 'interrupted',
): TurnStep {
  // What the model's result named stays taken, though the program calls an interrupted one cancelled afterwards.
  if (message.state === 'taken' || message.state === state) return { state: turn, effects: [] }
  const effects: TurnEffect[] = [messageLog(message, fateOf(state))]
  if (message.messageId !== turn.launch.firstMessageId) {
    effects.push({ type: 'message_state', messageId: message.messageId, state: fateOf(state) })
  }
  return { state: withMessage(turn, { ...message, state }), effects }
}

function onAssistant(turn: ClaudeTurn, line: StreamLine & { type: 'assistant' }): TurnStep {
  let state = line.error === undefined ? turn : { ...turn, apiError: line.error }
  const effects: TurnEffect[] = []
  for (const block of line.blocks) {
    if (block.type === 'text' && line.isMain) {
      const isSame = state.textOf === line.messageId && line.messageId !== ''
      state = { ...state, text: isSame ? `${state.text}${block.text}` : block.text, textOf: line.messageId }
    }
    if (block.type === 'tool_use') state = { ...state, calls: remember(state.calls, block) }
    effects.push(blockLog(block, line.isMain ? {} : { thread: 'sub_agent' }))
  }
  return { state, effects }
}

function remember(calls: ClaudeTurn['calls'], call: AssistantBlock & { type: 'tool_use' }): ClaudeTurn['calls'] {
  const next = new Map(calls).set(call.id, { tool: call.tool, input: clip(call.input, limits.deniedInputMaxBytes) })
  const [oldest] = next.keys()
  if (next.size > callsMax && oldest !== undefined) next.delete(oldest)
  return next
}

function blockLog(block: AssistantBlock, thread: Fields): TurnEffect {
  switch (block.type) {
    case 'text':
      return log('text', thread, block.text)
    case 'thinking':
      return log('reasoning', thread, block.text)
    case 'tool_use':
      return log('tool_call', { ...thread, tool: block.tool, tool_use_id: block.id }, block.input)
  }
}

function onToolResults(turn: ClaudeTurn, line: StreamLine & { type: 'tool_results' }): TurnStep {
  const calls = new Map(turn.calls)
  const effects = line.results.map(({ toolUseId, isError, text }) => {
    const tool = calls.get(toolUseId)?.tool
    calls.delete(toolUseId)
    const named = tool === undefined ? {} : { tool }
    return log('tool_result', { ...named, tool_use_id: toolUseId, is_error: String(isError) }, text)
  })
  return { state: { ...turn, calls }, effects }
}

/** A key that is refused stays refused: the program would try for minutes what only the machine's owner can mend. */
function onRetry(turn: ClaudeTurn, line: StreamLine & { type: 'retry' }): TurnStep {
  const { attempt, retriesMax, delayMs, status, error } = line
  const fields: Fields = {
    attempt: `${attempt}/${retriesMax}`,
    delay_ms: String(Math.round(delayMs)),
    error,
    ...(status === undefined ? {} : { status: String(status) }),
  }
  const state = { ...turn, apiError: error }
  const effects = [log('model_retry', fields)]
  if (error !== 'authentication_failed') return { state, effects }
  const message = 'The model refused the credential of that machine. Renew it: nfltr config add-credential.'
  return { state: { ...state, failure: turn.failure ?? { reason: 'auth_lost', message } }, effects }
}

function onResult(turn: ClaudeTurn, line: ResultLine): TurnStep {
  const denied = new Map(turn.denied)
  for (const { toolUseId, tool, input } of line.denied) {
    denied.set(toolUseId, { tool, input: clip(input, limits.deniedInputMaxBytes) })
  }
  let state: ClaudeTurn = {
    ...turn,
    denied,
    last: line,
    resultsCount: turn.resultsCount + 1,
    usage: addUsage(turn.usage, line.usage),
    ...(line.text === undefined ? {} : { text: line.text, textOf: '' }),
  }
  const { inputTokens, outputTokens, costUsd, durationMs } = line.usage
  const effects: TurnEffect[] = [
    log('usage', {
      input_tokens: String(inputTokens),
      output_tokens: String(outputTokens),
      cost_usd: String(costUsd),
      duration_ms: String(durationMs),
    }),
  ]
  // An aborted result names what it was about and did not finish; the program cancels that itself, right after.
  if (line.terminalReason?.startsWith('aborted') === true) return { state, effects }
  for (const uuid of line.userMessageUuids) {
    const message = state.messages.find((each) => each.uuid === uuid)
    if (message === undefined) continue
    const settled = settleMessage(state, message, 'taken')
    state = settled.state
    effects.push(...settled.effects)
  }
  return { state, effects }
}

function messageLog(message: { readonly messageId: string }, state: MessageState | 'queued' | 'started'): TurnEffect {
  return log('message', { message_id: message.messageId, state })
}

function log(type: TaskEvent['type'], fields: Fields, text?: string): TurnEffect {
  const bounded = text === undefined ? {} : { text: clip(text, limits.eventTextMaxBytes) }
  return { type: 'event', event: { type, fields, ...bounded } }
}

function logged(turn: ClaudeTurn, effect: TurnEffect): TurnStep {
  return { state: turn, effects: [effect] }
}

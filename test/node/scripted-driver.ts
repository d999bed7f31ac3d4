import type { ExitProof } from '../../src/core/journal.ts'
import { type AttemptResult, type MessageReport, noUsage } from '../../src/core/model.ts'
import type {
  AgentDriver,
  DriverProbe,
  PreparedLaunch,
  TurnEffect,
  TurnInput,
  TurnLaunch,
} from '../../src/ports/agent-driver.ts'

/**
 * A driver for a program of lines, as small as one can be that has everything a turn has.
 *
 * Output: `session ID`, `text WORDS`, `ask ID`, `took MESSAGE`, `result WORDS`. Input: `brief WORDS`, `steer MESSAGE WORDS`,
 * `answer ID`, `interrupt`.
 */
export interface ScriptedState {
  readonly launch: TurnLaunch
  readonly messages: readonly MessageReport[]
  readonly stopCommandId: string | undefined
  readonly result: string | undefined
  readonly text: string
  readonly isOver: boolean
}

export interface ScriptedDriverOptions {
  readonly probe?: DriverProbe
  readonly prepare?: (turn: TurnLaunch) => Promise<void>
}

export const interruptBoundMs = 10_000

export function scriptedDriver(options: ScriptedDriverOptions = {}): AgentDriver<ScriptedState> {
  return {
    probe: async () => options.probe ?? { type: 'present', program: '/opt/program', version: '1.2.3' },
    prepare: async (turn): Promise<PreparedLaunch> => {
      await options.prepare?.(turn)
      return { program: '/opt/program', args: [turn.sessionId], cwd: turn.workspace, env: {}, secretEnv: {} }
    },
    begin: (launch) => ({
      launch,
      messages: [],
      stopCommandId: undefined,
      result: undefined,
      text: '',
      isOver: false,
    }),
    step,
  }
}

type Step = { readonly state: ScriptedState; readonly effects: readonly TurnEffect[] }

function step(state: ScriptedState, input: TurnInput): Step {
  if (state.isOver) return { state, effects: [] }
  switch (input.type) {
    case 'record':
      return onRecord(state, input.record)
    case 'steer': {
      const { messageId, text } = input
      if (state.messages.some((message) => message.messageId === messageId)) return { state, effects: [] }
      const messages = [...state.messages, { messageId, state: 'not_taken' as const }]
      return {
        state: { ...state, messages },
        effects: [
          { type: 'event', event: { type: 'message', fields: { message_id: messageId, state: 'queued' } } },
          { type: 'write', messageId, bytes: utf8(`steer ${messageId} ${text}`) },
        ],
      }
    }
    case 'stop':
      return {
        state: { ...state, stopCommandId: input.commandId },
        effects: [
          { type: 'event', event: { type: 'state', fields: { state: 'stopping' } } },
          { type: 'write', messageId: `interrupt-${input.commandId}`, bytes: utf8('interrupt') },
          { type: 'wake_after', delayMs: interruptBoundMs, token: 'interrupt' },
        ],
      }
    case 'woke':
      return { state, effects: input.token === 'interrupt' ? [{ type: 'stop_tree', graceMs: 2_000 }] : [] }
    case 'keeper_gone':
    case 'journal_damaged':
      return ended(state, input.proof)
  }
}

function onRecord(state: ScriptedState, record: Extract<TurnInput, { type: 'record' }>['record']): Step {
  switch (record.type) {
    case 'launched': {
      const { firstMessageId, request } = state.launch
      return {
        state,
        effects: [{ type: 'write', messageId: firstMessageId, bytes: utf8(`brief ${request.brief}`) }],
      }
    }
    case 'stdout':
      return onLine(state, new TextDecoder().decode(record.line))
    case 'stdin_intent': {
      // A message that a former run of the node wrote: this one knows it from the journal alone.
      const { messageId } = record
      const isForeign = messageId === state.launch.firstMessageId || messageId.startsWith('interrupt-')
      if (isForeign || state.messages.some((message) => message.messageId === messageId)) return { state, effects: [] }
      return { state: { ...state, messages: [...state.messages, { messageId, state: 'not_taken' }] }, effects: [] }
    }
    case 'exit':
      return ended(state, record.proof)
    default:
      return { state, effects: [] }
  }
}

function onLine(state: ScriptedState, line: string): Step {
  const [word = '', ...others] = line.split(' ')
  const rest = others.join(' ')
  switch (word) {
    case 'session':
      return { state, effects: [{ type: 'session_ready', sessionId: rest }] }
    case 'text':
      return {
        state: { ...state, text: rest },
        effects: [{ type: 'event', event: { type: 'text', text: rest, fields: {} } }],
      }
    case 'ask':
      return { state, effects: [{ type: 'answer', requestId: rest, bytes: utf8(`answer ${rest}`) }] }
    case 'took': {
      const messages = state.messages.map((message) =>
        message.messageId === rest ? { ...message, state: 'taken' as const } : message,
      )
      return {
        state: { ...state, messages },
        effects: [
          { type: 'message_state', messageId: rest, state: 'taken' },
          { type: 'event', event: { type: 'message', fields: { message_id: rest, state: 'taken' } } },
        ],
      }
    }
    case 'result':
      return { state: { ...state, result: rest }, effects: [{ type: 'close_input' }] }
    default:
      return { state, effects: [] }
  }
}

function ended(state: ScriptedState, proof: ExitProof): Step {
  const { stopCommandId, result } = state
  const isStopped = stopCommandId !== undefined && result === undefined
  const outcome = result !== undefined ? 'completed' : isStopped ? 'stopped' : 'failed'
  const end: AttemptResult = {
    outcome,
    ...(outcome === 'failed' ? { reason: 'crashed' as const } : {}),
    text: result ?? state.text,
    denied: [],
    usage: noUsage,
    messages: state.messages,
    sessionId: state.launch.sessionId,
    exitProof: proof,
    ...(stopCommandId === undefined ? {} : { stopCommandId }),
    details: {},
  }
  return { state: { ...state, isOver: true }, effects: [{ type: 'ended', result: end }] }
}

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

import type { ExitProof, JournalRecord } from '../src/core/journal.ts'
import { type AttemptResult, type MessageReport, noUsage } from '../src/core/model.ts'
import type {
  AgentDriver,
  DriverProbe,
  PreparedLaunch,
  TurnEffect,
  TurnInput,
  TurnLaunch,
} from '../src/ports/agent-driver.ts'
import type { ProgramLine } from './program.ts'

/** What the driver knows of a turn: nothing that does not follow from its inputs. */
interface TurnState {
  readonly launch: TurnLaunch
  /** Messages handed to this turn, in order, the brief's own first. */
  readonly given: readonly string[]
  /** Those with an intent in the journal. */
  readonly written: ReadonlySet<string>
  readonly taken: ReadonlySet<string>
  /** Those taken before the last answer: the answer is theirs. */
  readonly answered: ReadonlySet<string>
  readonly text: string | undefined
  readonly stopCommandId: string | undefined
  readonly isEnded: boolean
}

const utf8 = new TextEncoder()
const fromUtf8 = new TextDecoder()

/** How long a turn stays open for a message that was written and not taken by the answer, in milliseconds. */
const openForMs = 2_000

/** The driver of the scripted program in `program.ts`: the same contract as a real one, and none of its words. */
export class SimDriver implements AgentDriver<TurnState> {
  async probe(): Promise<DriverProbe> {
    return { type: 'present', program: '/sim/agent', version: '1.0.0' }
  }

  async prepare(turn: TurnLaunch): Promise<PreparedLaunch> {
    return { program: '/sim/agent', args: [turn.sessionId], cwd: turn.workspace, env: {}, secretEnv: {} }
  }

  begin(launch: TurnLaunch): TurnState {
    const none: ReadonlySet<string> = new Set()
    return {
      launch,
      given: [],
      written: none,
      taken: none,
      answered: none,
      text: undefined,
      stopCommandId: undefined,
      isEnded: false,
    }
  }

  step(state: TurnState, input: TurnInput): { readonly state: TurnState; readonly effects: readonly TurnEffect[] } {
    if (state.isEnded) return { state, effects: [] }
    switch (input.type) {
      case 'record':
        return onRecord(state, input.record)
      case 'steer':
        return give(state, input.messageId, input.text)
      case 'stop':
        return {
          state: { ...state, stopCommandId: input.commandId },
          effects: [{ type: 'stop_tree', graceMs: 1_000 }],
        }
      case 'woke':
        return { state, effects: [{ type: 'close_input' }] }
      case 'keeper_gone':
      case 'journal_damaged':
        return end(state, input.proof, { isWhole: false })
    }
  }
}

type Step = ReturnType<SimDriver['step']>

function onRecord(state: TurnState, record: JournalRecord): Step {
  switch (record.type) {
    case 'launched':
      return give(state, state.launch.firstMessageId, state.launch.request.brief)
    case 'stdin_intent':
      return { state: { ...state, written: new Set([...state.written, record.messageId]) }, effects: [] }
    case 'stdout':
      return onLine(state, JSON.parse(fromUtf8.decode(record.line)) as ProgramLine)
    case 'exit':
      return end(state, record.proof, { isWhole: true })
    default:
      return { state, effects: [] }
  }
}

function give(state: TurnState, messageId: string, text: string): Step {
  const given = state.given.includes(messageId) ? state.given : [...state.given, messageId]
  const bytes = utf8.encode(JSON.stringify({ id: messageId, text }))
  return { state: { ...state, given }, effects: [{ type: 'write', messageId, bytes }] }
}

function onLine(state: TurnState, line: ProgramLine): Step {
  switch (line.type) {
    case 'ready':
      return { state, effects: [{ type: 'session_ready', sessionId: line.sessionId }] }
    case 'taken': {
      const isOwn = line.id === state.launch.firstMessageId
      const effects: readonly TurnEffect[] = isOwn
        ? []
        : [{ type: 'message_state', messageId: line.id, state: 'taken' }]
      return { state: { ...state, taken: new Set([...state.taken, line.id]) }, effects }
    }
    case 'said':
      return { state, effects: [{ type: 'event', event: { type: 'text', text: line.text, fields: {} } }] }
    case 'result': {
      const next: TurnState = { ...state, text: line.text, answered: state.taken }
      const isOpen = state.given.some((id) => !state.taken.has(id))
      return {
        state: next,
        effects: [isOpen ? { type: 'wake_after', delayMs: openForMs, token: 'open' } : { type: 'close_input' }],
      }
    }
  }
}

/** @param options - `isWhole`: the journal has its exit record, so every line of the program is in it */
function end(state: TurnState, exitProof: ExitProof, options: { readonly isWhole: boolean }): Step {
  const isAnswered = state.text !== undefined && [...state.taken].every((id) => state.answered.has(id))
  const outcome = isAnswered ? 'completed' : state.stopCommandId === undefined ? 'failed' : 'stopped'
  const messages = state.given
    .filter((id) => id !== state.launch.firstMessageId)
    .map((messageId): MessageReport => ({ messageId, state: fateOf(state, messageId, options.isWhole) }))
  const result: AttemptResult = {
    outcome,
    ...(outcome === 'failed' ? { reason: 'crashed' as const } : {}),
    text: isAnswered ? (state.text ?? '') : '',
    denied: [],
    usage: noUsage,
    messages,
    sessionId: state.launch.sessionId,
    exitProof,
    ...(state.stopCommandId === undefined ? {} : { stopCommandId: state.stopCommandId }),
    details: {},
  }
  return { state: { ...state, isEnded: true }, effects: [{ type: 'ended', result }] }
}

/** Not taken only where that is certain: a message that may have begun is never told as if it had not (rule 22). */
function fateOf(state: TurnState, messageId: string, isWhole: boolean): MessageReport['state'] {
  if (state.answered.has(messageId)) return 'taken'
  if (state.taken.has(messageId)) return 'interrupted'
  return isWhole || !state.written.has(messageId) ? 'not_taken' : 'interrupted'
}

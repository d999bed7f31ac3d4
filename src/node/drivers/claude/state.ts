import { type DeniedTool, type MessageReport, noUsage, type Reason, type Usage } from '../../../core/model.ts'
import type { TurnEffect, TurnLaunch } from '../../../ports/agent-driver.ts'
import type { ResultLine } from './stream.ts'

/** What is known of a turn, from its journal and from what the node said. */
export interface ClaudeTurn {
  readonly launch: TurnLaunch
  /** The brief first, then messages for the running turn, in the order they came. */
  readonly messages: readonly TurnMessage[]
  readonly sessionId: string | undefined
  /** The main thread's last text, and which of the model's messages it is of. */
  readonly text: string
  readonly textOf: string
  readonly last: ResultLine | undefined
  readonly resultsCount: number
  readonly usage: Usage
  /** By tool use, so that one denial told twice counts once. */
  readonly denied: ReadonlyMap<string, DeniedTool>
  /** Calls without a result yet: a denial names only their id. */
  readonly calls: ReadonlyMap<string, DeniedTool>
  readonly isInputClosed: boolean
  readonly stop: TurnStop | undefined
  /** The program has answered an interrupt: nothing of ours is queued any more. */
  readonly isInterruptAnswered: boolean
  /** The bound that was set last, so that lines which change nothing do not put it off. */
  readonly armed: string
  /** Why the driver itself ended the turn. */
  readonly failure: TurnFailure | undefined
  readonly isOverDeadline: boolean
  readonly launchError: string | undefined
  /** What the program said about a failed request, in its own word. */
  readonly apiError: string | undefined
  /** The last of standard error. */
  readonly stderr: string
  /** A line was over the keeper's bound, or was no line of the interface. */
  readonly isTruncated: boolean
  readonly isEnded: boolean
}

export interface TurnStep {
  readonly state: ClaudeTurn
  readonly effects: readonly TurnEffect[]
}

export interface TurnMessage {
  readonly messageId: string
  readonly uuid: string
  readonly state: MessageProgress
}

/**
 * `asked`: the keeper was told to write it. `written`: its intent is on disk. `queued`: the program has it. `started`: the
 * model has it. `taken`, `withdrawn` and `interrupted` are final.
 */
export type MessageProgress = 'asked' | 'written' | 'queued' | 'started' | 'taken' | 'withdrawn' | 'interrupted'

export interface TurnStop {
  readonly commandId: string
  /** The turn had its result already and nothing was left to do: the result stands (rule 23). */
  readonly isLate: boolean
}

export interface TurnFailure {
  readonly reason: Reason
  readonly message: string
}

export function beginTurn(launch: TurnLaunch): ClaudeTurn {
  return {
    launch,
    messages: [],
    sessionId: undefined,
    text: '',
    textOf: '',
    last: undefined,
    resultsCount: 0,
    usage: noUsage,
    denied: new Map(),
    calls: new Map(),
    isInputClosed: false,
    stop: undefined,
    isInterruptAnswered: false,
    armed: '',
    failure: undefined,
    isOverDeadline: false,
    launchError: undefined,
    apiError: undefined,
    stderr: '',
    isTruncated: false,
    isEnded: false,
  }
}

/** Whether something may still become of the message. */
export function isOpen(message: TurnMessage): boolean {
  return message.state !== 'taken' && message.state !== 'withdrawn' && message.state !== 'interrupted'
}

/** Whether the model is at work on a message of ours. */
export function isBusy(turn: ClaudeTurn): boolean {
  return turn.messages.some((message) => message.state === 'started')
}

/** A result is there and nothing of ours is at work behind it: what the turn came to is known. */
export function hasFinalResult(turn: ClaudeTurn): boolean {
  return turn.last !== undefined && !isBusy(turn)
}

export function withMessage(turn: ClaudeTurn, changed: TurnMessage): ClaudeTurn {
  const known = turn.messages.some((message) => message.messageId === changed.messageId)
  const messages = known
    ? turn.messages.map((message) => (message.messageId === changed.messageId ? changed : message))
    : [...turn.messages, changed]
  return { ...turn, messages }
}

/** What became of the messages for the running turn, as of its end (rule 22). The brief is not among them. */
export function messageReports(turn: ClaudeTurn): readonly MessageReport[] {
  return turn.messages
    .filter((message) => message.messageId !== turn.launch.firstMessageId)
    .map(({ messageId, state }) => ({ messageId, state: fateOf(state) }))
}

export function fateOf(state: MessageProgress): MessageReport['state'] {
  if (state === 'taken') return 'taken'
  return state === 'started' || state === 'interrupted' ? 'interrupted' : 'not_taken'
}

export function addUsage(one: Usage, other: Usage): Usage {
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    costUsd: one.costUsd + other.costUsd,
    durationMs: one.durationMs + other.durationMs,
  }
}

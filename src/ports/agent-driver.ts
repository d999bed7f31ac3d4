import type { ExitProof, JournalRecord } from '../core/journal.ts'
import type { AttemptResult, MessageState, Reason, TaskEvent, TurnRequest } from '../core/model.ts'

/**
 * One agent program. Claude Code is the first (`node/drivers/claude`), others follow; the simulator has its own.
 *
 * A driver does no I/O while a turn runs: it folds what the keeper's journal says into a state and answers with effects
 * that the node carries out. A node that was restarted folds the same journal again from its beginning, with the effects
 * of what it had already done thrown away, and goes on: so everything a driver knows has to follow from its inputs.
 *
 * What no program may blur: *idle* is the program's claim, the exit proof is the keeper's; a message is delivered when the
 * program took it in, not when it accepted it; an outcome never comes from an exit code.
 */
export interface AgentDriver<State = unknown> {
  /** What is installed here. Runs the program with nothing but a version question; never a model call. */
  probe(options: { readonly signal: AbortSignal }): Promise<DriverProbe>

  /**
   * Prepares the private folders of a turn and names what the keeper has to run. May be repeated for the same turn.
   *
   * @throws {NfltrError} `launch_failed` with `details.reason` (a `Reason`) when the turn cannot run here
   */
  prepare(turn: TurnLaunch): Promise<PreparedLaunch>

  /** The state of a turn of which nothing has happened yet. */
  begin(turn: TurnLaunch): State

  /** Advances a turn by one input. Pure and total. `ended` is emitted at most once, and nothing after it. */
  step(state: State, input: TurnInput): { readonly state: State; readonly effects: readonly TurnEffect[] }
}

export type DriverProbe =
  | { readonly type: 'present'; readonly program: string; readonly version: string }
  | { readonly type: 'absent'; readonly reason: Reason; readonly message: string }

export interface TurnLaunch {
  readonly attemptId: string
  readonly agentId: string
  readonly taskId: string
  readonly turn: number
  readonly machineName: string
  /** The CLI's session: made by the node for a first turn, the agent's own for a continuation. A UUID. */
  readonly sessionId: string
  readonly isContinuation: boolean
  readonly workspace: string
  /** The agent's own folder for the program's configuration and history; lives as long as the agent. */
  readonly privateDir: string
  /** The attempt's own temporary folder. */
  readonly tmpDir: string
  readonly request: TurnRequest
  /** Derived from the attempt id: the id of the message that carries the brief. `msg_` + 32 hex digits. */
  readonly firstMessageId: string
  readonly allowAllTools: boolean
}

export interface PreparedLaunch {
  readonly program: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly secretEnv: Readonly<Record<string, string>>
}

export type TurnInput =
  | { readonly type: 'record'; readonly record: JournalRecord }
  /** A message for the running turn. After a restart it comes again, as a stop does, at the same place among the records. */
  | { readonly type: 'steer'; readonly messageId: string; readonly text: string }
  | { readonly type: 'stop'; readonly commandId: string }
  | { readonly type: 'woke'; readonly token: string }
  /** The keeper died without an exit record; the node has proven that nothing of the turn runs any more. */
  | { readonly type: 'keeper_gone'; readonly proof: ExitProof }
  | { readonly type: 'journal_damaged'; readonly proof: ExitProof }

export type TurnEffect =
  | { readonly type: 'write'; readonly messageId: string; readonly bytes: Uint8Array }
  | { readonly type: 'answer'; readonly requestId: string; readonly bytes: Uint8Array }
  | { readonly type: 'close_input' }
  | { readonly type: 'stop_tree'; readonly graceMs: number }
  /** Comes back as `woke` with the token, unless the turn has ended by then. */
  | { readonly type: 'wake_after'; readonly delayMs: number; readonly token: string }
  | { readonly type: 'session_ready'; readonly sessionId: string }
  | { readonly type: 'event'; readonly event: Pick<TaskEvent, 'type' | 'text' | 'fields'> }
  | { readonly type: 'message_state'; readonly messageId: string; readonly state: MessageState }
  | { readonly type: 'ended'; readonly result: AttemptResult }

import type { ExitProof } from '../../../core/journal.ts'
import type { AttemptResult, Reason } from '../../../core/model.ts'
import { type ClaudeTurn, hasFinalResult, messageReports } from './state.ts'
import type { ResultLine } from './stream.ts'

/** How the journal of a turn came to its end. */
export type TurnEnd =
  | { readonly how: 'exit'; readonly proof: ExitProof; readonly code?: number; readonly signal?: string }
  | { readonly how: 'keeper_gone' | 'journal_damaged'; readonly proof: ExitProof }

interface Verdict {
  readonly outcome: AttemptResult['outcome']
  readonly reason?: Reason
  /** More than the reason's own hint. */
  readonly hint?: string
}

/**
 * What a turn came to. It never comes from an exit code: a program that failed can exit with 0 and the other way round.
 * The text is whole in every case, since half an answer is still an answer to read.
 */
export function resultOf(turn: ClaudeTurn, end: TurnEnd): AttemptResult {
  const { outcome, reason, hint } = verdict(turn, end)
  const shownHint = hint ?? (reason === undefined ? undefined : hints[reason])
  return {
    outcome,
    ...(reason === undefined ? {} : { reason }),
    text: turn.text,
    ...(shownHint === undefined ? {} : { hint: shownHint }),
    denied: [...turn.denied.values()],
    usage: turn.usage,
    messages: messageReports(turn),
    ...(turn.sessionId === undefined ? {} : { sessionId: turn.sessionId }),
    exitProof: end.proof,
    ...(turn.stop === undefined ? {} : { stopCommandId: turn.stop.commandId }),
    details: detailsOf(turn, end),
  }
}

function verdict(turn: ClaudeTurn, end: TurnEnd): Verdict {
  const { failure, launchError, last, stop } = turn
  // The spawn's own error names the program also where it was the folder that is missing; prepared folders are there.
  if (launchError !== undefined) return { outcome: 'rejected', reason: 'claude_missing', hint: launchError }
  if (failure !== undefined) return { outcome: 'failed', reason: failure.reason, hint: failure.message }
  if (stop !== undefined && !stop.isLate) return { outcome: 'stopped' }
  if (last === undefined || !hasFinalResult(turn)) return unfinished(turn, end)
  if (turn.denied.size > 0) return { outcome: 'failed', reason: 'tools_not_allowed' }
  return last.isError ? { outcome: 'failed', reason: reasonOf(last, turn) } : finished(last)
}

function finished(last: ResultLine): Verdict {
  if (last.stopReason === 'refusal') return { outcome: 'failed', reason: 'model_refused' }
  if ((last.text ?? '') === '') return { outcome: 'failed', reason: 'empty_result' }
  return { outcome: 'completed' }
}

/** The program went before it had said what its work came to. */
function unfinished(turn: ClaudeTurn, end: TurnEnd): Verdict {
  if (turn.isOverDeadline) return { outcome: 'failed', reason: 'deadline' }
  if (end.how === 'journal_damaged') return { outcome: 'failed', reason: 'journal_damaged' }
  if (turn.isTruncated) return { outcome: 'failed', reason: 'truncated_stream' }
  const reason = startReasons.find(({ pattern }) => pattern.test(turn.stderr))?.reason
  if (reason !== undefined) return { outcome: 'failed', reason }
  // Its message was taken in by an earlier process of the session: it has nothing to say to it again.
  const isSilent = turn.messages.length > 0 && turn.messages.every((message) => message.state === 'taken')
  return { outcome: 'failed', reason: isSilent && end.how === 'exit' ? 'empty_result' : 'crashed' }
}

/** Refusals to start are told on standard error alone. */
const startReasons: readonly { readonly pattern: RegExp; readonly reason: Reason }[] = [
  { pattern: /No conversation found with session ID/, reason: 'session_missing' },
  { pattern: /bubblewrap is required|[Ss]andbox required but unavailable/, reason: 'sandbox_unavailable' },
]

function reasonOf(last: ResultLine, turn: ClaudeTurn): Reason {
  if (last.subtype === 'error_max_turns' || last.terminalReason === 'max_turns') return 'max_turns'
  if (last.subtype === 'error_max_budget_usd' || last.terminalReason === 'budget_exhausted') return 'budget_exhausted'
  if (last.startupFailure !== undefined) {
    return last.startupFailure.startsWith('sandbox') ? 'sandbox_unavailable' : 'crashed'
  }
  if (last.errors.some((error) => error.startsWith('No conversation found'))) return 'session_missing'
  if (last.terminalReason?.startsWith('aborted') === true) return turn.isOverDeadline ? 'deadline' : 'interrupted'
  if (last.stopReason === 'refusal') return 'model_refused'
  if (last.text?.startsWith('Not logged in') === true) return 'not_logged_in'
  if (last.apiStatus === 401 || last.apiStatus === 403 || turn.apiError === 'authentication_failed') return 'auth_lost'
  if (last.apiStatus === 429 || turn.apiError === 'rate_limit') return 'rate_limited'
  return last.terminalReason === 'api_error' ? 'model_error' : 'crashed'
}

function goOnOr(what: string): string {
  return `Send a message to go on in the same session, or spawn with ${what}.`
}

const hints: Partial<Record<Reason, string>> = {
  tools_not_allowed:
    'The agent may edit files in its workspace and run read-only commands. Start its node with --allow-all-tools to allow the rest.',
  auth_lost: 'Renew the credential of that machine: nfltr config add-credential.',
  not_logged_in: 'Give that machine a credential: nfltr config add-credential.',
  claude_missing: 'Install Claude Code on that machine, or name it with --claude.',
  budget_exhausted: goOnOr('a larger budget'),
  max_turns: goOnOr('more turns'),
  deadline: goOnOr('a later deadline'),
  session_missing: 'The history of this session is gone on that machine; spawn a new agent.',
  rate_limited: 'Try again later.',
}

function detailsOf(turn: ClaudeTurn, end: TurnEnd): Readonly<Record<string, string>> {
  const { last, stderr, apiError } = turn
  const facts: Readonly<Record<string, string | number | undefined>> = {
    end: end.how,
    exit_code: end.how === 'exit' ? end.code : undefined,
    signal: end.how === 'exit' ? end.signal : undefined,
    terminal_reason: last?.terminalReason,
    errors: last === undefined || last.errors.length === 0 ? undefined : last.errors.join('\n'),
    api_status: last?.apiStatus,
    api_error: apiError,
    launch_error: turn.launchError,
    stderr: stderr.trim() === '' ? undefined : stderr.trim(),
  }
  return Object.fromEntries(
    Object.entries(facts).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  )
}

import { type AttemptResult, noUsage } from './model.ts'
import type { NodeAttempt } from './node-attempt-state.ts'
import { evidenceKeptMs, type NodeAttemptStep, persist } from './node-attempt-step.ts'

/** Records the one end of an attempt. */
export function end(
  state: NodeAttempt,
  result: AttemptResult,
  options: { readonly atMs: number; readonly keeperGone?: string | undefined },
): NodeAttemptStep {
  const { atMs, keeperGone } = options
  const ended: NodeAttempt = {
    ...state,
    phase: 'ended',
    inputs: [],
    steers: state.steers.map(({ text: _, ...steer }) => ({ ...steer, text: '' })),
    end: { outcome: result.outcome, reason: result.reason, endedAtMs: atMs, keeperGone },
    keptUntilMs: keeperGone === undefined ? undefined : atMs + evidenceKeptMs,
  }
  const { ref } = state
  return persist(ended, [
    { type: 'keep_result', result },
    {
      type: 'send',
      message:
        keeperGone === undefined ? { type: 'ended', ref, result } : { type: 'keeper_gone', ref, message: keeperGone },
    },
    { type: 'release_slot' },
  ])
}

/** The end of a turn that was stopped before anything of it was started. */
export function stoppedBeforeLaunch(state: NodeAttempt, commandId: string): AttemptResult {
  return settleMessages(
    { ...state, stop: { commandId, isDriven: false } },
    { outcome: 'stopped', text: '', denied: [], usage: noUsage, messages: [], details: {} },
  )
}

/** Completes a result: every message written to the turn has a fate, and a stop that was asked for is named. */
export function settleMessages(state: NodeAttempt, result: AttemptResult): AttemptResult {
  const reported = new Set(result.messages.map((report) => report.messageId))
  const missing = state.steers
    .filter((steer) => !reported.has(steer.messageId))
    .map(({ messageId, state: fate }) => ({ messageId, state: fate === 'accepted' ? 'not_taken' : fate }) as const)
  const known = new Set(state.steers.map((steer) => steer.messageId))
  const messages = [...result.messages.filter((report) => known.has(report.messageId)), ...missing]
  const stopCommandId = result.stopCommandId ?? state.stop?.commandId
  return { ...result, messages, ...(stopCommandId === undefined ? {} : { stopCommandId }) }
}

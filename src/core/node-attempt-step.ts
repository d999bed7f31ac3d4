import type { NodeAttempt, NodeAttemptEffect } from './node-attempt-state.ts'

/** What one event makes of an attempt. `undefined` is an attempt that the node does not know, or no longer. */
export interface NodeAttemptStep {
  readonly state: NodeAttempt | undefined
  readonly effects: readonly NodeAttemptEffect[]
}

/** How long a declined claim is remembered, in milliseconds. */
export const declineKeptMs = 7 * 24 * 3_600_000
/** How long the tombstone of a settled attempt stays, in milliseconds (rule 6). */
export const tombstoneKeptMs = 90 * 24 * 3_600_000
/** How long the evidence of an attempt whose keeper is gone stays where the hub never asks for it, in milliseconds. */
export const evidenceKeptMs = 30 * 24 * 3_600_000

/** Whether the attempt may still start or do something: it holds a slot and a workspace. */
export function isOpen(state: NodeAttempt): boolean {
  return state.phase === 'claimed' || state.phase === 'launching' || state.phase === 'running'
}

/** The event no longer applies. */
export function nothing(state: NodeAttempt | undefined): NodeAttemptStep {
  return { state, effects: [] }
}

/** The state changed: it goes to disk before anything else happens. */
export function persist(state: NodeAttempt, effects: readonly NodeAttemptEffect[] = []): NodeAttemptStep {
  return { state, effects: [{ type: 'persist' }, ...effects] }
}

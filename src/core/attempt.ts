import { unreachable } from './errors.ts'
import type { AttemptResult, Reason } from './model.ts'

/**
 * One attempt of a task, as its hub sees it. The node owns the truth: this only follows what the node reports, and decides
 * what of it counts. At most one result is accepted as the attempt's end, and at most one more as a late one.
 */
export interface Attempt {
  readonly attemptId: string
  /** As results show it: counts the attempts of the task that no node declined, from 1. */
  readonly number: number
  /** Rises with every attempt of the task; a node never acts below the highest it has seen (rule 5). */
  readonly epoch: number
  readonly peerId: string
  readonly machine: string
  readonly phase: 'offered' | 'claimed' | 'running' | 'ended' | 'declined' | 'lost'
  /** The hub has moved on: nothing revives, resumes or resends it, and its result comes as a late one. */
  readonly isSuperseded: boolean
  readonly hasLateResult: boolean
  /** It was counted lost, and its node is back and says that it runs: it holds a slot there and can be stopped. */
  readonly isBack?: boolean
  /** Its node told of it: it was given there in a time that this hub's store has lost (rule 6). */
  readonly isFound?: true
  /** Boot of the node's machine when it claimed: another one on the same machine means that it was restarted. */
  readonly bootId?: string
  /**
   * Whose store was put back while the attempt was alive: what this hub or its node knows of it may be of an earlier
   * time (rule 6). Gone once the node says that the attempt is under way.
   */
  readonly doubts?: readonly StoreSide[]
}

/** Of the two stores that a hub and a node have of an attempt. */
export type StoreSide = 'hub' | 'node'

/** Why an attempt counts as lost. Silence is judged by `lease.ts`; the others are the node's own word. */
export type LostGround = 'member_gone' | 'keeper_gone' | 'rebooted' | 'silent'

export type AttemptEvent =
  | { readonly type: 'claimed'; readonly epoch: number; readonly bootId?: string }
  | {
      readonly type: 'declined'
      readonly epoch: number
      readonly reason: Reason
      readonly message: string
      readonly isPermanent: boolean
    }
  | { readonly type: 'started'; readonly epoch: number; readonly sessionId: string }
  | { readonly type: 'ended'; readonly epoch: number; readonly result: AttemptResult }
  | { readonly type: 'lost'; readonly ground: LostGround; readonly message: string }
  | { readonly type: 'superseded' }
  /** The node is back after the loss: does it still run there? */
  | { readonly type: 'returned'; readonly isRunning: boolean }
  /** A store was put back. */
  | { readonly type: 'doubted'; readonly side: StoreSide }
  /** The node's inventory names it, as under way. */
  | { readonly type: 'listed_open' }

export type AttemptEffect =
  | { readonly type: 'persist' }
  | {
      readonly type: 'accept_result'
      readonly result: AttemptResult
      readonly isLate: boolean
      readonly isSuperseded: boolean
      /** It may have been accepted, and read, before this hub's store was put back. */
      readonly isMaybeSeen: boolean
    }
  | { readonly type: 'accept_loss'; readonly ground: LostGround; readonly message: string }
  | {
      readonly type: 'accept_decline'
      readonly reason: Reason
      readonly message: string
      readonly isPermanent: boolean
    }
  | { readonly type: 'session_known'; readonly sessionId: string }
  /** Nothing was decided; the event is only worth a line in the history. */
  | { readonly type: 'keep_as_evidence'; readonly reason: 'stale_epoch' | 'already_ended' | 'already_declined' }

export interface AttemptStep {
  readonly state: Attempt
  readonly effects: readonly AttemptEffect[]
}

/** Whether something of the attempt may still be running, as far as the hub knows. */
export function isAlive(attempt: Attempt): boolean {
  return attempt.phase === 'offered' || attempt.phase === 'claimed' || attempt.phase === 'running'
}

/**
 * The lowest epoch that a node may act on for this attempt: what a session opening sends as its fence (rule 5). One that was
 * found is still to be stopped and collected, and no command of before is left that could reach it: its lane began anew.
 */
export function fenceOf(attempt: Attempt): number {
  return attempt.isSuperseded && attempt.isFound !== true ? attempt.epoch + 1 : attempt.epoch
}

/**
 * Advances one attempt by one event.
 *
 * Pure and total: an event that no longer applies changes nothing and is kept as evidence, so a node that was away may
 * report whatever it likes and no result is ever counted twice.
 *
 * @returns the next state and the effects in order; `persist` comes first
 */
export function stepAttempt(state: Attempt, event: AttemptEvent): AttemptStep {
  if ('epoch' in event && event.epoch !== state.epoch) return evidence(state, 'stale_epoch')
  switch (event.type) {
    case 'claimed': {
      if (state.phase !== 'offered') return isAlive(state) ? backOnRecord(state) : ignored(state)
      return save({ ...state, phase: 'claimed', ...(event.bootId === undefined ? {} : { bootId: event.bootId }) }, [])
    }
    case 'declined': {
      // Its store was put back to before the claim, and it does not take the turn up again: what ran there is not known.
      if (state.doubts?.includes('node') === true && isAlive(state)) {
        return stepAttempt(state, { type: 'lost', ground: 'keeper_gone', message: event.message })
      }
      // A node that claimed has answered already: only an end can follow.
      const mayBeOffered = state.phase === 'offered' || (state.isSuperseded && isAlive(state))
      if (!mayBeOffered) return evidence(state, 'already_ended')
      const { reason, message, isPermanent } = event
      return save({ ...state, phase: 'declined' }, [{ type: 'accept_decline', reason, message, isPermanent }])
    }
    case 'started':
      return start(state, event.sessionId)
    case 'ended':
      return end(state, event.result)
    case 'lost': {
      if (!isAlive(state)) return ignored(state)
      const { ground, message } = event
      return save({ ...state, phase: 'lost' }, state.isSuperseded ? [] : [{ type: 'accept_loss', ground, message }])
    }
    case 'superseded': {
      if (state.isSuperseded || state.phase === 'ended' || state.phase === 'declined') return ignored(state)
      return save({ ...state, isSuperseded: true }, [])
    }
    case 'returned': {
      const isBack = state.phase === 'lost' && event.isRunning
      if (isBack === (state.isBack === true)) return ignored(state)
      const { isBack: _, ...rest } = state
      return save(isBack ? { ...rest, isBack } : rest, [])
    }
    case 'doubted': {
      if (!isAlive(state) || state.doubts?.includes(event.side) === true) return ignored(state)
      return save({ ...state, doubts: [...(state.doubts ?? []), event.side] }, [])
    }
    case 'listed_open': {
      if (state.doubts === undefined) return ignored(state)
      const { doubts: _, ...sure } = state
      return save(sure, [])
    }
    default:
      return unreachable(event)
  }
}

function start(state: Attempt, sessionId: string): AttemptStep {
  if (state.phase === 'declined') return evidence(state, 'already_declined')
  const isNews = state.phase === 'offered' || state.phase === 'claimed'
  return save(isNews ? { ...state, phase: 'running' } : state, [{ type: 'session_known', sessionId }])
}

/** The first end that the hub hears is the node's only one (rule 23); after a loss it comes once more, as a late result. */
function end(state: Attempt, result: AttemptResult): AttemptStep {
  if (state.phase === 'declined') return evidence(state, 'already_declined')
  if (state.phase === 'ended' || state.hasLateResult) return evidence(state, 'already_ended')
  const isLate = state.phase === 'lost' || state.isSuperseded
  const { isBack: _, ...rest } = state
  return save({ ...rest, phase: 'ended', hasLateResult: isLate }, [
    {
      type: 'accept_result',
      result,
      isLate,
      isSuperseded: state.isSuperseded,
      isMaybeSeen: state.doubts?.includes('hub') === true,
    },
  ])
}

/** A node whose store was put back has the attempt on its record again. */
function backOnRecord(state: Attempt): AttemptStep {
  if (state.doubts?.includes('node') !== true) return ignored(state)
  const { doubts, ...sure } = state
  const left = doubts.filter((side) => side !== 'node')
  return save(left.length === 0 ? sure : { ...sure, doubts: left }, [])
}

function save(state: Attempt, effects: readonly AttemptEffect[]): AttemptStep {
  return { state, effects: [{ type: 'persist' }, ...effects] }
}

function ignored(state: Attempt): AttemptStep {
  return { state, effects: [] }
}

function evidence(state: Attempt, reason: Extract<AttemptEffect, { type: 'keep_as_evidence' }>['reason']): AttemptStep {
  return { state, effects: [{ type: 'keep_as_evidence', reason }] }
}

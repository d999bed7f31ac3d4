import type { ClaimMessage, NodeAttempt, TurnPlace } from './node-attempt-state.ts'

/**
 * What a node leaves in an attempt's folder when it launches, so that it knows the attempt again where its store does not: a
 * store that was lost or put back to before the launch has no record of a turn that may be running (rule 6).
 */
export interface AttemptMemo {
  readonly format: typeof memoFormat
  readonly hubId: string
  /** The hub's machine: no other can speak for it. */
  readonly hubMachinePeerId: string
  readonly claim: ClaimMessage
  readonly place: TurnPlace
  readonly sessionId: string
  readonly claimedAtMs: number
}

export const memoFormat = 1

/** Undefined before the launch is decided: until then there is no folder either. */
export function memoOf(state: NodeAttempt, hubMachinePeerId: string): AttemptMemo | undefined {
  const { hubId, claim, place, sessionId, claimedAtMs } = state
  if (claim === undefined || place === undefined) return undefined
  return { format: memoFormat, hubId, hubMachinePeerId, claim, place, sessionId, claimedAtMs }
}

/** The attempt as it was when its launch was decided. What happened to it since is in its journal. */
export function attemptOf(memo: AttemptMemo): NodeAttempt {
  const { hubId, claim, place, sessionId, claimedAtMs } = memo
  return {
    phase: 'launching',
    hubId,
    ref: claim.ref,
    fence: claim.ref.epoch,
    claimCommandId: claim.commandId,
    turn: claim.turn,
    claim,
    sessionId,
    announcedSessionId: undefined,
    place,
    steers: [],
    stop: undefined,
    inputs: [],
    journalOffset: 0,
    claimedAtMs,
    startedAtMs: undefined,
    decline: undefined,
    end: undefined,
    receipt: undefined,
    keptUntilMs: undefined,
  }
}

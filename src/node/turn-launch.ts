import { NfltrError } from '../core/errors.ts'
import { type Reason, reasons, temporaryDeclines } from '../core/model.ts'
import { later } from '../core/node-attempt-claim.ts'
import type { Decline, NodeAttempt, TurnPlace } from '../core/node-attempt-state.ts'
import type { TurnLaunch } from '../ports/agent-driver.ts'
import { sha256Hex } from './digest.ts'

/** A decline on its way up through what makes folders. */
export class Refused extends Error {
  readonly decline: Decline

  constructor(decline: Decline) {
    super(decline.message)
    this.decline = decline
  }
}

/** Why a turn cannot be prepared, in the words of a decline. */
export function declineOf(error: unknown): Decline {
  if (error instanceof Refused) return error.decline
  if (!(error instanceof NfltrError)) return later('workspace', `The turn could not be prepared: ${String(error)}`)
  const named = reasons.find((reason) => reason === error.details['reason'])
  const reason: Reason = named ?? (error.code === 'disk_full' ? 'disk_full' : 'workspace')
  return { reason, message: error.message, isPermanent: !temporaryDeclines.includes(reason) }
}

/** The turn as the driver knows it: the same before and after a restart, whatever the settings are by then. */
export function launchOf(state: NodeAttempt, place: TurnPlace): TurnLaunch {
  const { claim, ref } = state
  if (claim === undefined) throw new Error(`the attempt ${ref.attemptId} is open and has no claim`)
  return {
    attemptId: ref.attemptId,
    agentId: ref.agentId,
    taskId: ref.taskId,
    turn: state.turn,
    machineName: place.machineName,
    sessionId: claim.resumeSessionId ?? state.sessionId,
    isContinuation: claim.resumeSessionId !== undefined,
    workspace: place.workspace,
    privateDir: place.privateDir,
    tmpDir: place.tmpDir,
    request: claim.request,
    firstMessageId: place.firstMessageId,
    allowAllTools: place.allowAllTools,
  }
}

/** The same for every preparation of an attempt, so that its brief is taken in once. */
export function firstMessageId(attemptId: string): string {
  return `msg_${sha256Hex(`nfltr/first-message/1:${attemptId}`).slice(0, 32)}`
}

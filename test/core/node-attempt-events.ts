import type { AttemptRef } from '../../src/core/messages.ts'
import { type AttemptResult, noUsage } from '../../src/core/model.ts'
import type { ClaimMessage, NodeAttemptEvent, TurnPlace } from '../../src/core/node-attempt-state.ts'

/** One of each event of an attempt, as its life has them. */
type Of<T extends NodeAttemptEvent['type']> = Extract<NodeAttemptEvent, { type: T }>

export function ref(epoch = 1): AttemptRef {
  return { agentId: 'agt_1', taskId: 'tsk_1', attemptId: 'att_1', epoch }
}

export const claimMessage: ClaimMessage = {
  type: 'claim',
  commandId: 'claim-1',
  ref: ref(),
  turn: 1,
  request: { brief: 'do it' },
  lostAfterMs: 150_000,
}

export const place: TurnPlace = {
  workspace: '/w',
  privateDir: '/p',
  tmpDir: '/t',
  machineName: 'vm1',
  firstMessageId: 'msg_1',
  allowAllTools: false,
}

export const completed: AttemptResult = {
  outcome: 'completed',
  text: 'done',
  denied: [],
  usage: noUsage,
  messages: [],
  exitProof: 'scan_clean',
  details: {},
}

export function claimEvent(overrides: Partial<Of<'claim'>> = {}, message: Partial<ClaimMessage> = {}): Of<'claim'> {
  return {
    type: 'claim',
    hubId: 'hub_1',
    message: { ...claimMessage, ...message },
    fence: 0,
    newSessionId: 'session-1',
    decline: undefined,
    atMs: 1,
    ...overrides,
  }
}

const prepared: Of<'prepared'> = { type: 'prepared', place }
const launched: Of<'launched'> = { type: 'launched', liveAt: 10, atMs: 2 }
const steer: Of<'steer'> = {
  type: 'steer',
  message: { type: 'steer', commandId: 'steer-1', ref: ref(), messageId: 'm1', text: 'go on' },
  liveAt: 20,
}
const stop: Of<'stop'> = {
  type: 'stop',
  message: { type: 'stop', commandId: 'stop-1', ref: ref() },
  liveAt: 20,
  atMs: 3,
}
const ended: Of<'ended'> = { type: 'ended', result: completed, atMs: 4 }
const collected: Of<'collected'> = {
  type: 'collected',
  message: { type: 'collected', commandId: 'collected-1', ref: ref(), resultHash: 'f'.repeat(64) },
}
const receipt: Of<'receipt'> = {
  type: 'receipt',
  receipt: { receiptId: 'rcp_1', envelope: new Uint8Array([1]) },
  atMs: 100,
}

export const events = {
  prepared,
  launched,
  steer,
  stop,
  ended,
  collected,
  receipt,
  resumed: { type: 'resumed', liveAt: 30 } as const,
}

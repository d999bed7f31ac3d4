import { unreachable } from './errors.ts'
import { limits } from './limits.ts'
import type { AttemptRef } from './messages.ts'
import { declineAnswer, onClaim, recalled } from './node-attempt-claim.ts'
import { driveWaiting, onSteer, onStop, onWoke } from './node-attempt-commands.ts'
import { end, settleMessages } from './node-attempt-end.ts'
import type { NodeAttempt, NodeAttemptEvent, QueuedSteer } from './node-attempt-state.ts'
import { declineKeptMs, isOpen, type NodeAttemptStep, nothing, persist, tombstoneKeptMs } from './node-attempt-step.ts'

/**
 * Advances one attempt on its node by one event. Pure and total: an event that no longer applies changes nothing, so each
 * may come twice, late, or after a restart. `undefined` is an attempt that the node does not know.
 *
 * What makes "at most once" hold here: `launch` is an effect of leaving `claimed` and of nothing else, `claimed` is entered
 * only by a claim of an attempt that the node does not know or has declined, and the keeper's folder is created
 * exclusively. What makes "one end" hold: `ended` is entered once and left only forwards.
 *
 * @returns the next state and the effects to carry out in order
 */
export function step(state: NodeAttempt | undefined, event: NodeAttemptEvent): NodeAttemptStep {
  if (event.type === 'claim') return onClaim(state, event)
  if (state === undefined) return onUnknown(event)
  switch (event.type) {
    case 'fence':
      return event.epoch > state.fence ? persist({ ...state, fence: event.epoch }) : nothing(state)
    case 'steer':
      return fenced(state, event.message.ref, (raised) => onSteer(raised, event))
    case 'stop':
      return fenced(state, event.message.ref, (raised) => onStop(raised, event))
    case 'collected':
      return fenced(state, event.message.ref, onCollected)
    case 'recall':
      return fenced(state, event.message.ref, (raised) => ({ state: raised, effects: recalled(raised) }))
    case 'prepared':
      if (state.phase !== 'claimed') return nothing(state)
      return persist({ ...state, phase: 'launching', place: event.place }, [
        { type: 'send', message: { type: 'claimed', ref: state.ref } },
        { type: 'launch' },
      ])
    case 'not_prepared':
      return onNotPrepared(state, event)
    case 'launched':
      if (state.phase !== 'launching') return nothing(state)
      return driveWaiting({ ...state, phase: 'running', startedAtMs: event.atMs }, event.liveAt)
    case 'resumed':
      if (state.phase !== 'running') return nothing(state)
      return driveWaiting(state, event.liveAt)
    case 'woke':
      return onWoke(state, event)
    case 'session_ready':
      if (!isOpen(state) || state.announcedSessionId !== undefined) return nothing(state)
      return persist({ ...state, announcedSessionId: event.sessionId }, [
        { type: 'send', message: { type: 'started', ref: state.ref, sessionId: event.sessionId } },
      ])
    case 'message_state':
      return onMessageState(state, event)
    case 'progress':
      if (event.offset <= state.journalOffset) return nothing(state)
      return persist({ ...state, journalOffset: event.offset })
    case 'ended':
      return onEnded(state, event)
    case 'receipt':
      return onReceipt(state, event)
    case 'expired':
      return onExpired(state, event.atMs)
    case 'removed':
      return onRemoved(state, event.atMs)
    default:
      return unreachable(event)
  }
}

/** A command below the highest epoch is void; one above it raises it, whatever else it does. */
function fenced(state: NodeAttempt, ref: AttemptRef, act: (raised: NodeAttempt) => NodeAttemptStep): NodeAttemptStep {
  if (ref.epoch < state.fence) return nothing(state)
  if (ref.epoch === state.fence) return act(state)
  const next = act({ ...state, fence: ref.epoch })
  if (next.state === undefined || next.effects[0]?.type === 'persist') return next
  return persist(next.state, next.effects)
}

/** Commands about an attempt that this node never took in, or has long forgotten. */
function onUnknown(event: Exclude<NodeAttemptEvent, { type: 'claim' }>): NodeAttemptStep {
  if (event.type === 'steer') {
    const { ref, messageId } = event.message
    return {
      state: undefined,
      effects: [{ type: 'send', message: { type: 'message', ref, messageId, state: 'not_taken' } }],
    }
  }
  if (event.type === 'stop' || event.type === 'recall')
    return { state: undefined, effects: [{ type: 'prove_absent', ref: event.message.ref }] }
  return nothing(undefined)
}

function onNotPrepared(
  state: NodeAttempt,
  event: Extract<NodeAttemptEvent, { type: 'not_prepared' }>,
): NodeAttemptStep {
  if (state.phase !== 'claimed') return nothing(state)
  const declined: NodeAttempt = {
    ...state,
    phase: 'declined',
    decline: event.decline,
    keptUntilMs: event.atMs + declineKeptMs,
    claim: undefined,
    steers: [],
  }
  // What it was given goes with the turn to wherever that is taken.
  return persist(declined, [...declineAnswer(declined), { type: 'release_slot' }])
}

function onMessageState(
  state: NodeAttempt,
  event: Extract<NodeAttemptEvent, { type: 'message_state' }>,
): NodeAttemptStep {
  const { messageId } = event
  const steer = state.steers.find((known) => known.messageId === messageId)
  // The brief's own message has an id as well; nobody waits for its fate.
  if (!isOpen(state) || messageId === state.place?.firstMessageId) return nothing(state)
  if (steer !== undefined && steer.state !== 'accepted') return nothing(state)
  // One that is not known was written before this node's store was put back: should it come once more, it was taken already.
  const forgotten: QueuedSteer = { commandId: '', messageId, text: '', isDriven: true, state: event.state }
  const steers =
    steer === undefined
      ? [...state.steers, forgotten]
      : state.steers.map((known) => (known === steer ? { ...known, state: event.state } : known))
  return persist({ ...state, steers }, [
    { type: 'send', message: { type: 'message', ref: state.ref, messageId, state: event.state } },
  ])
}

function onEnded(state: NodeAttempt, event: Extract<NodeAttemptEvent, { type: 'ended' }>): NodeAttemptStep {
  if (!isOpen(state)) return nothing(state)
  const result = settleMessages(state, event.result)
  // The journal of a dead keeper may still hold a whole answer, or a stop may have been under way: then that is the end.
  // Otherwise the hub is told what the node can prove and no more; the result it pieced together is kept as evidence.
  const isBareCrash = result.outcome === 'failed' && result.reason === 'crashed'
  const keeperGone = isBareCrash ? event.keeperGone : undefined
  return end(state, result, { atMs: event.atMs, keeperGone })
}

function onCollected(state: NodeAttempt): NodeAttemptStep {
  if (state.phase === 'ended') {
    return persist({ ...state, phase: 'collected', keptUntilMs: undefined }, [{ type: 'make_receipt' }])
  }
  // Without a receipt it is being made, or could not be made the last time.
  if (state.receipt === undefined)
    return { state, effects: state.phase === 'collected' ? [{ type: 'make_receipt' }] : [] }
  return {
    state,
    effects: [{ type: 'send', message: { type: 'receipt', ref: state.ref, receipt: state.receipt } }],
  }
}

function onExpired(state: NodeAttempt, atMs: number): NodeAttemptStep {
  if (state.keptUntilMs === undefined || atMs < state.keptUntilMs) return nothing(state)
  if (state.phase === 'declined' || state.phase === 'forgotten') {
    return { state: undefined, effects: [{ type: 'delete' }] }
  }
  return { state, effects: [{ type: 'remove' }] }
}

function onReceipt(state: NodeAttempt, event: Extract<NodeAttemptEvent, { type: 'receipt' }>): NodeAttemptStep {
  if (state.phase !== 'collected' || state.receipt !== undefined) return nothing(state)
  const { receipt } = event
  const keptUntilMs = event.atMs + limits.resultKeptAfterReceiptMs
  return persist({ ...state, receipt, claim: undefined, steers: [], keptUntilMs }, [
    { type: 'send', message: { type: 'receipt', ref: state.ref, receipt } },
  ])
}

function onRemoved(state: NodeAttempt, atMs: number): NodeAttemptStep {
  if (state.phase !== 'collected' && state.end?.keeperGone === undefined) return nothing(state)
  const keptUntilMs = atMs + tombstoneKeptMs
  return persist({ ...state, phase: 'forgotten', claim: undefined, steers: [], keptUntilMs }, [{ type: 'drop_result' }])
}

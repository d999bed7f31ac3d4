import { end, stoppedBeforeLaunch } from './node-attempt-end.ts'
import type { NodeAttempt, NodeAttemptEffect, NodeAttemptEvent, QueuedSteer } from './node-attempt-state.ts'
import { isOpen, type NodeAttemptStep, nothing, persist } from './node-attempt-step.ts'

/** Messages that one turn takes; more are answered `not_taken`. @see docs/reference/limits.md */
export const steersMax = 512

/** A message for the turn. Once a stop was asked for, none is taken any more: the stop wins over what was queued. */
export function onSteer(state: NodeAttempt, event: Extract<NodeAttemptEvent, { type: 'steer' }>): NodeAttemptStep {
  const { messageId, commandId, text } = event.message
  const known = state.steers.find((steer) => steer.messageId === messageId)
  if (known !== undefined) return { state, effects: [messageAnswer(state, known)] }
  if (!isOpen(state) || state.stop !== undefined || state.steers.length >= steersMax) {
    return { state, effects: [messageAnswer(state, { messageId, state: 'not_taken' })] }
  }
  const isDriven = state.phase === 'running' && event.isLive
  const steer: QueuedSteer = { commandId, messageId, text, isDriven, state: 'accepted' }
  const drive: readonly NodeAttemptEffect[] = isDriven
    ? [{ type: 'drive', input: { type: 'steer', messageId, text }, isRepeat: false }]
    : []
  return persist({ ...state, steers: [...state.steers, steer] }, [messageAnswer(state, steer), ...drive])
}

/**
 * A stop. The first one stands. Of an ended attempt it changes nothing: its answer is the result, which is in the outbox or
 * at the hub already.
 */
export function onStop(state: NodeAttempt, event: Extract<NodeAttemptEvent, { type: 'stop' }>): NodeAttemptStep {
  const { commandId } = event.message
  if (state.stop !== undefined) return nothing(state)
  switch (state.phase) {
    case 'claimed': {
      // Nothing was started, and a preparation that comes back later finds the attempt ended.
      const stopping: NodeAttempt = { ...state, stop: { commandId, isDriven: false } }
      const ended = end(stopping, stoppedBeforeLaunch(state, commandId), { atMs: event.atMs })
      const [first, ...rest] = ended.effects
      const claimed: NodeAttemptEffect = { type: 'send', message: { type: 'claimed', ref: state.ref } }
      return { state: ended.state, effects: first === undefined ? rest : [first, claimed, ...rest] }
    }
    case 'launching':
    case 'running': {
      const stopping: NodeAttempt = { ...state, stop: { commandId, isDriven: false } }
      if (state.phase === 'launching' || !event.isLive) return persist(stopping)
      return startDriving(stopping, new Set(), { isRepeat: false })
    }
    default:
      return nothing(state)
  }
}

/**
 * Hands the driver what it has not had: at the launch everything that came before, after a restart also what it had without
 * a trace in the journal (`written` are the messages with one).
 */
export function startDriving(
  state: NodeAttempt,
  written: ReadonlySet<string>,
  { isRepeat }: { readonly isRepeat: boolean },
): NodeAttemptStep {
  const { stop } = state
  if (stop !== undefined) {
    if (stop.isDriven && !isRepeat) return persist(state)
    return persist({ ...state, stop: { ...stop, isDriven: true } }, [
      { type: 'drive', input: { type: 'stop', commandId: stop.commandId }, isRepeat: stop.isDriven },
    ])
  }
  const due = state.steers.filter(
    (steer) => steer.state === 'accepted' && (!steer.isDriven || (isRepeat && !written.has(steer.messageId))),
  )
  const effects = due.map(
    ({ messageId, text, isDriven }): NodeAttemptEffect => ({
      type: 'drive',
      input: { type: 'steer', messageId, text },
      isRepeat: isDriven,
    }),
  )
  const steers = state.steers.map((steer) => (steer.isDriven ? steer : { ...steer, isDriven: true }))
  return persist({ ...state, steers }, effects)
}

function messageAnswer(state: NodeAttempt, steer: Pick<QueuedSteer, 'messageId' | 'state'>): NodeAttemptEffect {
  return {
    type: 'send',
    message: { type: 'message', ref: state.ref, messageId: steer.messageId, state: steer.state },
  }
}

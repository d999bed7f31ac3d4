import { end, stoppedBeforeLaunch } from './node-attempt-end.ts'
import type {
  DrivenInput,
  DriverInput,
  NodeAttempt,
  NodeAttemptEffect,
  NodeAttemptEvent,
  QueuedSteer,
} from './node-attempt-state.ts'
import { isOpen, type NodeAttemptStep, nothing, persist } from './node-attempt-step.ts'

/** Messages that one turn takes; more are answered `not_taken`. @see docs/reference/limits.md */
export const steersMax = 512
/** Inputs of one turn's driver that are kept with their place; a bound for what a driver may wake itself. */
export const inputsMax = 4096

/** A message for the turn. Once a stop was asked for, none is taken any more: the stop wins over what was queued. */
export function onSteer(state: NodeAttempt, event: Extract<NodeAttemptEvent, { type: 'steer' }>): NodeAttemptStep {
  const { messageId, commandId, text } = event.message
  const known = state.steers.find((steer) => steer.messageId === messageId)
  if (known !== undefined) return { state, effects: [messageAnswer(state, known)] }
  if (!isOpen(state) || state.stop !== undefined || state.steers.length >= steersMax) {
    return { state, effects: [messageAnswer(state, { messageId, state: 'not_taken' })] }
  }
  const steer: QueuedSteer = { commandId, messageId, text, isDriven: false, state: 'accepted' }
  const queued = { ...state, steers: [...state.steers, steer] }
  return prepend(messageAnswer(state, steer), driveWaiting(queued, event.liveAt))
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
    case 'running':
      return driveWaiting({ ...state, stop: { commandId, isDriven: false } }, event.liveAt)
    default:
      return nothing(state)
  }
}

/** Hands the driver what it has not had, where it can be given anything: after a stop was asked for, that alone. */
export function driveWaiting(state: NodeAttempt, liveAt: number | undefined): NodeAttemptStep {
  if (state.phase !== 'running' || liveAt === undefined) return persist(state)
  const { stop } = state
  if (stop !== undefined) {
    if (stop.isDriven) return persist(state)
    const { commandId } = stop
    const inputs: readonly DrivenInput[] = [...state.inputs, { at: liveAt, type: 'stop', commandId }]
    return persist({ ...state, stop: { commandId, isDriven: true }, inputs }, [
      { type: 'drive', input: { type: 'stop', commandId } },
    ])
  }
  const waiting = state.steers.filter((steer) => !steer.isDriven)
  const steers = state.steers.map((steer) => (steer.isDriven ? steer : { ...steer, isDriven: true }))
  const given = waiting.map(({ messageId }): DrivenInput => ({ at: liveAt, type: 'steer', messageId }))
  return persist(
    { ...state, steers, inputs: [...state.inputs, ...given] },
    waiting.map(({ messageId, text }) => ({ type: 'drive', input: { type: 'steer', messageId, text } })),
  )
}

/** Notes that the driver was woken: what it did then has to be found again after a restart. */
export function onWoke(state: NodeAttempt, event: Extract<NodeAttemptEvent, { type: 'woke' }>): NodeAttemptStep {
  if (!isOpen(state) || state.inputs.length >= inputsMax) return nothing(state)
  const { token, liveAt } = event
  return persist({ ...state, inputs: [...state.inputs, { at: liveAt, type: 'woke', token }] })
}

/** What the driver was given so far, and where in the journal: what a restarted node gives it again. */
export function drivenInputs(state: NodeAttempt): readonly { readonly at: number; readonly input: DriverInput }[] {
  return state.inputs.map(({ at, ...input }) => {
    if (input.type !== 'steer') return { at, input }
    const text = state.steers.find(({ messageId }) => messageId === input.messageId)?.text ?? ''
    return { at, input: { ...input, text } }
  })
}

function messageAnswer(state: NodeAttempt, steer: Pick<QueuedSteer, 'messageId' | 'state'>): NodeAttemptEffect {
  return {
    type: 'send',
    message: { type: 'message', ref: state.ref, messageId: steer.messageId, state: steer.state },
  }
}

function prepend(first: NodeAttemptEffect, { state, effects }: NodeAttemptStep): NodeAttemptStep {
  const [persisted, ...rest] = effects
  return { state, effects: persisted === undefined ? [first] : [persisted, first, ...rest] }
}

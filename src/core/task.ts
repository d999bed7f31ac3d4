import { type Attempt, type AttemptEffect, isAlive, stepAttempt } from './attempt.ts'
import { unreachable } from './errors.ts'
import type { Reason } from './model.ts'
import { acceptResult, endHere } from './task-end.ts'
import { followMessage, nextTurn, send } from './task-message.ts'
import {
  type Agent,
  canContinue,
  currentTask,
  isActive,
  liveAttempt,
  refOf,
  returnedAttempt,
  type Steer,
  type Task,
} from './task-record.ts'
import {
  type AgentEvent,
  type AgentStep,
  type ClaimWithoutBrief,
  evidence,
  merge,
  type StepContext,
  saved,
  unchanged,
  withTask,
} from './task-step.ts'

/** Attempts of a task that are kept in its record; older ones that were declined say nothing any more. */
const attemptsKept = 8

/**
 * The life of an agent and its turns, as its hub decides it: quote, approve, execute, progress, review, settle, receipt.
 * A result passes review as it is. Pure and total: what no longer applies changes nothing.
 *
 * @returns the next state and the effects in order; `persist` comes first
 */
export function stepAgent(agent: Agent, event: AgentEvent, context: StepContext): AgentStep {
  switch (event.type) {
    case 'placed':
      return place(agent, event, context)
    case 'unplaced': {
      const task = currentTask(agent)
      if (task.end !== undefined || liveAttempt(agent) !== undefined) return unchanged(agent)
      return endHere(agent, { outcome: 'rejected', reason: event.reason, declines: event.declines }, context)
    }
    case 'attempt':
      return stepOneAttempt(agent, event, context)
    case 'message_state':
      return followMessage(agent, event)
    case 'stop':
      return stop(agent, event.reason, context)
    case 'send':
      return hadMessage(agent, event) ? unchanged(agent) : send(agent, event, context)
    case 'carry_over': {
      if (!canContinue(agent) || hadMessage(agent, event)) return unchanged(agent)
      return nextTurn(agent, event, context)
    }
    case 'receipt':
      return keepReceipt(agent, event, context)
    default:
      return unreachable(event)
  }
}

/** A turn has the message already, or is it: its node told so after this hub's store was put back to before that. */
function hadMessage(agent: Agent, { messageId, taskId }: { messageId: string; taskId: string }): boolean {
  const isTaken = ({ state, ...steer }: Steer): boolean =>
    steer.messageId === messageId && (state === 'taken' || state === 'interrupted')
  return agent.tasks.some((task) => task.taskId === taskId || task.steers.some(isTaken))
}

function place(agent: Agent, event: Extract<AgentEvent, { type: 'placed' }>, context: StepContext): AgentStep {
  const task = currentTask(agent)
  if (task.end !== undefined || liveAttempt(agent) !== undefined) return unchanged(agent)
  const attempt: Attempt = {
    attemptId: event.attemptId,
    number: 1 + task.attempts.filter((earlier) => earlier.phase !== 'declined').length,
    epoch: task.nextEpoch,
    peerId: event.peerId,
    machine: event.machine,
    phase: 'offered',
    isSuperseded: false,
    hasLateResult: false,
  }
  const steers = task.steers.map((steer) => (steer.state === 'waiting' ? { ...steer, state: 'sent' as const } : steer))
  const next: Task = {
    ...task,
    stage: 'execute',
    times: { ...task.times, approve: context.atMs, execute: context.atMs },
    nextEpoch: task.nextEpoch + 1,
    attempts: [...kept(task.attempts), attempt],
    steers,
  }
  const state = withTask({ ...agent, home: { peerId: event.peerId, machine: event.machine } }, next)
  const ref = refOf(agent, next, attempt)
  const claim: ClaimWithoutBrief = {
    type: 'claim',
    commandId: `${attempt.attemptId}.claim`,
    ref,
    turn: task.turn,
    ...(agent.title === undefined ? {} : { title: agent.title }),
    ...(agent.filters.dir === undefined ? {} : { dir: agent.filters.dir }),
    lostAfterMs: agent.lostAfterMs,
    ...(agent.sessionId === undefined ? {} : { resumeSessionId: agent.sessionId }),
  }
  const waiting = task.steers.filter((steer) => steer.state === 'waiting')
  return saved(state, [
    { type: 'send_claim', peerId: event.peerId, claim },
    ...waiting.map(({ messageId }) => ({ type: 'send_steer', peerId: event.peerId, ref, messageId }) as const),
  ])
}

function kept(attempts: readonly Attempt[]): readonly Attempt[] {
  return attempts.filter(({ phase }, index) => phase !== 'declined' || index > attempts.length - attemptsKept)
}

function stepOneAttempt(
  agent: Agent,
  { attemptId, event }: Extract<AgentEvent, { type: 'attempt' }>,
  context: StepContext,
): AgentStep {
  const task = agent.tasks.find((candidate) => candidate.attempts.some((attempt) => attempt.attemptId === attemptId))
  const attempt = task?.attempts.find((candidate) => candidate.attemptId === attemptId)
  if (task === undefined || attempt === undefined) return evidence(agent, 'unknown_attempt')
  const step = stepAttempt(attempt, event)
  const changed = replaceAttempt(task, step.state)
  const followed = step.effects.reduce<AgentStep>(
    (sum, effect) => follow(sum, effect, { taskId: task.taskId, attempt: step.state, context }),
    { state: step.state === attempt ? agent : withTask(agent, changed), effects: [] },
  )
  // A node that says a known end once more was not told that it arrived, or lost that word, and the receipt, with its store.
  if (event.type !== 'ended' || attempt.phase !== 'ended') return followed
  const ref = refOf(agent, task, attempt)
  const collected = { type: 'send_collected', peerId: attempt.peerId, ref, text: event.result.text } as const
  return { state: followed.state, effects: [...followed.effects, collected] }
}

interface Following {
  readonly taskId: string
  readonly attempt: Attempt
  readonly context: StepContext
}

function follow(sum: AgentStep, effect: AttemptEffect, { taskId, attempt, context }: Following): AgentStep {
  const agent = sum.state
  const task = agent.tasks.find((candidate) => candidate.taskId === taskId)
  if (task === undefined) return sum
  switch (effect.type) {
    case 'persist': {
      const isStarted = attempt.phase === 'running' && task.stage === 'execute'
      const times = { ...task.times, progress: context.atMs }
      const state = isStarted ? withTask(agent, { ...task, stage: 'progress', times }) : agent
      return saved(state, sum.effects)
    }
    case 'session_known':
      return { state: { ...agent, sessionId: effect.sessionId }, effects: sum.effects }
    case 'accept_decline':
      return merge(sum, backToPlacement(agent, task, { ...effect, attempt, context }))
    case 'accept_result':
      return merge(sum, acceptResult(agent, task, { ...effect, attempt, context }))
    case 'accept_loss': {
      if (task.end !== undefined) return sum
      const { ground, message } = effect
      const lost = endHere(agent, { outcome: 'node_lost', ground, message, attempt }, context)
      const { peerId, attemptId } = attempt
      return merge(sum, saved(lost.state, [...lost.effects, { type: 'void_commands', peerId, attemptId }]))
    }
    case 'keep_as_evidence':
      return merge(sum, evidence(agent, effect.reason))
    default:
      return unreachable(effect)
  }
}

/** A decline ends the attempt, not the task: another node, or the same one later, may take it. */
function backToPlacement(
  agent: Agent,
  task: Task,
  decline: {
    readonly reason: Reason
    readonly message: string
    readonly isPermanent: boolean
    readonly attempt: Attempt
    readonly context: StepContext
  },
): AgentStep {
  // An attempt that is not the newest decides nothing any more.
  if (task.end !== undefined || task.attempts.at(-1)?.attemptId !== decline.attempt.attemptId) return unchanged(agent)
  const { attempt, reason, message, isPermanent } = decline
  const declines = [
    ...task.declines.filter((earlier) => earlier.peerId !== attempt.peerId),
    { peerId: attempt.peerId, machine: attempt.machine, reason, message, isPermanent },
  ]
  const steers = task.steers.map((steer) =>
    steer.state === 'sent' || steer.state === 'accepted' ? { ...steer, state: 'waiting' as const } : steer,
  )
  const { home: _, ...homeless } = agent
  const released = agent.sessionId === undefined ? homeless : agent
  const state = withTask(released, { ...task, stage: 'quote', declines, steers })
  // Nothing of it ran, so a stop that was on its way is done.
  if (task.stop !== undefined) return endHere(state, { outcome: 'stopped' }, decline.context)
  return saved(state, [{ type: 'find_place', taskId: task.taskId }])
}

function stop(agent: Agent, reason: string | undefined, context: StepContext): AgentStep {
  const task = currentTask(agent)
  const returned = returnedAttempt(agent)
  if (task.stop !== undefined || (task.end !== undefined && returned === undefined)) return unchanged(agent)
  const attempt = returned ?? liveAttempt(agent)
  if (attempt === undefined) return endHere(agent, { outcome: 'stopped' }, context)
  const commandId = `${attempt.attemptId}.stop`
  const given = reason === undefined ? {} : { reason }
  const state = withTask(agent, { ...task, stop: { commandId, ...given } })
  const message = { type: 'stop', commandId, ref: refOf(agent, task, attempt), ...given } as const
  return saved(state, [{ type: 'send_stop', peerId: attempt.peerId, stop: message }])
}

function keepReceipt(agent: Agent, event: Extract<AgentEvent, { type: 'receipt' }>, context: StepContext): AgentStep {
  const task = agent.tasks.find((candidate) =>
    candidate.attempts.some((attempt) => attempt.attemptId === event.attemptId),
  )
  // A receipt before the end is no receipt of it: only a node that does not keep to the protocol sends one.
  if (task === undefined || task.end === undefined || task.receiptId !== undefined) return unchanged(agent)
  const times = { ...task.times, receipt: context.atMs }
  return saved(withTask(agent, { ...task, stage: 'receipt', times, receiptId: event.receiptId }), [])
}

/** Whether something may still come of the agent: a turn has not ended, or an attempt whose end was never told. */
export function isOpenAgent(agent: Agent): boolean {
  return isActive(agent) || unsettledAttempts(agent).length > 0
}

/** Attempts whose fence a session opening names: all of which something may still come (rule 5). */
export function unsettledAttempts(agent: Agent): readonly Attempt[] {
  return agent.tasks.flatMap((task) => task.attempts.filter(isUnsettled))
}

function isUnsettled(attempt: Attempt): boolean {
  return isAlive(attempt) || attempt.phase === 'lost'
}

function replaceAttempt(task: Task, next: Attempt): Task {
  const attempts = task.attempts.map((attempt) => (attempt.attemptId === next.attemptId ? next : attempt))
  return { ...task, attempts }
}

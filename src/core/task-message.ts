import { type Agent, canContinue, currentTask, liveAttempt, refOf, type Steer } from './task-record.ts'
import {
  type AgentEffect,
  type AgentEvent,
  type AgentStep,
  type NextTurn,
  newTask,
  type StepContext,
  saved,
  unchanged,
  withTask,
} from './task-step.ts'

/** A message joins the running turn, waits for a queued one, or starts the next (rule 22). */
export function send(agent: Agent, event: Extract<AgentEvent, { type: 'send' }>, context: StepContext): AgentStep {
  const task = currentTask(agent)
  if (task.end !== undefined) {
    return canContinue(agent) ? nextTurn(agent, event, context) : unchanged(agent)
  }
  if (task.steers.some((steer) => steer.messageId === event.messageId)) return unchanged(agent)
  const attempt = liveAttempt(agent)
  const steer: Steer = {
    messageId: event.messageId,
    state: attempt === undefined ? 'waiting' : 'sent',
    isReported: false,
  }
  const state = withTask(agent, { ...task, steers: [...task.steers, steer] })
  if (attempt === undefined) return saved(state, [])
  const ref = refOf(agent, task, attempt)
  return saved(state, [{ type: 'send_steer', peerId: attempt.peerId, ref, messageId: event.messageId }])
}

/** The next turn of an idle agent, in the same session and workspace. */
export function nextTurn(agent: Agent, event: NextTurn & { messageId: string }, context: StepContext): AgentStep {
  const task = newTask({ ...event, turn: agent.tasks.length + 1, atMs: context.atMs })
  return saved({ ...agent, tasks: [...agent.tasks, task] }, [
    { type: 'use_as_brief', messageId: event.messageId, taskId: task.taskId },
    { type: 'find_place', taskId: task.taskId },
  ])
}

/** The node's word on a message. */
export function followMessage(agent: Agent, event: Extract<AgentEvent, { type: 'message_state' }>): AgentStep {
  const task = agent.tasks.find((candidate) =>
    candidate.attempts.some((attempt) => attempt.attemptId === event.attemptId),
  )
  const steer = task?.steers.find((candidate) => candidate.messageId === event.messageId)
  if (task === undefined || steer === undefined || steer.isReported) return unchanged(agent)
  if (steer.state !== 'sent' && steer.state !== 'accepted') return unchanged(agent)
  // What an attempt before the newest did not take is with the newest; what it took, it took.
  const isEarlier = task.attempts.at(-1)?.attemptId !== event.attemptId
  if (isEarlier && (event.state === 'accepted' || event.state === 'not_taken')) return unchanged(agent)
  // A turn that is over and said nothing of the message never had it: the text is not lost, it starts the next turn.
  const isLeftOver = event.state === 'not_taken' && task.end !== undefined
  const next = { ...steer, state: event.state, isReported: isLeftOver }
  const steers = task.steers.map((candidate) => (candidate === steer ? next : candidate))
  const carry: readonly AgentEffect[] = isLeftOver ? [{ type: 'carry_over', messageId: event.messageId }] : []
  return saved(withTask(agent, { ...task, steers }), carry)
}

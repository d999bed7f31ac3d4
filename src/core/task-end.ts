import type { Attempt, LostGround } from './attempt.ts'
import { type AttemptResult, type MessageReport, noUsage, type Outcome, type Reason, type Stage } from './model.ts'
import type { Decline } from './placement.ts'
import {
  type Agent,
  canContinue,
  currentTask,
  type ResultEntry,
  refOf,
  type Steer,
  type Task,
  type TaskEnd,
} from './task-record.ts'
import { type AgentEffect, type AgentStep, type StepContext, saved, withTask } from './task-step.ts'

export interface AcceptedResult {
  readonly result: AttemptResult
  readonly isLate: boolean
  readonly isSuperseded: boolean
  readonly isMaybeSeen: boolean
  readonly attempt: Attempt
  readonly context: StepContext
}

/**
 * A node's result becomes official: one entry in the inbox, the node told that it may settle. One that comes after the
 * task was counted lost is one more entry, marked late, and changes nothing that was decided.
 */
export function acceptResult(agent: Agent, task: Task, accepted: AcceptedResult): AgentStep {
  const { result, attempt, context, isSuperseded } = accepted
  const isLate = accepted.isLate || task.end !== undefined
  const reported = isLate ? { messages: result.messages, steers: task.steers } : reportSteers(task.steers, result)
  const end: TaskEnd = {
    outcome: result.outcome,
    ...(result.reason === undefined ? {} : { reason: result.reason }),
    atMs: context.atMs,
    deliveryId: context.deliveryId,
    usage: result.usage,
    ...(result.exitProof === undefined ? {} : { proof: result.exitProof }),
    isSuperseded,
  }
  const next: Task = isLate ? { ...task, lateEnd: end } : settle({ ...task, steers: reported.steers }, end)
  const known = agent.sessionId ?? result.sessionId
  const ended = withTask(known === undefined ? agent : { ...agent, sessionId: known }, next)
  const { state, messages } = isLate ? { state: ended, messages: [] } : closeMessages(ended)
  const entry: ResultEntry = {
    ...entryBase(agent, task, context),
    attempt: attempt.number,
    outcome: result.outcome,
    text: result.text,
    ...(result.reason === undefined ? {} : { reason: result.reason }),
    ...(result.hint === undefined ? {} : { hint: result.hint }),
    denied: result.denied,
    details: result.details,
    machine: attempt.machine,
    usage: result.usage,
    messages: [...reported.messages, ...messages],
    isLate,
    isSuperseded,
    ...(accepted.isMaybeSeen ? { isMaybeSeen: true } : {}),
  }
  const ref = refOf(agent, task, attempt)
  return saved(state, [
    { type: 'deliver', entry },
    { type: 'send_collected', peerId: attempt.peerId, ref, text: result.text },
  ])
}

/** What the turn's end says of each message: the node's report first, then what was settled before it. */
function reportSteers(
  steers: readonly Steer[],
  result: AttemptResult,
): { messages: readonly MessageReport[]; steers: readonly Steer[] } {
  const reports = new Map(result.messages.map((report) => [report.messageId, report.state]))
  const next = steers.map((steer): Steer => {
    const state = reports.get(steer.messageId) ?? settledState(steer, result.outcome)
    return state === undefined ? steer : { ...steer, state, isReported: true }
  })
  // What was written to the turn in a time that this hub's store lost is in no other turn any more.
  const known = new Set(steers.map(({ messageId }) => messageId))
  const forgotten = result.messages.filter(({ messageId }) => !known.has(messageId))
  for (const { messageId, state, isReported } of next) {
    if (isReported && !reports.has(messageId) && isFinal(state)) reports.set(messageId, state)
  }
  const all = [...next, ...forgotten.map((report): Steer => ({ ...report, isReported: true }))]
  return { messages: [...reports].map(([messageId, state]) => ({ messageId, state })), steers: all }
}

/** Where no turn can follow, what no turn took is told now: nothing else would ever tell it. */
function closeMessages(ended: Agent): { readonly state: Agent; readonly messages: readonly MessageReport[] } {
  if (canContinue(ended)) return { state: ended, messages: [] }
  const messages: MessageReport[] = []
  const tasks = ended.tasks.map((task) => {
    if (task.steers.every(({ isReported }) => isReported)) return task
    const steers = task.steers.map((steer): Steer => {
      if (steer.isReported) return steer
      const state = isFinal(steer.state) ? steer.state : 'not_taken'
      messages.push({ messageId: steer.messageId, state })
      return { ...steer, state, isReported: true }
    })
    return { ...task, steers }
  })
  return { state: { ...ended, tasks }, messages }
}

/** A message that the node has not answered yet is left open: its answer comes, and may start the next turn. */
function settledState(steer: Steer, outcome: Outcome): MessageReport['state'] | undefined {
  if (isFinal(steer.state)) return steer.state
  if (steer.state === 'accepted') return 'interrupted'
  // A stop wins over a message that had not arrived (rule 23).
  return outcome === 'stopped' ? 'not_taken' : undefined
}

function isFinal(state: Steer['state']): state is MessageReport['state'] {
  return state === 'taken' || state === 'not_taken' || state === 'interrupted'
}

export interface HubsEnd {
  readonly outcome: 'stopped' | 'rejected' | 'node_lost'
  readonly reason?: Reason
  readonly declines?: readonly Decline[]
  readonly ground?: LostGround
  readonly message?: string
  readonly attempt?: Attempt
}

/** Ends the current turn without a word from its process: it never had one, or its node is lost. */
export function endHere(agent: Agent, how: HubsEnd, context: StepContext): AgentStep {
  const task = currentTask(agent)
  const isLost = how.outcome === 'node_lost'
  const messages = task.steers.map(({ messageId, state }): MessageReport => {
    if (isFinal(state)) return { messageId, state }
    return { messageId, state: isLost && state !== 'waiting' ? 'interrupted' : 'not_taken' }
  })
  const end: TaskEnd = {
    outcome: how.outcome,
    ...(how.reason === undefined ? {} : { reason: how.reason }),
    ...(how.ground === undefined ? {} : { ground: how.ground }),
    atMs: context.atMs,
    deliveryId: context.deliveryId,
    usage: noUsage,
    isSuperseded: false,
  }
  const steers = task.steers.map((steer) => ({ ...steer, isReported: true }))
  const closed = closeMessages(withTask(agent, settle({ ...task, steers }, end)))
  const machine = how.attempt?.machine ?? agent.home?.machine ?? agent.filters.machine
  const entry: ResultEntry = {
    ...entryBase(agent, task, context),
    attempt: how.attempt?.number ?? Math.max(1, task.attempts.filter(({ phase }) => phase !== 'declined').length),
    outcome: how.outcome,
    text: '',
    ...(how.reason === undefined ? {} : { reason: how.reason }),
    ...(how.ground === undefined ? {} : { ground: how.ground }),
    hint: hintOf(how),
    declines: how.declines ?? [],
    details: how.message === undefined ? {} : { message: how.message },
    ...(machine === undefined ? {} : { machine }),
    messages: [...messages, ...closed.messages],
  }
  const deliver: AgentEffect = { type: 'deliver', entry }
  return saved(closed.state, [deliver])
}

/** Review passes everything through, so accept and settle are one batch. */
function settle(task: Task, end: TaskEnd): Task {
  const times: Partial<Record<Stage, number>> = { ...task.times, review: end.atMs, settle: end.atMs }
  return { ...task, stage: 'settle', times, end }
}

function entryBase(agent: Agent, task: Task, context: StepContext) {
  return {
    deliveryId: context.deliveryId,
    agentId: agent.agentId,
    taskId: task.taskId,
    turn: task.turn,
    text: '',
    denied: [],
    declines: [],
    details: {},
    usage: noUsage,
    messages: [],
    isLate: false,
    isSuperseded: false,
    atMs: context.atMs,
  } satisfies Partial<ResultEntry>
}

function hintOf(how: HubsEnd): string {
  switch (how.outcome) {
    case 'stopped':
      return 'The turn was stopped before a process of it ran.'
    case 'node_lost':
      return 'What the agent did up to then is on its machine. Should a result still arrive, it comes once, with late: true.'
    case 'rejected':
      return how.reason === 'no_machine'
        ? 'list_nodes shows which machines match and how many slots are free; timeout_ms says how long a spawn waits for one.'
        : 'details.declines says why each matching machine declined; another machine, or a change by its owner, is needed.'
  }
}

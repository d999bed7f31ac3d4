import { type Attempt, isAlive, type LostGround } from './attempt.ts'
import type { AttemptRef } from './messages.ts'
import type {
  AgentState,
  DeniedTool,
  Filters,
  MessageReport,
  MessageState,
  Outcome,
  Reason,
  Stage,
  TurnRequest,
  Usage,
} from './model.ts'
import type { Decline } from './placement.ts'

/**
 * An agent as its hub keeps it: where its session and workspace are, and its turns. Texts (briefs, messages, results) are
 * kept beside it under their own keys, so that this record stays small and may be written at every change.
 */
export interface Agent {
  readonly agentId: string
  /** Counts the hub's agents from 1: the order of lists. */
  readonly no: number
  readonly title?: string
  readonly filters: Filters
  /** The PeerId that `filters.machine` named when the spawn was accepted (rule 14). */
  readonly boundTo?: string
  readonly lostAfterMs: number
  /** The spawn named that bound; otherwise the one of the node counts, where it has one. */
  readonly isLostAfterGiven?: boolean
  readonly settings: TurnSettings
  /** The node that holds session and workspace, from the first claim on. */
  readonly home?: Home
  readonly sessionId?: string
  readonly startedAtMs: number
  /** Turn n is `tasks[n - 1]`; never empty. */
  readonly tasks: readonly Task[]
}

export interface Home {
  readonly peerId: string
  readonly machine: string
}

/** What a turn is run with besides its text. What nobody set is absent. */
export type TurnSettings = Omit<TurnRequest, 'brief'>

export interface Task {
  readonly taskId: string
  readonly turn: number
  readonly stage: Stage
  /** Wall clock at which each stage was reached. */
  readonly times: Readonly<Partial<Record<Stage, number>>>
  /** SHA-256 of the brief's UTF-8 bytes, hex. */
  readonly briefHash: string
  /** How long it may look for a place; 0: now or never. */
  readonly timeoutMs: number
  readonly nextEpoch: number
  readonly attempts: readonly Attempt[]
  readonly declines: readonly Decline[]
  readonly stop?: { readonly commandId: string; readonly reason?: string }
  readonly steers: readonly Steer[]
  readonly end?: TaskEnd
  readonly lateEnd?: TaskEnd
  readonly receiptId?: string
}

/** A message on its way into a turn. */
export interface Steer {
  readonly messageId: string
  /** `waiting`: the turn has no process yet. `sent`: the node has not answered. The rest is the node's word. */
  readonly state: 'waiting' | 'sent' | 'accepted' | MessageState
  /** The turn's result tells what became of it; it is not carried over. */
  readonly isReported: boolean
}

export interface TaskEnd {
  readonly outcome: Outcome
  readonly reason?: Reason
  readonly atMs: number
  readonly deliveryId: number
  readonly usage: Usage
  readonly proof?: string
  /** Of a turn whose node was lost. */
  readonly ground?: LostGround
  readonly isSuperseded: boolean
}

/** A result as it enters the inbox: everything but the presentation. Written once, never changed. */
export interface ResultEntry {
  readonly deliveryId: number
  readonly agentId: string
  readonly taskId: string
  readonly attempt: number
  readonly turn: number
  readonly outcome: Outcome
  readonly text: string
  readonly reason?: Reason
  readonly hint?: string
  readonly ground?: LostGround
  readonly denied: readonly DeniedTool[]
  readonly declines: readonly Decline[]
  readonly details: Readonly<Record<string, string>>
  readonly machine?: string
  readonly usage: Usage
  readonly messages: readonly MessageReport[]
  readonly isLate: boolean
  readonly isSuperseded: boolean
  /** Accepted after this hub's store was put back: it may have been read before. */
  readonly isMaybeSeen?: boolean
  readonly atMs: number
}

export function currentTask(agent: Agent): Task {
  const task = agent.tasks.at(-1)
  if (task === undefined) throw new Error(`the agent ${agent.agentId} has no turn`)
  return task
}

/** The attempt that the task stands or falls with: the newest one. */
export function currentAttempt(task: Task): Attempt | undefined {
  return task.attempts.at(-1)
}

/** The attempt that may be running now, if any. */
export function liveAttempt(agent: Agent): Attempt | undefined {
  const task = currentTask(agent)
  if (task.end !== undefined) return undefined
  const attempt = currentAttempt(task)
  return attempt !== undefined && isAlive(attempt) ? attempt : undefined
}

/** Whether the task waits for a place. */
export function isQueued(agent: Agent): boolean {
  return currentTask(agent).end === undefined && liveAttempt(agent) === undefined
}

export function refOf(agent: Agent, task: Task, attempt: Attempt): AttemptRef {
  return { agentId: agent.agentId, taskId: task.taskId, attemptId: attempt.attemptId, epoch: attempt.epoch }
}

/** The turn that was counted lost and runs on all the same, on a node that is back. */
export function returnedAttempt(agent: Agent): Attempt | undefined {
  return currentTask(agent).attempts.findLast((attempt) => attempt.isBack === true)
}

/** The state that lists show. */
export function agentStateOf(agent: Agent): AgentState {
  const task = currentTask(agent)
  if (returnedAttempt(agent) !== undefined) return task.stop === undefined ? 'running' : 'stopping'
  if (task.end !== undefined) return canContinue(agent) ? 'idle' : 'closed'
  if (task.stop !== undefined) return 'stopping'
  const attempt = liveAttempt(agent)
  if (attempt === undefined) return 'queued'
  return attempt.phase === 'running' ? 'running' : 'starting'
}

export function isActive(agent: Agent): boolean {
  return currentTask(agent).end === undefined
}

/** Reasons after which the session or its workspace is no longer there to go on with. */
const fatalReasons: ReadonlySet<Reason> = new Set(['session_missing', 'workspace', 'machine_changed', 'revoked'])

/** Whether the session and workspace still exist, so that a message starts another turn. */
export function canContinue(agent: Agent): boolean {
  const { end, lateEnd, turn } = currentTask(agent)
  if (end === undefined || agent.sessionId === undefined) return false
  if (end.reason !== undefined && fatalReasons.has(end.reason)) return false
  switch (end.outcome) {
    case 'completed':
    case 'failed':
    case 'stopped':
      return true
    case 'rejected':
      // A continuation that found no slot in time has lost nothing: the session is where it was.
      return turn > 1
    case 'node_lost':
      return lateEnd !== undefined && !lateEnd.isSuperseded
  }
}

/** What all turns of the agent used. */
export function usageOf(agent: Agent): Usage {
  const ends = agent.tasks.flatMap(({ end, lateEnd }) => [end, lateEnd])
  return ends.reduce<Usage>(
    (sum, end) => ({
      inputTokens: sum.inputTokens + (end?.usage.inputTokens ?? 0),
      outputTokens: sum.outputTokens + (end?.usage.outputTokens ?? 0),
      costUsd: sum.costUsd + (end?.usage.costUsd ?? 0),
      durationMs: sum.durationMs + (end?.usage.durationMs ?? 0),
    }),
    { inputTokens: 0, outputTokens: 0, costUsd: 0, durationMs: 0 },
  )
}

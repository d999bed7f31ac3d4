import type { AttemptEvent } from './attempt.ts'
import type { AttemptRef, HubMessage } from './messages.ts'
import type { Reason } from './model.ts'
import type { Decline } from './placement.ts'
import type { Agent, ResultEntry, Steer, Task } from './task-record.ts'

/** What may happen to an agent. */
export type AgentEvent =
  /** Placement chose a node: quote, approval and claim in one. */
  | { readonly type: 'placed'; readonly attemptId: string; readonly peerId: string; readonly machine: string }
  /** Placement gave up, or every match declined for good. */
  | { readonly type: 'unplaced'; readonly reason: Reason; readonly declines: readonly Decline[] }
  /** What a node said about an attempt, or what the hub found out about it. */
  | { readonly type: 'attempt'; readonly attemptId: string; readonly event: AttemptEvent }
  | {
      readonly type: 'message_state'
      readonly attemptId: string
      readonly messageId: string
      readonly state: Steer['state']
    }
  | { readonly type: 'stop'; readonly reason?: string }
  /** A message for the agent: joins the running turn, or becomes the turn `taskId` with this text. */
  | ({ readonly type: 'send'; readonly messageId: string } & NextTurn)
  /** A message that a turn ended without becomes a turn of its own. */
  | ({ readonly type: 'carry_over'; readonly messageId: string } & NextTurn)
  | { readonly type: 'receipt'; readonly attemptId: string; readonly receiptId: string }

/** Ids for the turn that a message may start. */
export interface NextTurn {
  readonly taskId: string
  readonly textHash: string
  readonly timeoutMs: number
}

export type AgentEffect =
  | { readonly type: 'persist' }
  /** The shell adds the brief. */
  | { readonly type: 'send_claim'; readonly peerId: string; readonly claim: ClaimWithoutBrief }
  /** The shell adds the text. */
  | { readonly type: 'send_steer'; readonly peerId: string; readonly ref: AttemptRef; readonly messageId: string }
  | { readonly type: 'send_stop'; readonly peerId: string; readonly stop: Extract<HubMessage, { type: 'stop' }> }
  /** The result is part of this batch: the node is told, once that is durable, that it may settle. */
  | { readonly type: 'send_collected'; readonly peerId: string; readonly ref: AttemptRef; readonly text: string }
  | { readonly type: 'deliver'; readonly entry: ResultEntry }
  /** Commands of the attempt that are still in the outbox say nothing any more: a node that comes back must not act on them. */
  | { readonly type: 'void_commands'; readonly peerId: string; readonly attemptId: string }
  /** The task waits for a place from now on. */
  | { readonly type: 'find_place'; readonly taskId: string }
  /** The message is the brief of this turn. */
  | { readonly type: 'use_as_brief'; readonly messageId: string; readonly taskId: string }
  /** The turn ended without the message and did not report it: it becomes a turn of its own. */
  | { readonly type: 'carry_over'; readonly messageId: string }
  | { readonly type: 'keep_as_evidence'; readonly reason: string }

export type ClaimWithoutBrief = Omit<Extract<HubMessage, { type: 'claim' }>, 'request'>

export interface AgentStep {
  readonly state: Agent
  readonly effects: readonly AgentEffect[]
}

export interface StepContext {
  /** Wall clock: a label. */
  readonly atMs: number
  /** The number that an entry takes if this step delivers one; at most one does. */
  readonly deliveryId: number
}

/** A turn that waits for its place. */
export function newTask(options: NextTurn & { readonly turn: number; readonly atMs: number }): Task {
  const { taskId, turn, textHash, timeoutMs, atMs } = options
  return {
    taskId,
    turn,
    stage: 'quote',
    times: { quote: atMs },
    briefHash: textHash,
    timeoutMs,
    nextEpoch: 1,
    attempts: [],
    declines: [],
    steers: [],
  }
}

/** The agent with one of its tasks replaced. */
export function withTask(agent: Agent, next: Task): Agent {
  return { ...agent, tasks: agent.tasks.map((task) => (task.taskId === next.taskId ? next : task)) }
}

/** A step that changed the record: `persist` first, once. */
export function saved(state: Agent, effects: readonly AgentEffect[]): AgentStep {
  return { state, effects: [{ type: 'persist' }, ...effects.filter((effect) => effect.type !== 'persist')] }
}

/** A step that changed nothing. */
export function unchanged(state: Agent): AgentStep {
  return { state, effects: [] }
}

/** What one step did, and then another on its state. */
export function merge(sum: AgentStep, next: AgentStep): AgentStep {
  const all = [...sum.effects, ...next.effects]
  return all.some((effect) => effect.type === 'persist') ? saved(next.state, all) : { state: next.state, effects: all }
}

export function evidence(agent: Agent, reason: string): AgentStep {
  return { state: agent, effects: [{ type: 'keep_as_evidence', reason }] }
}

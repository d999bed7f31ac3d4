import type { Attempt, LostGround } from './attempt.ts'
import type { InboxEvent } from './inbox.ts'
import type { InboxEffect } from './inbox-state.ts'
import type { Outcome, Reason } from './model.ts'
import type { Agent, Task, TaskEnd } from './task-record.ts'
import type { AgentEffect, AgentEvent } from './task-step.ts'

/**
 * What a hub decided, one fact after the other: a history that is only ever added to, and that is written in the batch of
 * the decision that it tells of. It decides nothing; it is there to be held against what is on record.
 */
export type HistoryFact =
  /** A hub process began under this epoch, or raised it above what a node had seen. */
  | { readonly type: 'hub_began'; readonly epoch: number; readonly incarnation: number }
  | { readonly type: 'epoch_raised'; readonly epoch: number }
  /** The history is younger than its store: of agents up to this number it does not have the beginning. */
  | { readonly type: 'inherited'; readonly lastAgentNo: number; readonly nextDeliveryId: number }
  | { readonly type: 'turn_asked'; readonly agentId: string; readonly taskId: string; readonly turn: number }
  | ({
      readonly type: 'attempt_made'
      readonly epoch: number
      readonly peerId: string
      readonly machine: string
      /**
       * Given before this hub's store was put back, and told of by its node. `left_behind`: the turn has gone another way
       * since, and it never becomes the turn's owner.
       */
      readonly found?: 'taken_up' | 'left_behind'
    } & AttemptName)
  /** `by`: the machine that said so, by PeerId; absent where this hub found it out. */
  | ({ readonly type: 'attempt_became'; readonly phase: AttemptPhase; readonly by?: string } & AttemptName)
  | TurnResult
  | ({ readonly type: 'receipt_taken'; readonly receiptId: string; readonly by?: string } & AttemptName)
  /** What a node said and what changed nothing. */
  | ({ readonly type: 'evidence'; readonly reason: string; readonly by?: string } & Pick<
      AttemptName,
      'agentId' | 'attemptId'
    >)
  /** An entry of the inbox that is no result. */
  | {
      readonly type: 'entry_added'
      readonly deliveryId: number
      readonly kind: 'spawn' | 'event'
      readonly agentId?: string
    }
  | {
      readonly type: 'offered'
      readonly offerId: string
      readonly carries: readonly number[]
      readonly names: readonly number[]
    }
  | { readonly type: 'confirmed'; readonly offerId: string }
  /** Nothing of the reply was written: what it carried is free again, but for what is named instead. */
  | { readonly type: 'withdrawn'; readonly offerId: string }
  /** Nobody knows whether these were read: every reply names them from now on. */
  | { readonly type: 'doubted'; readonly deliveryIds: readonly number[] }
  /** These were read, or were named in a reply that was. */
  | { readonly type: 'settled'; readonly deliveryIds: readonly number[] }

export interface AttemptName {
  readonly agentId: string
  readonly taskId: string
  readonly attemptId: string
}

export type AttemptPhase = Exclude<Attempt['phase'], 'offered'> | 'superseded' | 'back'

/** A result became official: the end of a turn, or a late one. */
export interface TurnResult {
  readonly type: 'result'
  readonly agentId: string
  readonly taskId: string
  readonly turn: number
  /** The attempt whose end it is, its epoch and the machine that told; absent where no attempt of it ended. */
  readonly attemptId?: string
  readonly epoch?: number
  readonly by?: string
  readonly outcome: Outcome
  readonly reason?: Reason
  readonly ground?: LostGround
  readonly deliveryId: number
  /** SHA-256 of the text, hex. */
  readonly textHash: string
  readonly isLate?: true
  readonly isMaybeSeen?: true
}

/** A fact in its place: `seq` counts from 1 without gaps; `atMs` is the hub's wall clock, a label. */
export type HistoryEvent = HistoryFact & { readonly seq: number; readonly atMs: number }

/** As it is kept: `hash` is that of `chainedText`, over the hash before it and the event. */
export interface HistoryRecord {
  readonly event: HistoryEvent
  readonly hash: string
}

/** The hash before the first event. */
export const emptyHistoryHash = ''

/** What is hashed, with SHA-256, for an event's place in the chain. */
export function chainedText(previousHash: string, event: HistoryEvent): string {
  return `${previousHash}\n${JSON.stringify(event)}`
}

/** What led from one state of an agent to the next. */
export interface AgentChange {
  /** Undefined for an agent that was just taken in. */
  readonly previous: Agent | undefined
  readonly next: Agent
  readonly event?: AgentEvent
  readonly effects: readonly AgentEffect[]
  /** The machine whose word it was. */
  readonly by?: string
  readonly sha256: (text: string) => string
}

/** What a change of an agent adds to the history, in order. */
export function factsOfChange(change: AgentChange): readonly HistoryFact[] {
  const { previous, next, event, effects } = change
  const facts: HistoryFact[] = []
  for (const task of next.tasks) {
    const before = previous?.tasks.find(({ taskId }) => taskId === task.taskId)
    if (before !== task) facts.push(...factsOfTask(change, before, task))
  }
  for (const effect of effects) {
    if (effect.type !== 'keep_as_evidence' || event?.type !== 'attempt') continue
    const { agentId } = next
    facts.push({ type: 'evidence', agentId, attemptId: event.attemptId, reason: effect.reason, ...byOf(change) })
  }
  return facts
}

function factsOfTask(change: AgentChange, before: Task | undefined, task: Task): readonly HistoryFact[] {
  const { agentId } = change.next
  const { taskId, turn } = task
  const facts: HistoryFact[] = []
  if (before === undefined) facts.push({ type: 'turn_asked', agentId, taskId, turn })
  for (const attempt of task.attempts) {
    const known = before?.attempts.find(({ attemptId }) => attemptId === attempt.attemptId)
    if (known !== attempt) facts.push(...factsOfAttempt(change, taskId, { known, attempt }))
  }
  if (task.end !== undefined && before?.end === undefined) facts.push(...factsOfEnd(change, task, task.end))
  if (task.lateEnd !== undefined && before?.lateEnd !== task.lateEnd)
    facts.push(...factsOfEnd(change, task, task.lateEnd))
  if (task.receiptId !== undefined && before?.receiptId !== task.receiptId && change.event?.type === 'receipt') {
    const { attemptId } = change.event
    facts.push({ type: 'receipt_taken', agentId, taskId, attemptId, receiptId: task.receiptId, ...byOf(change) })
  }
  return facts
}

function factsOfAttempt(
  change: AgentChange,
  taskId: string,
  { known, attempt }: { readonly known: Attempt | undefined; readonly attempt: Attempt },
): readonly HistoryFact[] {
  const { attemptId, epoch, peerId, machine, phase, isFound, isSuperseded } = attempt
  const name = { agentId: change.next.agentId, taskId, attemptId }
  const facts: HistoryFact[] = []
  if (known === undefined) {
    const found = isFound === true ? ({ found: isSuperseded ? 'left_behind' : 'taken_up' } as const) : {}
    facts.push({ type: 'attempt_made', ...name, epoch, peerId, machine, ...found })
  }
  const became = (to: AttemptPhase): void => {
    facts.push({ type: 'attempt_became', ...name, phase: to, ...byOf(change) })
  }
  if (phase !== 'offered' && known?.phase !== phase) became(phase)
  if (isSuperseded && known?.isSuperseded !== true) became('superseded')
  if (attempt.isBack === true && known?.isBack !== true) became('back')
  return facts
}

function factsOfEnd(
  { next, event, effects, sha256, ...change }: AgentChange,
  task: Task,
  end: TaskEnd,
): readonly HistoryFact[] {
  const { taskId, turn } = task
  const { outcome, reason, deliveryId } = end
  const entry = effects.find((effect) => effect.type === 'deliver' && effect.entry.deliveryId === deliveryId)
  const delivered = entry?.type === 'deliver' ? entry.entry : undefined
  const attempt =
    event?.type === 'attempt' ? task.attempts.find(({ attemptId }) => attemptId === event.attemptId) : undefined
  return [
    {
      type: 'result',
      agentId: next.agentId,
      taskId,
      turn,
      ...(attempt === undefined ? {} : { attemptId: attempt.attemptId, epoch: attempt.epoch }),
      ...byOf(change),
      outcome,
      ...(reason === undefined ? {} : { reason }),
      ...(delivered?.ground === undefined ? {} : { ground: delivered.ground }),
      deliveryId,
      textHash: sha256(delivered?.text ?? ''),
      ...(delivered?.isLate === true ? { isLate: true } : {}),
      ...(delivered?.isMaybeSeen === true ? { isMaybeSeen: true } : {}),
    },
  ]
}

function byOf({ by }: { readonly by?: string }): { readonly by?: string } {
  return by === undefined ? {} : { by }
}

/** What a step of the inbox adds to the history. A result is told with its turn. */
export function factsOfInbox(event: InboxEvent, effects: readonly InboxEffect[]): readonly HistoryFact[] {
  return effects.flatMap((effect) => {
    const facts: HistoryFact[] = []
    if (event.type === 'added' && event.kind !== 'result') {
      const { kind, agentId } = event
      const deliveryId = effect.nextDeliveryId - 1
      facts.push({ type: 'entry_added', deliveryId, kind, ...(agentId === undefined ? {} : { agentId }) })
    }
    if (event.type === 'offered') {
      const { offerId } = event
      const given = effect.entries.filter((entry) => entry.state === 'given' && entry.offerId === offerId)
      const carries = given.map(({ deliveryId }) => deliveryId)
      facts.push({ type: 'offered', offerId, carries, names: effect.offers[0]?.names ?? [] })
    }
    if (event.type === 'confirmed' || event.type === 'withdrawn')
      facts.push({ type: event.type, offerId: event.offerId })
    const doubted = effect.entries.filter(({ state }) => state === 'unconfirmed').map(({ deliveryId }) => deliveryId)
    if (doubted.length > 0) facts.push({ type: 'doubted', deliveryIds: doubted })
    if (effect.settled.length > 0) facts.push({ type: 'settled', deliveryIds: effect.settled })
    return facts
  })
}

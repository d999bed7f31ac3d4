import type { MessageInitShape } from '@bufbuild/protobuf'
import type { HubMessage, NodeMessage } from '../core/messages.ts'
import { type AttemptResult, eventTypes, reasons, type TaskEvent, type TurnRequest } from '../core/model.ts'
import { amount, defined, oneOf, optionalNumber, optionalOneOf, optionalWide, required, wide } from './codec.ts'
import type {
  AttemptResultSchema,
  ClaimSchema,
  InventorySchema,
  TaskEventSchema,
  AttemptResult as WireAttemptResult,
  Claim as WireClaim,
  Inventory as WireInventory,
  TaskEvent as WireTaskEvent,
  TurnRequest as WireTurnRequest,
  Usage as WireUsage,
} from './generated/rev1/work_pb.ts'
import { fromPairs, fromRef, toPairs, toRef } from './model-codec.ts'

/** The bodies of work messages that hold more than a field or two. */
type Claim = Extract<HubMessage, { type: 'claim' }>

export function toClaim(claim: Claim): MessageInitShape<typeof ClaimSchema> {
  const { request } = claim
  return {
    turn: claim.turn,
    request: {
      ...request,
      ...defined({ maxTurns: optionalWide(request.maxTurns), deadlineMs: optionalWide(request.deadlineMs) }),
    } as MessageInitShape<typeof ClaimSchema>['request'],
    lostAfterMs: wide(claim.lostAfterMs),
    ...defined({ title: claim.title, dir: claim.dir, resumeSessionId: claim.resumeSessionId }),
  }
}

export function fromClaim(claim: WireClaim): Omit<Claim, 'type' | 'commandId' | 'ref'> {
  return {
    turn: claim.turn,
    request: fromRequest(required(claim.request, 'request')),
    lostAfterMs: Number(claim.lostAfterMs),
    ...defined({ title: claim.title, dir: claim.dir, resumeSessionId: claim.resumeSessionId }),
  }
}

function fromRequest(request: WireTurnRequest): TurnRequest {
  return {
    brief: request.brief,
    ...defined({
      model: request.model,
      effort: request.effort,
      maxBudgetUsd: request.maxBudgetUsd === undefined ? undefined : amount(request.maxBudgetUsd, 'max_budget_usd'),
      maxTurns: optionalNumber(request.maxTurns),
      deadlineMs: optionalNumber(request.deadlineMs),
    }),
  }
}

export function toTaskEvent(event: TaskEvent): MessageInitShape<typeof TaskEventSchema> {
  return {
    seq: wide(event.seq),
    atMs: wide(event.atMs),
    turn: event.turn,
    type: event.type,
    fields: toPairs(event.fields),
    ...defined({ text: event.text }),
  }
}

export function fromTaskEvent(event: WireTaskEvent): TaskEvent {
  return {
    seq: Number(event.seq),
    atMs: Number(event.atMs),
    turn: event.turn,
    type: oneOf(eventTypes, event.type, 'type'),
    fields: fromPairs(event.fields),
    ...defined({ text: event.text }),
  }
}

export function toResult(result: AttemptResult): MessageInitShape<typeof AttemptResultSchema> {
  const { usage } = result
  return {
    outcome: result.outcome,
    text: result.text,
    denied: result.denied.map(({ tool, input }) => ({ tool, input })),
    usage: {
      inputTokens: wide(usage.inputTokens),
      outputTokens: wide(usage.outputTokens),
      costUsd: usage.costUsd,
      durationMs: wide(usage.durationMs),
    },
    messages: result.messages.map(({ messageId, state }) => ({ messageId, state })),
    details: toPairs(result.details),
    ...defined({
      reason: result.reason,
      hint: result.hint,
      sessionId: result.sessionId,
      exitProof: result.exitProof,
      stopCommandId: result.stopCommandId,
    }),
  }
}

export function fromResult(result: WireAttemptResult): AttemptResult {
  return {
    outcome: oneOf(['completed', 'failed', 'stopped', 'rejected'], result.outcome, 'outcome'),
    text: result.text,
    denied: result.denied.map(({ tool, input }) => ({ tool, input })),
    usage: fromUsage(required(result.usage, 'usage')),
    messages: result.messages.map(({ messageId, state }) => ({
      messageId,
      state: oneOf(['taken', 'not_taken', 'interrupted'], state, 'state'),
    })),
    details: fromPairs(result.details),
    ...defined({
      reason: optionalOneOf(reasons, result.reason, 'reason'),
      hint: result.hint,
      sessionId: result.sessionId,
      exitProof: optionalOneOf(['cgroup_empty', 'pidns_gone', 'scan_clean'], result.exitProof, 'exit_proof'),
      stopCommandId: result.stopCommandId,
    }),
  }
}

function fromUsage(usage: WireUsage): AttemptResult['usage'] {
  return {
    inputTokens: Number(usage.inputTokens),
    outputTokens: Number(usage.outputTokens),
    costUsd: amount(usage.costUsd, 'cost_usd'),
    durationMs: Number(usage.durationMs),
  }
}

type InventoryMessage = Extract<NodeMessage, { type: 'inventory' }>

const reports = ['claimed', 'running', 'ended'] as const

export function toInventory(message: InventoryMessage): MessageInitShape<typeof InventorySchema> {
  return {
    isLast: message.isLast,
    orphans: [...message.orphans],
    attempts: message.attempts.map(({ ref, turn, state, title, claimedAtMs }) => ({
      ref: toRef(ref),
      turn,
      state,
      claimedAtMs: wide(claimedAtMs),
      ...defined({ title }),
    })),
  }
}

export function fromInventory(wire: WireInventory): Omit<InventoryMessage, 'type'> {
  return {
    isLast: wire.isLast,
    orphans: wire.orphans,
    attempts: wire.attempts.map(({ ref, turn, state, title, claimedAtMs }) => ({
      ref: fromRef(ref),
      turn,
      state: oneOf(reports, state, 'state'),
      claimedAtMs: Number(claimedAtMs),
      ...defined({ title }),
    })),
  }
}

export type NodeMessageFate = Extract<NodeMessage, { type: 'message' }>['state']
export const messageFates: readonly NodeMessageFate[] = ['accepted', 'taken', 'not_taken', 'interrupted']

import type { MessageInitShape } from '@bufbuild/protobuf'
import type { AttemptRef, LaneCursor } from '../core/messages.ts'
import { type Capacity, type NodeCard, reasons } from '../core/model.ts'
import { defined, filled, oneOf, optionalNumber, optionalWide, required, wide } from './codec.ts'
import type {
  NodeCardSchema,
  Pair,
  AttemptRef as WireAttemptRef,
  Capacity as WireCapacity,
  LaneCursor as WireLaneCursor,
  NodeCard as WireNodeCard,
} from './generated/rev1/session_pb.ts'

/** The parts that several messages of a session share. `to…` makes the wire's form, `from…` checks it and takes it back. */
export function toPairs(fields: Readonly<Record<string, string>>): { key: string; value: string }[] {
  return Object.entries(fields).map(([key, value]) => ({ key, value }))
}

export function fromPairs(pairs: readonly Pair[]): Record<string, string> {
  return Object.fromEntries(pairs.map((pair) => [pair.key, pair.value]))
}

export function toRef(ref: AttemptRef): { agentId: string; taskId: string; attemptId: string; epoch: bigint } {
  return { agentId: ref.agentId, taskId: ref.taskId, attemptId: ref.attemptId, epoch: wide(ref.epoch) }
}

export function fromRef(ref: WireAttemptRef | undefined): AttemptRef {
  const found = required(ref, 'ref')
  return {
    agentId: filled(found.agentId, 'agent_id'),
    taskId: filled(found.taskId, 'task_id'),
    attemptId: filled(found.attemptId, 'attempt_id'),
    epoch: Number(found.epoch),
  }
}

export function toCursor(cursor: LaneCursor) {
  return {
    lane: cursor.lane,
    storeId: cursor.storeId,
    incarnation: wide(cursor.incarnation),
    sent: wide(cursor.sent),
    received: wide(cursor.received),
    hash: cursor.hash,
    ...defined({
      acked: optionalWide(cursor.acked),
      peerStoreId: cursor.peer?.storeId,
      peerIncarnation: optionalWide(cursor.peer?.incarnation),
    }),
  }
}

export function fromCursor(cursor: WireLaneCursor): LaneCursor {
  return {
    lane: cursor.lane,
    storeId: cursor.storeId,
    incarnation: Number(cursor.incarnation),
    sent: Number(cursor.sent),
    received: Number(cursor.received),
    hash: cursor.hash,
    ...defined({ acked: optionalNumber(cursor.acked), peer: peerOf(cursor) }),
  }
}

function peerOf({ peerStoreId, peerIncarnation }: WireLaneCursor): LaneCursor['peer'] {
  return peerStoreId === undefined || peerIncarnation === undefined
    ? undefined
    : { storeId: peerStoreId, incarnation: Number(peerIncarnation) }
}

export function fromCapacity(capacity: WireCapacity | undefined): Capacity {
  const { free, running, queued } = required(capacity, 'capacity')
  return { free, running, queued }
}

const credentials = ['none', 'api_key', 'oauth_token', 'auth_token', 'env'] as const

export function toCard(card: NodeCard): MessageInitShape<typeof NodeCardSchema> {
  const { lostAfterMs, ...rest } = card
  return {
    ...rest,
    ...defined({ lostAfterMs: optionalWide(lostAfterMs) }),
    labels: toPairs(card.labels),
    capabilities: [...card.capabilities],
    offers: card.offers.map(({ name, mode }) => ({ name, mode })),
    allows: { ...card.allows, allTools: String(card.allows.allTools), repos: [...card.allows.repos] },
  }
}

export function fromCard(wire: WireNodeCard | undefined): NodeCard {
  const card = required(wire, 'card')
  const allows = required(card.allows, 'allows')
  const allTools = oneOf(['true', 'false', 'listed'], allows.allTools, 'all_tools')
  return {
    description: card.description,
    labels: fromPairs(card.labels),
    capabilities: card.capabilities,
    offers: card.offers.map((offer) => ({ name: offer.name, mode: oneOf(['rw', 'ro'], offer.mode, 'mode') })),
    maxAgents: card.maxAgents,
    allows: {
      allTools: allTools === 'listed' ? allTools : allTools === 'true',
      monitors: allows.monitors,
      repos: allows.repos,
    },
    credential: oneOf(credentials, card.credential, 'credential'),
    version: card.version,
    os: card.os,
    arch: card.arch,
    ...defined({
      claudeVersion: card.claudeVersion,
      lostAfterMs: optionalNumber(card.lostAfterMs),
      unavailable: card.unavailable && {
        reason: oneOf(reasons, card.unavailable.reason, 'reason'),
        message: card.unavailable.message,
      },
    }),
  }
}

import type { MessageInitShape } from '@bufbuild/protobuf'
import { unreachable } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { ControlMessage, SessionAccept, SessionFrame, SessionOpen } from '../core/messages.ts'
import { decodeMessage, defined, encodeMessage, filled, invalid, oneOf, required, wide } from './codec.ts'
import {
  type Control,
  type ControlSchema,
  SessionFrameSchema,
  type SessionAccept as WireAccept,
  type SessionFrame as WireFrame,
  type SessionOpen as WireOpen,
} from './generated/rev1/session_pb.ts'
import { fromCapacity, fromCard, fromCursor, fromRef, toCard, toCursor, toRef } from './model-codec.ts'

/** A frame as it was read: of a kind that this version knows, or to be passed over. */
export type DecodedFrame = SessionFrame | { readonly type: 'unknown' }

/** How many bytes of a message fit into one `part` frame; the rest of the frame names it. */
export const partMaxBytes = limits.sessionFrameMaxBytes - 64

const accepted = ['claimed', 'running', 'ended'] as const
const refusals = ['stale_epoch', 'stale_session', 'protocol_violation'] as const

/** @throws {NfltrError} `frame_too_large`, `invalid_frame` when the frame is over a bound that its receiver holds it to */
export function encodeFrame(frame: SessionFrame): Uint8Array {
  return encodeMessage(SessionFrameSchema, { kind: toFrame(frame) }, limits.sessionFrameMaxBytes)
}

/** @throws {NfltrError} `frame_too_large`, `invalid_frame`; nothing else */
export function decodeFrame(bytes: Uint8Array): DecodedFrame {
  return fromFrame(decodeMessage(SessionFrameSchema, bytes, limits.sessionFrameMaxBytes))
}

type FrameKind = Exclude<MessageInitShape<typeof SessionFrameSchema>['kind'], undefined>

function toFrame(frame: SessionFrame): FrameKind {
  switch (frame.type) {
    case 'open':
      return {
        case: 'open',
        value: {
          hubId: frame.hubId,
          epoch: wide(frame.epoch),
          sessionNo: wide(frame.sessionNo),
          lanes: frame.lanes.map(toCursor),
          fences: frame.fences.map(({ attemptId, epoch }) => ({ attemptId, epoch: wide(epoch) })),
        },
      }
    case 'accept':
      return {
        case: 'accept',
        value: {
          lanes: frame.lanes.map(toCursor),
          bootId: frame.bootId,
          inventory: frame.inventory.map(({ attemptId, state, keeper }) => ({ attemptId, state, keeper })),
          card: toCard(frame.card),
          capacity: { ...frame.capacity },
          inventoryIsCut: frame.isInventoryCut === true,
        },
      }
    case 'refused': {
      const { code, message, highestEpochSeen } = frame
      const lanes = (frame.lanes ?? []).map(toCursor)
      return { case: 'refused', value: { code, message, highestEpochSeen: wide(highestEpochSeen), lanes } }
    }
    case 'control':
      return { case: 'control', value: { kind: toControl(frame.message) } }
    case 'part': {
      const { lane, no, index, isLast, bytes, digest } = frame
      return { case: 'part', value: { lane, no: wide(no), index, isLast, bytes, ...defined({ digest }) } }
    }
    default:
      return unreachable(frame)
  }
}

function fromFrame(frame: WireFrame): DecodedFrame {
  const { kind } = frame
  switch (kind.case) {
    case 'open':
      return fromOpen(kind.value)
    case 'accept':
      return fromAccept(kind.value)
    case 'refused':
      return {
        type: 'refused',
        code: oneOf(refusals, kind.value.code, 'code'),
        message: kind.value.message,
        highestEpochSeen: Number(kind.value.highestEpochSeen),
        ...(kind.value.lanes.length === 0 ? {} : { lanes: kind.value.lanes.map(fromCursor) }),
      }
    case 'control': {
      const message = fromControl(kind.value)
      return message === undefined ? { type: 'unknown' } : { type: 'control', message }
    }
    case 'part': {
      const { lane, no, index, isLast, bytes, digest } = kind.value
      if (digest !== undefined && digest.length !== 8) throw invalid('the digest of a part is not 8 bytes long')
      return { type: 'part', lane, no: Number(no), index, isLast, bytes, ...defined({ digest }) }
    }
    case undefined:
      return { type: 'unknown' }
    default:
      return unreachable(kind)
  }
}

function fromOpen(open: WireOpen): SessionOpen {
  return {
    type: 'open',
    hubId: filled(open.hubId, 'hub_id'),
    epoch: Number(open.epoch),
    sessionNo: Number(open.sessionNo),
    lanes: open.lanes.map(fromCursor),
    fences: open.fences.map(({ attemptId, epoch }) => ({ attemptId, epoch: Number(epoch) })),
  }
}

function fromAccept(accept: WireAccept): SessionAccept {
  return {
    type: 'accept',
    lanes: accept.lanes.map(fromCursor),
    bootId: accept.bootId,
    inventory: accept.inventory.map(({ attemptId, state, keeper }) => ({
      attemptId,
      state: oneOf(accepted, state, 'state'),
      keeper: oneOf(['live', 'ended', 'none'], keeper, 'keeper'),
    })),
    card: fromCard(accept.card),
    capacity: fromCapacity(accept.capacity),
    ...(accept.inventoryIsCut ? { isInventoryCut: true } : {}),
  }
}

type ControlKind = Exclude<MessageInitShape<typeof ControlSchema>['kind'], undefined>

function toControl(message: ControlMessage): ControlKind {
  switch (message.type) {
    case 'heartbeat':
      return { case: 'heartbeat', value: {} }
    case 'ack':
      return { case: 'ack', value: { lane: message.lane, received: wide(message.received) } }
    case 'credit':
      return { case: 'credit', value: { lane: message.lane, bytes: wide(message.bytes) } }
    case 'probe':
      return { case: 'probe', value: { nonce: wide(message.nonce) } }
    case 'probe_reply':
      return { case: 'probeReply', value: { nonce: wide(message.nonce) } }
    case 'capacity': {
      const card = message.card === undefined ? undefined : toCard(message.card)
      return { case: 'capacity', value: { capacity: { ...message.capacity }, ...defined({ card }) } }
    }
    case 'progress': {
      const note = defined({ note: message.note })
      return { case: 'progress', value: { ref: toRef(message.ref), atMs: wide(message.atMs), ...note } }
    }
    case 'caught_up':
      return { case: 'caughtUp', value: { heads: message.heads.map(({ lane, no }) => ({ lane, no: wide(no) })) } }
    default:
      return unreachable(message)
  }
}

function fromControl(control: Control): ControlMessage | undefined {
  const { kind } = control
  switch (kind.case) {
    case 'heartbeat':
      return { type: 'heartbeat' }
    case 'ack':
      return { type: 'ack', lane: kind.value.lane, received: Number(kind.value.received) }
    case 'credit':
      return { type: 'credit', lane: kind.value.lane, bytes: Number(kind.value.bytes) }
    case 'probe':
      return { type: 'probe', nonce: Number(kind.value.nonce) }
    case 'probeReply':
      return { type: 'probe_reply', nonce: Number(kind.value.nonce) }
    case 'capacity': {
      const card = kind.value.card === undefined ? undefined : fromCard(kind.value.card)
      return {
        type: 'capacity',
        capacity: fromCapacity(required(kind.value.capacity, 'capacity')),
        ...defined({ card }),
      }
    }
    case 'progress': {
      const { ref, atMs, note } = kind.value
      return { type: 'progress', ref: fromRef(ref), atMs: Number(atMs), ...defined({ note }) }
    }
    case 'caughtUp':
      return { type: 'caught_up', heads: kind.value.heads.map(({ lane, no }) => ({ lane, no: Number(no) })) }
    case undefined:
      return undefined
    default:
      return unreachable(kind)
  }
}

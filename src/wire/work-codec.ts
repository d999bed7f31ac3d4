import type { MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import { unreachable } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { WorkMessage } from '../core/messages.ts'
import { reasons } from '../core/model.ts'
import { decodeMessage, defined, encodeMessage, filled, invalid, oneOf, required, wide } from './codec.ts'
import { WorkMessageSchema } from './generated/rev1/work_pb.ts'
import { fromRef, toRef } from './model-codec.ts'
import {
  fromClaim,
  fromInventory,
  fromResult,
  fromTaskEvent,
  messageFates,
  toClaim,
  toInventory,
  toResult,
  toTaskEvent,
} from './work-bodies.ts'

/** A message as it was read. One of an unknown kind is answered `unsupported` with the same kind and command id, and passed. */
export type DecodedWork = WorkMessage | { readonly type: 'unknown'; readonly kind: string; readonly commandId?: string }

/** @throws {NfltrError} `frame_too_large`, `invalid_frame` when the message is over a bound that its receiver holds it to */
export function encodeWork(message: WorkMessage): Uint8Array {
  const fields: MessageInitShape<typeof WorkMessageSchema> = {
    kind: message.type,
    ...('ref' in message ? { ref: toRef(message.ref) } : {}),
    ...('commandId' in message && message.commandId !== undefined ? { commandId: message.commandId } : {}),
    ...defined({ body: toBody(message) }),
  }
  return encodeMessage(WorkMessageSchema, fields, limits.workMessageMaxBytes)
}

/** @throws {NfltrError} `frame_too_large`, `invalid_frame`; nothing else */
export function decodeWork(bytes: Uint8Array): DecodedWork {
  const message = decodeMessage(WorkMessageSchema, bytes, limits.workMessageMaxBytes)
  const read = readers.get(filled(message.kind, 'kind'))
  if (read !== undefined) return read(message)
  return { type: 'unknown', kind: message.kind, ...defined({ commandId: message.commandId }) }
}

type Wire = MessageShape<typeof WorkMessageSchema>
type WireBody = Wire['body']
type BodyInit = Exclude<MessageInitShape<typeof WorkMessageSchema>['body'], undefined>

function toBody(message: WorkMessage): BodyInit | undefined {
  switch (message.type) {
    case 'claim':
      return { case: 'claim', value: toClaim(message) }
    case 'steer':
      return { case: 'steer', value: { messageId: message.messageId, text: message.text } }
    case 'stop':
      return { case: 'stop', value: defined({ reason: message.reason }) }
    case 'collected':
      return { case: 'collected', value: { resultHash: message.resultHash } }
    case 'declined': {
      const { reason, isPermanent } = message
      return { case: 'declined', value: { reason, isPermanent, message: message.message } }
    }
    case 'started':
      return { case: 'started', value: { sessionId: message.sessionId } }
    case 'message':
      return { case: 'message', value: { messageId: message.messageId, state: message.state } }
    case 'task_events':
      return { case: 'taskEvents', value: { events: message.events.map(toTaskEvent) } }
    case 'ended':
      return { case: 'ended', value: toResult(message.result) }
    case 'keeper_gone':
      return { case: 'keeperGone', value: { message: message.message } }
    case 'receipt':
      return { case: 'receipt', value: { receiptId: message.receipt.receiptId, envelope: message.receipt.envelope } }
    case 'unsupported':
      return { case: 'unsupported', value: { kind: message.kind } }
    case 'inventory':
      return { case: 'inventory', value: toInventory(message) }
    case 'quarantined': {
      const { no, kind } = message
      return { case: 'quarantined', value: { no: wide(no), kind, message: message.message } }
    }
    case 'claimed':
    case 'recall':
    case 'void':
      return undefined
    default:
      return unreachable(message)
  }
}

type Reader = (message: Wire) => WorkMessage

/** One reader for each kind; the type keeps the table complete. */
const readerTable: { [K in WorkMessage['type']]: (message: Wire) => Extract<WorkMessage, { type: K }> } = {
  claim: (message) => ({ type: 'claim', ...command(message), ...fromClaim(bodyOf(message, 'claim')) }),
  steer: (message) => {
    const { messageId, text } = bodyOf(message, 'steer')
    return { type: 'steer', ...command(message), messageId: filled(messageId, 'message_id'), text }
  },
  stop: (message) => ({ type: 'stop', ...command(message), ...defined({ reason: bodyOf(message, 'stop').reason }) }),
  collected: (message) => ({
    type: 'collected',
    ...command(message),
    resultHash: filled(bodyOf(message, 'collected').resultHash, 'result_hash'),
  }),
  recall: (message) => ({ type: 'recall', ...command(message) }),
  void: () => ({ type: 'void' }),
  claimed: (message) => ({ type: 'claimed', ref: fromRef(message.ref) }),
  declined: (message) => {
    const { reason, isPermanent, message: text } = bodyOf(message, 'declined')
    return {
      type: 'declined',
      ref: fromRef(message.ref),
      reason: oneOf(reasons, reason, 'reason'),
      message: text,
      isPermanent,
    }
  },
  started: (message) => ({
    type: 'started',
    ref: fromRef(message.ref),
    sessionId: filled(bodyOf(message, 'started').sessionId, 'session_id'),
  }),
  message: (message) => {
    const { messageId, state } = bodyOf(message, 'message')
    const fate = oneOf(messageFates, state, 'state')
    return { type: 'message', ref: fromRef(message.ref), messageId: filled(messageId, 'message_id'), state: fate }
  },
  task_events: (message) => ({
    type: 'task_events',
    ref: fromRef(message.ref),
    events: bodyOf(message, 'taskEvents').events.map(fromTaskEvent),
  }),
  ended: (message) => ({ type: 'ended', ref: fromRef(message.ref), result: fromResult(bodyOf(message, 'ended')) }),
  keeper_gone: (message) => ({
    type: 'keeper_gone',
    ref: fromRef(message.ref),
    message: bodyOf(message, 'keeperGone').message,
  }),
  receipt: (message) => {
    const { receiptId, envelope } = bodyOf(message, 'receipt')
    const receipt = { receiptId: filled(receiptId, 'receipt_id'), envelope: filled(envelope, 'envelope') }
    return { type: 'receipt', ref: fromRef(message.ref), receipt }
  },
  inventory: (message) => ({ type: 'inventory', ...fromInventory(bodyOf(message, 'inventory')) }),
  quarantined: (message) => {
    const { no, kind, message: text } = bodyOf(message, 'quarantined')
    return { type: 'quarantined', no: Number(no), kind, message: text }
  },
  unsupported: (message) => ({
    type: 'unsupported',
    kind: bodyOf(message, 'unsupported').kind,
    ...defined({ commandId: message.commandId }),
  }),
}

const readers: ReadonlyMap<string, Reader> = new Map(Object.entries(readerTable))

function command(message: Wire): { commandId: string; ref: ReturnType<typeof fromRef> } {
  return { commandId: filled(required(message.commandId, 'command_id'), 'command_id'), ref: fromRef(message.ref) }
}

type BodyCase = Exclude<WireBody['case'], undefined>
type BodyValue<K extends BodyCase> = Extract<WireBody, { case: K }> extends { value: infer V } ? V : never

/** The body, which has to be the one that the kind names. */
function bodyOf<K extends BodyCase>(message: Wire, name: K): BodyValue<K> {
  const { body } = message
  if (body.case !== name) throw invalid(`a message of kind ${message.kind} has another body`)
  return body.value as BodyValue<K>
}

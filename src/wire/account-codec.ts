import { type ErrorCode, unreachable } from '../core/errors.ts'
import type { AccountAnswer, AttemptWord } from '../core/node-account.ts'
import { decodeMessage, defined, encodeMessage, filled, invalid, wide } from './codec.ts'
import { AccountMessageSchema } from './generated/rev1/account_pb.ts'
import { knownCode } from './handshake-codec.ts'

/** What passes on a stream on which a hub asks a node for what it has on record of that hub's attempts. */
export type AccountMessage =
  /** `after`: the last attempt of the page before. */
  | { readonly type: 'ask'; readonly after?: string }
  | ({ readonly type: 'page' } & AccountAnswer)
  | { readonly type: 'refused'; readonly code: ErrorCode; readonly message: string }

/** Bytes of one such message: a page of attempts, each field of which is as long as it may be. */
export const accountMessageMaxBytes = 1024 * 1024

/** @throws {NfltrError} `frame_too_large`, `invalid_frame` */
export function encodeAccount(message: AccountMessage): Uint8Array {
  return encodeMessage(AccountMessageSchema, { kind: kindOf(message) }, accountMessageMaxBytes)
}

function kindOf(message: AccountMessage) {
  switch (message.type) {
    case 'ask':
      return { case: 'ask', value: message.after === undefined ? {} : { after: message.after } } as const
    case 'page': {
      const attempts = message.attempts.map(({ epoch, ...attempt }) => ({ ...attempt, epoch: wide(epoch) }))
      return { case: 'page', value: { attempts, isLast: message.isLast } } as const
    }
    case 'refused':
      return { case: 'refused', value: { code: message.code, message: message.message } } as const
    default:
      return unreachable(message)
  }
}

/** @throws {NfltrError} `frame_too_large`, `invalid_frame`; nothing else */
export function decodeAccount(bytes: Uint8Array): AccountMessage {
  const { kind } = decodeMessage(AccountMessageSchema, bytes, accountMessageMaxBytes)
  switch (kind.case) {
    case 'ask':
      return defined({ type: 'ask' as const, after: kind.value.after })
    case 'page': {
      const attempts = kind.value.attempts.map(
        ({ agentId, taskId, attemptId, epoch, isOpen, textHash, receiptId }): AttemptWord =>
          defined({
            agentId: filled(agentId, 'agent_id'),
            taskId: filled(taskId, 'task_id'),
            attemptId: filled(attemptId, 'attempt_id'),
            epoch: Number(epoch),
            isOpen,
            textHash,
            receiptId,
          }),
      )
      return { type: 'page', attempts, isLast: kind.value.isLast }
    }
    case 'refused': {
      const { code, message } = kind.value
      return { type: 'refused', code: knownCode(code), message }
    }
    case undefined:
      throw invalid('its kind is not known')
    default:
      return unreachable(kind)
  }
}

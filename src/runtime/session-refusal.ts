import { NfltrError } from '../core/errors.ts'
import type { SessionAccept } from '../core/messages.ts'

/** What a node's refusal of an opening means on the hub. */
export function refusal(answer: SessionAccept & { readonly type: 'refused' }): NfltrError {
  const { code, message, highestEpochSeen } = answer
  return new NfltrError(code === 'stale_epoch' ? 'stale_epoch' : 'protocol_violation', message, {
    details: { refused: code, highestEpochSeen },
  })
}

/** Whether a link ended because its peer sent what it must not. */
export function isPeerFault(error: Error | undefined): boolean {
  if (!(error instanceof NfltrError) || error.details['refused'] !== undefined) return false
  return error.code === 'invalid_frame' || error.code === 'frame_too_large' || error.code === 'protocol_violation'
}

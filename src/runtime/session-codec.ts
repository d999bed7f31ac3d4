import type { SessionFrame, WorkMessage } from '../core/messages.ts'

/**
 * How messages become bytes; `wire/session-codec.ts` in production. Decoders check every bound and throw nothing but
 * `NfltrError` `invalid_frame` or `frame_too_large`.
 */
export interface SessionCodec {
  encodeFrame(frame: SessionFrame): Uint8Array
  decodeFrame(bytes: Uint8Array): SessionFrame
  encodeWork(message: WorkMessage): Uint8Array
  /** A kind that this revision does not know comes back by name. */
  decodeWork(bytes: Uint8Array): WorkMessage | UnknownWork
}

export interface UnknownWork {
  readonly type: 'unknown'
  readonly kind: string
}

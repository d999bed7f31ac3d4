import type { SessionFrame, WorkMessage } from '../core/messages.ts'

/**
 * How messages become bytes; `wire` in production. Nothing but `NfltrError` `invalid_frame` or `frame_too_large` is
 * thrown: decoders check every bound before they allocate, encoders refuse what a receiver would refuse.
 */
export interface SessionCodec {
  encodeFrame(frame: SessionFrame): Uint8Array
  /** A frame of a kind that this revision does not know comes back as `unknown`, to be passed over. */
  decodeFrame(bytes: Uint8Array): SessionFrame | { readonly type: 'unknown' }
  encodeWork(message: WorkMessage): Uint8Array
  /** A kind that this revision does not know comes back by name. */
  decodeWork(bytes: Uint8Array): DecodedWork
}

export type DecodedWork = WorkMessage | { readonly type: 'unknown'; readonly kind: string; readonly commandId?: string }

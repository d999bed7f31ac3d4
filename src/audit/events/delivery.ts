/**
 * What a project's client got to see: replies on their way from the hub to the model, by the key of the call. `session` is
 * one life of the client.
 */
export type DeliveryEvent =
  /** The model asks for something: whatever it got before, it has read. */
  | { readonly type: 'requested'; readonly session: string }
  | ReplyEvent
  /** The adapter wrote nothing of it, and says so. */
  | { readonly type: 'reply_withdrawn'; readonly callKey: string }
  /** Bytes of it may be in the client's hands. */
  | { readonly type: 'reply_written'; readonly callKey: string }
  /** The client took it whole. */
  | { readonly type: 'reply_read'; readonly callKey: string }
  /** The hub heard so. */
  | { readonly type: 'reply_confirmed'; readonly callKey: string }

/** A reply reached the adapter. */
export interface ReplyEvent {
  readonly type: 'reply'
  readonly hubId: string
  readonly callKey: string
  readonly session: string
  /** Whether a repeat of the call has to get the same bytes. */
  readonly isOffer: boolean
  readonly body: string
  /** Numbers of the entries in it, and of those that it names as unconfirmed. */
  readonly carries: readonly number[]
  readonly names: readonly number[]
}

/**
 * What passes between a hub and a node, told at the moment at which a process lets it out, with what its disk holds then.
 * `process` outlives its runs, `life` is one of them; `remote` is what the sender calls the other side in its store.
 */
export type LineEvent =
  | { readonly type: 'opened'; readonly process: string; readonly life: string; readonly epoch: number }
  /** A node took a hub's session on. */
  | { readonly type: 'admitted'; readonly node: string; readonly hubId: string; readonly epoch: number }
  /** `durable`: up to where the acknowledging side has applied messages, as its disk says. */
  | {
      readonly type: 'acked'
      readonly process: string
      readonly life: string
      readonly remote: string
      readonly received: number
      readonly durable: number
    }
  /** `no`: the last message that the other side had sent when the session opened, by its own word. */
  | {
      readonly type: 'caught_up'
      readonly life: string
      readonly remote: string
      readonly no: number
      readonly durable: number
    }
  /** The last part of a message, and with it the whole. */
  | SentEvent
  /** One line of an agent's log, inside a message. */
  | {
      readonly type: 'line_told'
      readonly life: string
      readonly agentId: string
      readonly seq: number
      readonly text: string
      /** The message that carries it was sent before: it is a repeat. */
      readonly isRepeat: boolean
    }
  /** A sender let a message go for good; `received` is what the receiver's disk holds of the lane. */
  | {
      readonly type: 'forgotten'
      readonly process: string
      readonly remote: string
      readonly no: number
      readonly received: number
    }

export interface SentEvent {
  readonly type: 'sent'
  readonly process: string
  readonly life: string
  readonly side: 'hub' | 'node'
  readonly remote: string
  readonly hubId: string
  readonly no: number
  readonly kind: string
  /** Of the bytes: one number says one thing. */
  readonly digest: number
  /** The same number may say something else now: the message was voided, or was too large for the peer. */
  readonly isReplaced: boolean
  readonly agentId?: string
  /** The sender's disk has the message, or the word that it may forget it. */
  readonly isKept: boolean
  /** What the message tells of and the sender's disk does not have. */
  readonly missing?: string
}

import type { MessageReport, Outcome, Usage } from '../../core/model.ts'

/** What is on record when the history is read: told once each, after everything else. */
export type KeptEvent =
  | {
      readonly type: 'agent_kept'
      readonly hubId: string
      readonly agentId: string
      /** Counts the hub's agents from 1. */
      readonly no: number
      readonly tasks: readonly KeptTask[]
      /** Whether something may still come of it, and whether its hub finds it when it starts; absent where nobody told. */
      readonly start?: { readonly isOpen: boolean; readonly isFound: boolean }
    }
  /** The hub answered a spawn with this agent. `mark` is the caller's own name for what it asked. */
  | { readonly type: 'spawn_answered'; readonly hubId: string; readonly mark: string; readonly agentId: string }
  /** The hub answered a message to an agent with this id. `mark` is the caller's own name for it, in `text`. */
  | {
      readonly type: 'message_answered'
      readonly hubId: string
      readonly mark: string
      readonly messageId: string
      readonly text: string
    }
  /** A text that stands for one turn; every text is asked for once. */
  | { readonly type: 'brief_kept'; readonly hubId: string; readonly text: string }
  | KeptEntry
  | {
      readonly type: 'line_kept'
      readonly hubId: string
      readonly agentId: string
      readonly seq: number
      /** The program's own words, which it never says twice; absent for other lines. */
      readonly text?: string
    }
  /** A program said this in a turn that completed. */
  | { readonly type: 'line_said'; readonly hubId: string; readonly agentId: string; readonly text: string }
  /** What waits to be delivered is told as well. */
  | { readonly type: 'inbox_told'; readonly hubId: string }
  | OpenEntryKept
  | { readonly type: 'offer_kept'; readonly hubId: string; readonly offerId: string }
  | KeptReceipt

/** An entry that is not settled; `offerId`: the reply that carries it. */
export interface OpenEntryKept {
  readonly type: 'entry_open'
  readonly hubId: string
  readonly deliveryId: number
  readonly state: 'undelivered' | 'given' | 'unconfirmed' | 'named'
  readonly offerId?: string
}

export interface KeptTask {
  readonly taskId: string
  readonly turn: number
  /** Entries of its end and of its late end. */
  readonly deliveryId?: number
  readonly lateDeliveryId?: number
  /** When it was settled, by the hub's wall clock. */
  readonly settledAtMs?: number
  readonly endedAtMs?: number
  readonly receiptId?: string
  /** What each of its ends used, by the entry of the end. */
  readonly usages?: readonly { readonly deliveryId: number; readonly usage: Usage }[]
  readonly attempts: readonly KeptAttempt[]
}

export interface KeptAttempt {
  readonly attemptId: string
  readonly epoch: number
  readonly peerId: string
  readonly phase: 'offered' | 'claimed' | 'running' | 'ended' | 'declined' | 'lost'
}

export interface KeptEntry {
  readonly type: 'entry_kept'
  readonly hubId: string
  readonly deliveryId: number
  readonly kind: 'result' | 'spawn' | 'event'
  readonly atMs: number
  readonly agentId?: string
  readonly result?: {
    readonly taskId: string
    readonly turn: number
    readonly attempt: number
    readonly outcome: Outcome
    readonly isLate: boolean
    /** SHA-256 of the text as it is kept, hex; absent where it was not read. */
    readonly textHash?: string
    readonly machine?: string
    readonly usage?: Usage
    /** What it says of each message that the turn was sent. */
    readonly messages?: readonly MessageReport[]
  }
}

/** A receipt as its node signed it, once it was checked. */
export interface KeptReceipt {
  readonly type: 'receipt_kept'
  readonly node: string
  readonly hubId: string
  readonly receiptId: string
  readonly previousHash: string
  readonly attemptId: string
  readonly taskId: string
  readonly outcome: Outcome
  readonly resultHash: string
}

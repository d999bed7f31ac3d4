import type { HistoryEvent } from '../../core/history.ts'
import type { HistoryHead } from '../../core/hub-account.ts'

/** A hub's own history, read from its beginning, and what is known of those who carried the work out. */
export type DecisionEvent =
  | DecidedEvent
  /** The history was read to its end. What it tells up to `recordedUpTo` has to be on record as well. */
  | {
      readonly type: 'history_read'
      readonly hubId: string
      readonly head: HistoryHead
      readonly recordedUpTo: number
    }
  /** A turn that may be running, of whose node nothing was heard for so long. */
  | {
      readonly type: 'turn_open'
      readonly hubId: string
      readonly agentId: string
      readonly machine: string
      readonly silentMs: number
      readonly lostAfterMs: number
    }
  /** A receipt that is kept and does not check. */
  | {
      readonly type: 'receipt_refused'
      readonly hubId: string
      readonly agentId?: string
      readonly receiptId: string
      readonly message: string
    }
  /** What a node has on record of an attempt. */
  | {
      readonly type: 'attempt_on_node'
      readonly node: string
      readonly hubId: string
      readonly agentId: string
      readonly taskId: string
      readonly attemptId: string
      readonly epoch: number
      readonly isOpen: boolean
      /** SHA-256 of the result's text, hex, where it is kept. */
      readonly textHash?: string
      readonly receiptId?: string
    }

export interface DecidedEvent {
  readonly type: 'decided'
  readonly hubId: string
  readonly event: HistoryEvent
  /** As kept, and as it comes out over the hash before it. */
  readonly hash: string
  readonly computedHash: string
}

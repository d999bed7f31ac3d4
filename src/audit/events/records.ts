import type { Outcome } from '../../core/model.ts'

/** What is on record when the history is read: told once each, after everything else. */
export type KeptEvent =
  | {
      readonly type: 'agent_kept'
      readonly hubId: string
      readonly agentId: string
      readonly tasks: readonly KeptTask[]
    }
  /** The hub answered a spawn with this agent. `mark` is the caller's own name for what it asked. */
  | { readonly type: 'spawn_answered'; readonly hubId: string; readonly mark: string; readonly agentId: string }
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
  | KeptReceipt

export interface KeptTask {
  readonly taskId: string
  readonly turn: number
}

export interface KeptEntry {
  readonly type: 'entry_kept'
  readonly hubId: string
  readonly deliveryId: number
  readonly kind: 'result' | 'spawn' | 'event'
  readonly agentId?: string
  readonly result?: {
    readonly taskId: string
    readonly turn: number
    readonly attempt: number
    readonly outcome: Outcome
    readonly isLate: boolean
  }
}

/** A receipt as its node signed it. */
export interface KeptReceipt {
  readonly type: 'receipt_kept'
  readonly node: string
  readonly hubId: string
  readonly receiptId: string
  readonly previousHash: string
  readonly attemptId: string
}

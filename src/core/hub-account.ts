import type { HistoryRecord } from './history.ts'
import type { EntryKind, OpenEntry } from './inbox-state.ts'
import type { MessageReport, Outcome, Usage } from './model.ts'
import type { Agent } from './task-record.ts'

/**
 * What a hub has on record, line by line, as an audit reads it: first what is, then the history of how it came about. The
 * history comes last, so that it covers whatever was decided while the rest was read.
 */
export type AccountLine =
  /** `isFound`: a hub that starts takes it up, by the index of open agents; absent where there is no such index. */
  | { readonly part: 'agent'; readonly agent: Agent; readonly isFound?: boolean }
  | AccountEntry
  | { readonly part: 'log'; readonly agentId: string; readonly seq: number }
  | { readonly part: 'receipt'; readonly taskId: string; readonly receiptId: string; readonly envelope: string }
  /** A turn that may be running, and for how long nothing of its node has counted as a sign of it. */
  | {
      readonly part: 'turn'
      readonly agentId: string
      readonly machine: string
      readonly silentMs: number
      /** After so long its hub has to count it as lost. */
      readonly lostAfterMs: number
    }
  /** The hub tells what waits to be delivered; hubs of earlier versions do not. */
  | { readonly part: 'inbox' }
  /** An entry that is not settled; `offerId`: the reply that carries it. */
  | {
      readonly part: 'open'
      readonly deliveryId: number
      readonly state: OpenEntry['state']
      readonly offerId?: string
    }
  /** A reply with something in it that is not settled. */
  | { readonly part: 'offer'; readonly offerId: string }
  | { readonly part: 'history'; readonly record: HistoryRecord }

export interface AccountEntry {
  readonly part: 'entry'
  readonly deliveryId: number
  readonly kind: EntryKind
  readonly atMs: number
  readonly agentId?: string
  readonly result?: {
    readonly taskId: string
    readonly turn: number
    readonly attempt: number
    readonly outcome: Outcome
    readonly isLate: boolean
    /** SHA-256 of the text as it is kept, hex. */
    readonly textHash: string
    /** Absent from hubs of earlier versions; `machine` also where none took the turn. */
    readonly machine?: string
    readonly usage?: Usage
    readonly messages?: readonly MessageReport[]
  }
}

/** Where a history ends: the number and the hash of its newest event. */
export interface HistoryHead {
  readonly seq: number
  readonly hash: string
}

export interface AccountPage {
  readonly hubId: string
  /** As of this page. Everything that the history of the first page's head tells of is in the lines that follow. */
  readonly head: HistoryHead
  readonly lines: readonly AccountLine[]
  /** Asks for the next page; absent on the last. */
  readonly next?: string
}

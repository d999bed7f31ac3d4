import type { AttemptResult, Capacity, NodeCard, Reason, TaskEvent, TurnRequest } from './model.ts'
import type { StoredReceipt } from './receipt.ts'

/**
 * What a hub and a node say to each other in a session. Work messages are numbered, kept until acknowledged and
 * replayed; control messages are not. `wire` turns each into bytes and back, and bounds every field on the way in.
 */

/** Which attempt of which task a message is about. A node never acts below the highest epoch it has seen (rule 5). */
export interface AttemptRef {
  readonly agentId: string
  readonly taskId: string
  readonly attemptId: string
  readonly epoch: number
}

/** Hub to node, numbered. `commandId` is the command's idempotency key: a repeat gets the first answer. */
export type HubMessage =
  | {
      readonly type: 'claim'
      readonly commandId: string
      readonly ref: AttemptRef
      readonly turn: number
      readonly request: TurnRequest
      readonly title?: string
      readonly dir?: string
      readonly lostAfterMs: number
      /** Set for a continuation: the session to go on with. Absent: a new session and a new workspace. */
      readonly resumeSessionId?: string
    }
  | {
      readonly type: 'steer'
      readonly commandId: string
      readonly ref: AttemptRef
      readonly messageId: string
      readonly text: string
    }
  | { readonly type: 'stop'; readonly commandId: string; readonly ref: AttemptRef; readonly reason?: string }
  /** The result is durable in the hub's inbox: the node settles, makes the receipt, and may let go after its retention. */
  | { readonly type: 'collected'; readonly commandId: string; readonly ref: AttemptRef; readonly resultHash: string }
  /** One of the two stores was put back: the node says again all that it has of the attempt (rule 6). */
  | { readonly type: 'recall'; readonly commandId: string; readonly ref: AttemptRef }
  | Quarantined
  /** A frame whose command was superseded before it was sent: keeps its number, says nothing (rule 5). */
  | { readonly type: 'void' }

/** Node to hub, numbered. */
export type NodeMessage =
  | { readonly type: 'claimed'; readonly ref: AttemptRef }
  /** No process of the attempt ran or will run. Temporary reasons may be asked again later. */
  | {
      readonly type: 'declined'
      readonly ref: AttemptRef
      readonly reason: Reason
      readonly message: string
      readonly isPermanent: boolean
    }
  | { readonly type: 'started'; readonly ref: AttemptRef; readonly sessionId: string }
  /** A steer's fate while the turn runs: written into it, or known to have been taken in, or not. */
  | {
      readonly type: 'message'
      readonly ref: AttemptRef
      readonly messageId: string
      readonly state: 'accepted' | 'taken' | 'not_taken' | 'interrupted'
    }
  | { readonly type: 'task_events'; readonly ref: AttemptRef; readonly events: readonly TaskEvent[] }
  | { readonly type: 'ended'; readonly ref: AttemptRef; readonly result: AttemptResult }
  /** The node is here and proves that no keeper of the attempt exists: nothing more will come of it. */
  | { readonly type: 'keeper_gone'; readonly ref: AttemptRef; readonly message: string }
  | { readonly type: 'receipt'; readonly ref: AttemptRef; readonly receipt: StoredReceipt }
  /**
   * All that the node knows of this hub's attempts, oldest first, after one of the two stores was lost or put back
   * (rule 6). `orphans` have a folder and no record: their hub may claim them again, and they run no second time.
   */
  | {
      readonly type: 'inventory'
      readonly attempts: readonly AttemptSummary[]
      readonly orphans: readonly string[]
      readonly isLast: boolean
    }
  | Quarantined
  /** The node does not know this kind of message; it was passed over. */
  | { readonly type: 'unsupported'; readonly kind: string; readonly commandId?: string }

/** A message of the receiver was set aside, since it could not be applied (rule 26). Either side says so. */
export interface Quarantined {
  readonly type: 'quarantined'
  readonly no: number
  readonly kind: string
  readonly message: string
}

/** One attempt in an inventory. */
export interface AttemptSummary {
  readonly ref: AttemptRef
  readonly turn: number
  readonly state: AttemptReport
  readonly title?: string
  /** Wall clock. */
  readonly claimedAtMs: number
}

export type WorkMessage = HubMessage | NodeMessage

/** Lane 0: unnumbered, may be lost with the link, never decides what must survive it. */
export type ControlMessage =
  | { readonly type: 'heartbeat' }
  | { readonly type: 'ack'; readonly lane: number; readonly received: number }
  | { readonly type: 'credit'; readonly lane: number; readonly bytes: number }
  | { readonly type: 'probe'; readonly nonce: number }
  | { readonly type: 'probe_reply'; readonly nonce: number }
  | { readonly type: 'capacity'; readonly capacity: Capacity; readonly card?: NodeCard }
  | { readonly type: 'progress'; readonly ref: AttemptRef; readonly atMs: number; readonly note?: string }
  /** Everything up to the heads named in the other side's opening has been applied (rule 27). */
  | { readonly type: 'caught_up'; readonly heads: readonly LaneHead[] }

export interface LaneHead {
  readonly lane: number
  readonly no: number
}

/** What each side says of a lane when a session opens (rule 6). */
export interface LaneCursor {
  readonly lane: number
  readonly storeId: string
  readonly incarnation: number
  /** Number of the last frame ever sent in this lane. */
  readonly sent: number
  /** Number of the last frame applied from the peer. */
  readonly received: number
  /** Rolling hash over all frames applied from the peer, as of `received`: 16 hex digits. */
  readonly hash: string
  /** Number of the last frame that the peer acknowledged. Absent from a version that did not tell. */
  readonly acked?: number
  /** The peer's store that these numbers are about. Absent before the first session, and from such a version. */
  readonly peer?: { readonly storeId: string; readonly incarnation: number }
}

/** The first frame of a session, hub to node. */
export interface SessionOpen {
  readonly type: 'open'
  readonly hubId: string
  readonly epoch: number
  readonly sessionNo: number
  readonly lanes: readonly LaneCursor[]
  /** Attempt id → current epoch, for every attempt that is not settled: commands below it are void (rule 5). */
  readonly fences: readonly { readonly attemptId: string; readonly epoch: number }[]
}

/** The first frame of a session, node to hub. */
export type SessionAccept =
  | {
      readonly type: 'accept'
      readonly lanes: readonly LaneCursor[]
      readonly bootId: string
      readonly inventory: readonly {
        readonly attemptId: string
        readonly state: AttemptReport
        readonly keeper: 'live' | 'ended' | 'none'
      }[]
      readonly card: NodeCard
      readonly capacity: Capacity
      /** More attempts exist than the frame holds: what is missing from the inventory proves nothing. */
      readonly isInventoryCut?: boolean
    }
  | {
      readonly type: 'refused'
      readonly code: 'stale_epoch' | 'stale_session' | 'protocol_violation'
      readonly message: string
      readonly highestEpochSeen: number
      /** Where the two stores do not fit together: what this side has. */
      readonly lanes?: readonly LaneCursor[]
    }

export type AttemptReport = 'claimed' | 'running' | 'ended'

/** One frame on the stream. Bodies larger than a frame travel in parts; only the last part of a message advances the cursor. */
export type SessionFrame =
  | SessionOpen
  | SessionAccept
  | { readonly type: 'control'; readonly message: ControlMessage }
  /**
   * A numbered message or a part of one: `bytes` is a slice of the encoded `WorkMessage`. `digest` (8 bytes) is there
   * only on the last part of a void or replaced message: the lane's hash after the message as it was first written.
   */
  | {
      readonly type: 'part'
      readonly lane: number
      readonly no: number
      readonly index: number
      readonly isLast: boolean
      readonly bytes: Uint8Array
      readonly digest?: Uint8Array
    }

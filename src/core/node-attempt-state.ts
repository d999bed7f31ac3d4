import type { AttemptRef, HubMessage, NodeMessage } from './messages.ts'
import type { AttemptResult, MessageState, Reason } from './model.ts'
import type { StoredReceipt } from './receipt.ts'

export type ClaimMessage = Extract<HubMessage, { type: 'claim' }>
export type SteerMessage = Extract<HubMessage, { type: 'steer' }>
export type StopMessage = Extract<HubMessage, { type: 'stop' }>
export type CollectedMessage = Extract<HubMessage, { type: 'collected' }>
export type RecallMessage = Extract<HubMessage, { type: 'recall' }>

/**
 * Where an attempt stands on its node.
 *
 * `claimed`: taken in, its folders are being made, nothing was started; a restart begins this part again.
 * `launching`: a keeper may have been started. From here on only the journal says what happened.
 * `running`: the journal says that the command was started.
 * `ended`: the result is recorded; the first such record is the only one (rule 23).
 * `collected`: the hub has the result on its disk; the receipt is made, and the result is kept for a while longer.
 * `forgotten`: a tombstone. `declined`: nothing of it ran, and the hub was told so.
 */
export type NodeAttemptPhase = 'claimed' | 'launching' | 'running' | 'ended' | 'collected' | 'forgotten' | 'declined'

/** The node's view of one attempt: all that has to survive the node, but the journal and the result's text. */
export interface NodeAttempt {
  readonly phase: NodeAttemptPhase
  readonly hubId: string
  /** As the claim had it; every message about the attempt carries it. */
  readonly ref: AttemptRef
  /** The highest epoch seen for this attempt. No command below it is acted on (rule 5). */
  readonly fence: number
  readonly claimCommandId: string
  readonly turn: number
  /** Let go once the receipt is made. */
  readonly claim: ClaimMessage | undefined
  /** The program's session as it is launched: the one to go on with, or one that the node made for a first turn. */
  readonly sessionId: string
  /** The session as the program named it, once it did. */
  readonly announcedSessionId: string | undefined
  /** Set with `launching`: what a restarted node needs to read the journal as this one did. */
  readonly place: TurnPlace | undefined
  readonly steers: readonly QueuedSteer[]
  readonly stop: QueuedStop | undefined
  /** In the order in which the driver had them. */
  readonly inputs: readonly DrivenInput[]
  /** Everything of the journal before this byte has been read, and what followed from it is on disk. */
  readonly journalOffset: number
  readonly claimedAtMs: number
  readonly startedAtMs: number | undefined
  readonly decline: Decline | undefined
  readonly end: AttemptEnd | undefined
  readonly receipt: StoredReceipt | undefined
  /** Wall clock after which the record may go; undefined while it must stay. */
  readonly keptUntilMs: number | undefined
}

export interface TurnPlace {
  readonly workspace: string
  readonly privateDir: string
  readonly tmpDir: string
  readonly machineName: string
  readonly firstMessageId: string
  readonly allowAllTools: boolean
}

export interface QueuedSteer {
  readonly commandId: string
  readonly messageId: string
  readonly text: string
  readonly isDriven: boolean
  readonly state: 'accepted' | MessageState
}

export interface QueuedStop {
  readonly commandId: string
  readonly isDriven: boolean
}

/**
 * An input of the driver, and where in the journal it was given: everything before byte `at` came first, everything behind
 * it after. A restarted node gives the same inputs at the same places, so that its driver comes to the same state.
 */
export type DrivenInput = { readonly at: number } & (
  | { readonly type: 'steer'; readonly messageId: string }
  | { readonly type: 'stop'; readonly commandId: string }
  | { readonly type: 'woke'; readonly token: string }
)

export type DriverInput =
  | { readonly type: 'steer'; readonly messageId: string; readonly text: string }
  | { readonly type: 'stop'; readonly commandId: string }
  | { readonly type: 'woke'; readonly token: string }

/** Why an attempt is not taken in. */
export interface Decline {
  readonly reason: Reason
  readonly message: string
  readonly isPermanent: boolean
}

/** What stays of an end beside the result itself, which is a record of its own. */
export interface AttemptEnd {
  readonly outcome: AttemptResult['outcome']
  readonly reason: Reason | undefined
  readonly endedAtMs: number
  /** Set where the hub was told `keeper_gone` instead of the result, which is kept as evidence. */
  readonly keeperGone: string | undefined
}

/** Times are wall-clock milliseconds: they label and end retention, they decide nothing else. */
export type NodeAttemptEvent =
  | {
      readonly type: 'claim'
      readonly hubId: string
      readonly message: ClaimMessage
      /** The session's fence for this attempt, 0 where it named none. */
      readonly fence: number
      /** Used where the claim does not name a session to go on with. */
      readonly newSessionId: string
      /** The node's policy and slots, asked just now. Looked at only where the claim is new. */
      readonly decline: Decline | undefined
      readonly atMs: number
    }
  | { readonly type: 'fence'; readonly epoch: number }
  /** `liveAt`: how far the driver has read, where it can be given inputs now; if not, it gets them once it can. */
  | { readonly type: 'steer'; readonly message: SteerMessage; readonly liveAt: number | undefined }
  | { readonly type: 'stop'; readonly message: StopMessage; readonly liveAt: number | undefined; readonly atMs: number }
  | { readonly type: 'collected'; readonly message: CollectedMessage }
  | { readonly type: 'recall'; readonly message: RecallMessage }
  /** The folders are made and the launch is prepared. */
  | { readonly type: 'prepared'; readonly place: TurnPlace }
  | { readonly type: 'not_prepared'; readonly decline: Decline; readonly atMs: number }
  | { readonly type: 'launched'; readonly liveAt: number; readonly atMs: number }
  /** A restarted node has read the journal again as far as its predecessor had. */
  | { readonly type: 'resumed'; readonly liveAt: number }
  /** A bound that the driver had set ran out, and it was told so. */
  | { readonly type: 'woke'; readonly token: string; readonly liveAt: number }
  | { readonly type: 'session_ready'; readonly sessionId: string }
  | { readonly type: 'message_state'; readonly messageId: string; readonly state: MessageState }
  | { readonly type: 'progress'; readonly offset: number }
  /** `keeperGone`: why nothing but this is known, where the keeper died without an exit record. */
  | { readonly type: 'ended'; readonly result: AttemptResult; readonly keeperGone?: string; readonly atMs: number }
  | { readonly type: 'receipt'; readonly receipt: StoredReceipt; readonly atMs: number }
  | { readonly type: 'expired'; readonly atMs: number }
  /** The attempt's folder is gone from the disk. */
  | { readonly type: 'removed'; readonly atMs: number }

/** What the shell has to do next. `persist` comes first; what lets something out happens once that is on disk. */
export type NodeAttemptEffect =
  /** The returned state goes to disk in the same batch as everything that follows from the event. */
  | { readonly type: 'persist' }
  /** Into the session's outbox, in the same batch. */
  | { readonly type: 'send'; readonly message: NodeMessage }
  | { readonly type: 'keep_result'; readonly result: AttemptResult }
  /** Answers a repeated claim of an ended attempt with the result, which is on disk. */
  | { readonly type: 'send_kept_result' }
  | { readonly type: 'drop_result' }
  | { readonly type: 'take_slot' }
  | { readonly type: 'release_slot' }
  | { readonly type: 'prepare' }
  | { readonly type: 'launch' }
  /** An input for the driver; what follows from it goes into the same batch. */
  | { readonly type: 'drive'; readonly input: DriverInput }
  | { readonly type: 'make_receipt' }
  /** Show that nothing of an attempt that the node does not know runs here, then say so. */
  | { readonly type: 'prove_absent'; readonly ref: AttemptRef }
  /** Remove the attempt's folder, then come back with `removed`. */
  | { readonly type: 'remove' }
  | { readonly type: 'delete' }

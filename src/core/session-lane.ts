import type { LaneCursor } from './messages.ts'

/**
 * One numbered lane of a session between two stores: the promise "each message is applied once, in order, however often
 * links and processes die" (rules 5, 6, 25–27).
 *
 * Sending: messages are numbered 1, 2, 3 … without gaps, go out once they are on disk, and are kept until the peer's
 * cumulative acknowledgement. Receiving: what is complete is applied together with the cursor in one batch, and
 * acknowledged once that is on disk. A new link starts where the peer's cursor stands; nothing else is ever resent.
 *
 * Bodies and hashing are the shell's: it computes rolling hashes and hands them in. Every event is accepted in every
 * state; what a correct peer would never send ends in the effect `fault`, and the state stays as it was.
 */
export interface LaneState {
  readonly lane: number
  /** The peer's store as it was when the lane was first opened. */
  readonly peer: StoreMark | undefined
  /** Number of the last message numbered, and of the last of them on disk; only those go out. */
  readonly sent: number
  readonly sentHash: string
  readonly sentDurable: number
  /** The peer has applied everything up to here. */
  readonly acked: number
  readonly ackedHash: string
  /** Applied in memory, and on disk; only the latter is ever told. */
  readonly received: number
  readonly receivedHash: string
  readonly receivedDurable: number
  readonly receivedDurableHash: string
  readonly link: LaneLink | undefined
}

export interface StoreMark {
  readonly storeId: string
  readonly incarnation: number
}

/** What is known of the lane on the link that is up now; gone with it. */
export interface LaneLink {
  /** The next part to send: message, index of the part, and where in the message it begins. */
  readonly next: { readonly no: number; readonly index: number; readonly offset: number }
  /** What the peer still takes. */
  readonly creditBytes: number
  /** The next part expected; `bytes` of that message are here already. */
  readonly expected: { readonly no: number; readonly index: number; readonly bytes: number }
  /** Complete here up to this number; the shell holds those not yet applied. */
  readonly delivered: number
  /** What the peer may still send before it gets more credit. */
  readonly windowBytes: number
  /** Cost of messages complete but not applied; of those applied but not on disk; and what may be granted again. */
  readonly heldBytes: number
  readonly applyingBytes: number
  readonly owedBytes: number
  /** Heads of both sides as told when the link opened. */
  readonly peerHead: number
  readonly ownHead: number
  /** This side has told that it applied `peerHead`; the peer has told the same of `ownHead`. */
  readonly hasTold: boolean
  readonly wasTold: boolean
}

/** The part of the state that survives a restart. */
export interface LaneRecord {
  /** This side's store as the numbers are about it. Absent in records of a version that did not keep it. */
  readonly own?: StoreMark
  readonly peer: StoreMark | undefined
  readonly sent: number
  readonly sentHash: string
  readonly acked: number
  readonly ackedHash: string
  readonly received: number
  readonly receivedHash: string
}

export type LaneEvent =
  /** A message was handed over; `hash` is the rolling hash after it. Inside the transaction that keeps it. */
  | { readonly type: 'send'; readonly hash: string }
  | { readonly type: 'sent_durable'; readonly no: number }
  /** A session opened. `own` is what this side told in its opening; `hashAtReceived` the own hash after `peer.received`. */
  | {
      readonly type: 'link_up'
      readonly peer: LaneCursor
      readonly own: { readonly sent: number; readonly received: number }
      readonly hashAtReceived: string | undefined
    }
  | { readonly type: 'link_down' }
  /** A part arrived with so many bytes of body. */
  | {
      readonly type: 'part_in'
      readonly no: number
      readonly index: number
      readonly isLast: boolean
      readonly bytes: number
    }
  /** The part named by `link.next` was handed to the link. */
  | { readonly type: 'part_out'; readonly bytes: number; readonly isLast: boolean }
  /** All messages up to `no` were applied, inside a transaction. */
  | { readonly type: 'applied'; readonly no: number; readonly hash: string }
  | { readonly type: 'applied_durable'; readonly no: number; readonly hash: string }
  | { readonly type: 'ack'; readonly received: number; readonly hashAtReceived: string | undefined }
  | { readonly type: 'credit'; readonly bytes: number }
  | { readonly type: 'peer_caught_up'; readonly no: number }

export type LaneEffect =
  /** Write the record in the transaction of this event. */
  | { readonly type: 'persist'; readonly record: LaneRecord }
  /** Keep the message under this number, in the same transaction. */
  | { readonly type: 'keep'; readonly no: number }
  /** Acknowledged: these need not be kept any longer. */
  | { readonly type: 'forget'; readonly from: number; readonly to: number }
  /** Add the part's bytes to the message that is being put together. */
  | { readonly type: 'assemble'; readonly index: number }
  /** The message is complete: apply it with the next batch. */
  | { readonly type: 'deliver'; readonly no: number }
  | { readonly type: 'duplicate'; readonly no: number }
  | { readonly type: 'send_ack'; readonly received: number }
  | { readonly type: 'send_credit'; readonly bytes: number }
  | { readonly type: 'send_caught_up'; readonly no: number }
  /** There may be something to send now. */
  | { readonly type: 'pump' }
  /** Both sides have applied what the other had sent before this link opened. */
  | { readonly type: 'caught_up' }
  | { readonly type: 'fault'; readonly fault: LaneFault }

/**
 * What a correct peer never does. The first eight say that one of the two stores was lost or put back (rule 6): the
 * numbers of the two sides do not fit together. The rest are breaches of the protocol.
 */
export type LaneFault =
  | 'newer_incarnation'
  | 'older_incarnation'
  | 'acked_above_received'
  | 'received_above_sent'
  | 'received_below_acked'
  | 'sent_below_received'
  | 'other_hash'
  | 'other_store'
  | 'gap'
  | 'message_too_large'
  | 'empty_part'
  | 'credit_exceeded'
  | 'ack_of_unsent'

export interface LaneLimits {
  /** What may be on its way or unapplied in one direction. */
  readonly creditWindowBytes: number
  /** Longest message, all parts together. */
  readonly messageMaxBytes: number
  /** Longest part; at most three quarters of the window, so that credit always comes back in time. */
  readonly partMaxBytes: number
}

export interface LaneStep {
  readonly state: LaneState
  readonly effects: readonly LaneEffect[]
}

/** The rolling hash of a lane in which nothing was sent yet. */
export const emptyLaneHash = '0000000000000000'

/** What a part costs of the credit beyond its body, so that many small messages are bounded as well. */
export const partOverheadBytes = 64

export function newLane(lane: number): LaneState {
  return restoreLane(lane, {
    peer: undefined,
    sent: 0,
    sentHash: emptyLaneHash,
    acked: 0,
    ackedHash: emptyLaneHash,
    received: 0,
    receivedHash: emptyLaneHash,
  })
}

export function restoreLane(lane: number, { own: _, ...record }: LaneRecord): LaneState {
  return {
    lane,
    ...record,
    sentDurable: record.sent,
    receivedDurable: record.received,
    receivedDurableHash: record.receivedHash,
    link: undefined,
  }
}

/** What this side tells of the lane when a session opens: only what no crash can take back. */
export function cursorOf(state: LaneState, own: StoreMark): LaneCursor {
  return {
    lane: state.lane,
    storeId: own.storeId,
    incarnation: own.incarnation,
    sent: state.sentDurable,
    received: state.receivedDurable,
    hash: state.receivedDurableHash,
    acked: state.acked,
    ...(state.peer === undefined ? {} : { peer: state.peer }),
  }
}

/** True once both sides have applied what the other had sent before the current link opened. */
export function isCaughtUp(state: LaneState): boolean {
  return state.link?.hasTold === true && state.link.wasTold
}

/** The message whose next part may go out now, or undefined: nothing on disk is left to send, or no link. */
export function nextMessage(state: LaneState): number | undefined {
  return state.link !== undefined && state.link.next.no <= state.sentDurable ? state.link.next.no : undefined
}

/**
 * How many bytes of a message of `sizeBytes` the next part carries, or undefined while credit is short. Parts are never
 * made small to use up the last of the credit.
 */
export function nextPartBytes(state: LaneState, sizeBytes: number, limits: LaneLimits): number | undefined {
  if (state.link === undefined) return undefined
  const bytes = Math.min(limits.partMaxBytes, sizeBytes - state.link.next.offset)
  return bytes + partOverheadBytes <= state.link.creditBytes ? bytes : undefined
}

import type { LaneCursor } from './messages.ts'
import { emptyLaneHash, type LaneFault, type StoreMark } from './session-lane.ts'

/** What this side has of a lane, as far as an opening is judged by it. Only what no crash can take back. */
export interface LaneAccount {
  /** The peer's store as this side knows it; undefined before the first session. */
  readonly peer: StoreMark | undefined
  readonly sent: number
  readonly acked: number
  readonly received: number
}

/**
 * Whether two stores fit together (rule 6). Each side compares what it has with what the other says, and the conditions of
 * the two sides mirror each other: what one sees as the other's loss, the other sees as its own. So whoever lost something
 * finds out by itself, takes a new incarnation, and begins the lane anew; the other begins anew when it sees that.
 *
 * `fits`: go on from these numbers. `restart`: the peer's store began anew, so this lane does too. `own_rollback`: this
 * store was put back; it takes the named incarnation. `fault`: the peer's was, and the peer has not noticed.
 */
export type Opening =
  | { readonly type: 'fits'; readonly peer: LaneCursor }
  | { readonly type: 'restart'; readonly peer: LaneCursor }
  | { readonly type: 'own_rollback'; readonly fault: LaneFault; readonly incarnation: number }
  | { readonly type: 'fault'; readonly fault: LaneFault }

/** @param hashAtReceived - this side's rolling hash after the last message that the peer says to have applied */
export function judgeOpening(
  account: LaneAccount,
  cursors: { readonly own: StoreMark; readonly peer: LaneCursor; readonly hashAtReceived: string | undefined },
): Opening {
  const { own, peer, hashAtReceived } = cursors
  const about = peer.peer
  const incarnation = Math.max(own.incarnation, about?.storeId === own.storeId ? about.incarnation : 0) + 1
  const rolledBack = (fault: LaneFault): Opening => ({ type: 'own_rollback', fault, incarnation })
  if (about?.storeId === own.storeId && about.incarnation > own.incarnation) return rolledBack('newer_incarnation')
  const known = account.peer
  if (known?.storeId === peer.storeId && peer.incarnation < known.incarnation) {
    return { type: 'fault', fault: 'older_incarnation' }
  }
  const isOtherPeer = known !== undefined && !isSame(known, peer)
  // The peer's numbers are about a store of this side that is gone: they say nothing of this one.
  const isAboutOther = about !== undefined && !isSame(about, own)
  const told = isAboutOther ? { ...peer, sent: 0, received: 0, acked: 0, hash: emptyLaneHash } : peer
  const isAnew = isOtherPeer || isAboutOther
  const mine = isAnew ? { sent: 0, acked: 0, received: 0 } : account
  const hash = told.received === 0 ? emptyLaneHash : isAnew ? undefined : hashAtReceived
  if (told.received > mine.sent) return rolledBack('received_above_sent')
  if ((told.acked ?? 0) > mine.received) return rolledBack('acked_above_received')
  if (told.received < mine.acked) return { type: 'fault', fault: 'received_below_acked' }
  if (told.sent < mine.received) return { type: 'fault', fault: 'sent_below_received' }
  if (told.hash !== hash) return rolledBack('other_hash')
  return { type: isAnew ? 'restart' : 'fits', peer: told }
}

function isSame(a: StoreMark, b: StoreMark): boolean {
  return a.storeId === b.storeId && a.incarnation === b.incarnation
}

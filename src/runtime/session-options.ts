import type { NfltrError } from '../core/errors.ts'
import { limits as bounds } from '../core/limits.ts'
import type { ControlMessage, HubMessage, NodeMessage, WorkMessage } from '../core/messages.ts'
import type { LaneFault, LaneLimits } from '../core/session-lane.ts'
import type { Clock } from '../ports/clock.ts'
import type { Store } from '../ports/store.ts'
import { decodeFrame, encodeFrame, partMaxBytes } from '../wire/session-codec.ts'
import { decodeWork, encodeWork } from '../wire/work-codec.ts'
import type { Engine, Transaction } from './engine.ts'
import type { HeartbeatLimits } from './heartbeat.ts'
import type { Poison } from './quarantine.ts'
import type { SessionCodec } from './session-codec.ts'

export const wireCodec: SessionCodec = { encodeFrame, decodeFrame, encodeWork, decodeWork }

/** The lane of commands and results; the only numbered one so far. */
export const workLane = 1

export interface SessionLimits extends LaneLimits, HeartbeatLimits {
  /** How long the peer may take to answer the opening. */
  readonly openTimeoutMs: number
}

export const defaultLimits: SessionLimits = {
  creditWindowBytes: bounds.creditWindowBytes,
  messageMaxBytes: bounds.workMessageMaxBytes,
  partMaxBytes,
  heartbeatBusyMs: bounds.heartbeatBusyMs,
  heartbeatIdleMs: bounds.heartbeatIdleMs,
  heartbeatMissesMax: bounds.heartbeatMissesMax,
  openTimeoutMs: bounds.helloTimeoutMs,
}

export interface SessionOptions<Out extends WorkMessage, In extends WorkMessage> {
  readonly engine: Engine
  readonly store: Store
  readonly clock: Clock
  /** Names the other side in the store's keys: a node's machine PeerId on a hub, a hub id on a node. No `/`. */
  readonly remote: string
  readonly side: 'hub' | 'node'
  /** Applies one message, in the transaction that also advances the cursor. Total: a throw is a bug and ends the process. */
  readonly apply: (tx: Transaction, message: In) => void
  /** Takes `capacity` and `progress`; the rest of lane 0 is the session's own. */
  readonly control: (message: ControlMessage) => void
  /** What takes the place of a message that is over a bound of the wire, under its number. Absent or undefined: a void. */
  readonly replace?: (message: Out, error: NfltrError) => Out | undefined
  /**
   * The lane began anew, since one of the two stores was lost or put back (rule 6): nothing that was sent or received
   * before counts any more, and both sides reconcile. In the transaction that restarts it, before any link runs over it.
   */
  readonly restarted?: (tx: Transaction, restart: LaneRestart, send: (message: Out) => void) => void
  /**
   * A message of the peer was set aside, since it cannot be applied (rule 26): in the transaction that moves the cursor past
   * it. The peer is told by the session itself.
   */
  readonly quarantined?: (tx: Transaction, poison: Poison, send: (message: Out) => void) => void
  /** An answer or an unnumbered message was over a bound of the wire and did not go out: the peer does not hear of it. */
  readonly unsendable?: (kind: string, error: NfltrError) => void
  /** This side's store was found put back by something else than itself: the lane begins anew under another incarnation. */
  readonly isPutBack?: boolean
  readonly limits?: Partial<SessionLimits>
  readonly codec?: SessionCodec
}

/** Whose store was put back, as far as this side can tell, and its own incarnation from now on. */
export interface LaneRestart {
  readonly side: 'own' | 'peer'
  readonly incarnation: number
  /** What showed it; absent where the store itself was found put back when it was opened. */
  readonly fault?: LaneFault
}

export interface SessionCounts {
  /** Links and openings that ended because the peer sent what it must not. */
  readonly peerFaults: number
  /** Own messages that went out as something else. */
  readonly replaced: number
  readonly duplicates: number
  /** Messages of kinds that this version does not know. */
  readonly unsupported: number
}

const fromNode: Record<NodeMessage['type'], true> = {
  claimed: true,
  declined: true,
  started: true,
  message: true,
  task_events: true,
  ended: true,
  keeper_gone: true,
  receipt: true,
  inventory: true,
  quarantined: true,
  unsupported: true,
}

const fromHub: Record<HubMessage['type'], true> = {
  claim: true,
  steer: true,
  stop: true,
  collected: true,
  recall: true,
  quarantined: true,
  void: true,
}

/** What each side may get from the other: anything else must not reach code that knows only these. */
export const kinds = { hub: new Set(Object.keys(fromNode)), node: new Set(Object.keys(fromHub)) } as const

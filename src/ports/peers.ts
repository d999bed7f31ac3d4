import type { PeerKind, Role } from '../core/membership.ts'
import type { AccountAnswer } from '../core/node-account.ts'

/**
 * Authenticated links to other processes of the mesh. Implementations: `mesh` (libp2p) and the simulator's network.
 *
 * Everything that comes out of this port has passed hello: the peer's certificate was checked against the connection.
 * The contract is weak on purpose: a link may vanish at any byte, two links to one peer may exist for a moment, and
 * the last frames handed over may be lost with it. Within one link frames arrive whole, unchanged and in order.
 * Exactly-once is the core's work.
 */
export interface Peers {
  readonly self: PeerFacts

  /** Peers that are connected now and have passed hello. */
  connected(): readonly PeerFacts[]

  /** Calls back for each peer that passes hello (also for those connected already) and when its last connection ends. */
  watch(listener: PeerListener): Unsubscribe

  /**
   * Every member the roster knows, connected or not, this machine included. The same array may come again for as long as nothing
   * has changed, and never after that.
   */
  members(): readonly MemberFacts[]

  /** Calls back after the roster changed. */
  watchMembers(listener: () => void): Unsubscribe

  /**
   * Hub only: opens a session stream to a connected node.
   *
   * @throws {NfltrError} `link_down` when no connection is there or it broke
   */
  openSession(peerId: string, options: { readonly signal: AbortSignal }): Promise<Link>

  /** Node only: takes the session streams that hubs open. */
  serveSessions(accept: (link: Link) => void): void

  /**
   * Hub only: asks a connected node for what it has on record of this hub's attempts, a page at a time.
   *
   * @param options - `after`: the last attempt of the page before
   * @throws {NfltrError} `link_down`; `timed_out` after `limits.accountAnswerMs`; `unsupported` from a node of a version that
   *   does not tell; `invalid_frame`, `frame_too_large` and `protocol_violation` for what cannot be such a page; or why the
   *   node does not tell
   */
  askAccount(peerId: string, options: { readonly after?: string }): Promise<AccountAnswer>

  /** Node only: answers hubs that ask so. The answer may fail, and the hub hears why. */
  serveAccounts(answer: AnswerAccount): void

  /**
   * Asks that a peer be dialled as soon as possible (it is redialled for as long as it is wanted).
   * A hub wants every node; a node wants hubs and owners when nobody reached its listener.
   */
  want(machinePeerId: string): void

  /** Round trip to a connected peer in milliseconds. @throws {NfltrError} `link_down`, `timed_out` */
  probe(peerId: string, options: { readonly signal: AbortSignal }): Promise<number>
}

/** @throws {NfltrError} why the asker is told nothing */
export type AnswerAccount = (asker: PeerFacts, after: string | undefined) => Promise<AccountAnswer>

export interface PeerListener {
  readonly up: (peer: PeerFacts) => void
  readonly down: (peer: PeerFacts) => void
}

export type Unsubscribe = () => void

/** A process that passed hello. */
export interface PeerFacts {
  /** The process's own PeerId, which Noise proved. */
  readonly peerId: string
  /** The machine whose membership vouches for it; equal to `peerId` for a node. */
  readonly machinePeerId: string
  /** The machine's name in its membership. */
  readonly name: string
  readonly kind: PeerKind
  readonly roles: readonly Role[]
  readonly hubId?: string
  readonly softwareVersion: string
  readonly path: LinkPath
  /** Node to hub: the highest epoch of this hub id that the node has seen (rule 7). */
  readonly highestEpochSeen?: number
  readonly rttMs?: number
}

export type LinkPath = 'lan' | 'direct' | 'relay'

export interface MemberFacts {
  readonly machinePeerId: string
  readonly name: string
  readonly roles: readonly Role[]
  readonly addresses: readonly string[]
  readonly issuedAtMs: number
  readonly expiresAtMs: number
  /** Since when it has its name; absent: since `issuedAtMs`. */
  readonly namedAtMs?: number
  /** Wall clock of the last contact, where there was one. */
  readonly lastSeenAtMs?: number
  /** Set where the membership was revoked: when, by its issuer's wall clock. */
  readonly revokedAtMs?: number
  /** Whether it gave its membership up by itself; `revokedAtMs` then says when, by its own wall clock. */
  readonly hasLeft?: boolean
}

/** One session stream. */
export interface Link {
  readonly peer: PeerFacts

  /**
   * Hands one frame to the wire and waits while the peer is slow.
   *
   * @throws {NfltrError} `frame_too_large` when longer than `limits.sessionFrameMaxBytes`; `link_down` when the link is gone
   */
  send(frame: Uint8Array): Promise<void>

  /**
   * Frames as they arrive; the producer is paused while the consumer is busy. Ends when the link does; never throws.
   * A frame over the limit ends the link.
   */
  frames(): AsyncIterable<Uint8Array>

  /** Monotonic milliseconds of the last received chunk of any kind: any byte is life. */
  lastHeardAtMs(): number

  /** Resolves once the link is down, with the reason where one is known. */
  readonly closed: Promise<Error | undefined>

  /** Ends the link. With an error it is aborted and what was in flight is lost. */
  close(error?: Error): void
}

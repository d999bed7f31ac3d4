import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { isGoneFor } from '../core/membership.ts'
import type { ControlMessage, HubMessage, NodeMessage, SessionAccept, SessionOpen } from '../core/messages.ts'
import type { Clock } from '../ports/clock.ts'
import type { PeerFacts, Peers, Unsubscribe } from '../ports/peers.ts'
import type { Random } from '../ports/random.ts'
import type { Store } from '../ports/store.ts'
import type { Engine, Transaction } from '../runtime/engine.ts'
import type { Poison } from '../runtime/quarantine.ts'
import { Session } from '../runtime/session.ts'
import type { LaneRestart } from '../runtime/session-options.ts'
import type { Epoch } from './epoch.ts'

export type NodeSession = Session<HubMessage, NodeMessage>
export type Accepted = Extract<SessionAccept, { type: 'accept' }>

export interface SessionsParts {
  readonly engine: Engine
  readonly store: Store
  readonly clock: Clock
  readonly random: Random
  readonly peers: Peers
  readonly epoch: Epoch
  readonly hubId: string
}

/** What the hub does about its sessions. None of it may throw. */
export interface SessionEvents {
  /** In the transaction that advances the cursor. */
  readonly message: (tx: Transaction, peerId: string, message: NodeMessage) => void
  readonly control: (peerId: string, message: ControlMessage) => void
  /** In the transaction that moves the cursor past a message that was set aside. */
  readonly quarantined: (tx: Transaction, peerId: string, poison: Poison) => void
  /** In the transaction that begins the session's lane anew, since a store was put back. */
  readonly restarted: (tx: Transaction, peerId: string, restart: LaneRestart) => void
  readonly fences: (peerId: string) => SessionOpen['fences']
  readonly attached: (peerId: string, accepted: Accepted) => void
  readonly caughtUp: (peerId: string, accepted: Accepted) => void
  readonly detached: (peerId: string) => void
  /** The hub has been replaced: nothing may be sent any more. */
  readonly stale: (error: NfltrError) => void
}

/** One session to every node: opened whenever the node is connected, kept in the store while it is not. */
export class Sessions {
  readonly #parts: SessionsParts
  readonly #events: SessionEvents
  readonly #sessions = new Map<string, NodeSession>()
  readonly #loading = new Map<string, Promise<NodeSession>>()
  readonly #serving = new Set<string>()
  readonly #closing = new AbortController()
  readonly #watches: Unsubscribe[] = []
  /** Ends the pause before the next try, by node. */
  readonly #wakes = new Map<string, () => void>()
  /** Nodes that this process has opened a session to: what they have seen of this hub may be its own epoch. */
  readonly #met = new Set<string>()
  /** Nodes whose sessions were told that they are busy. */
  readonly #busy = new Set<string>()
  #sessionNo = 0

  constructor(parts: SessionsParts, events: SessionEvents) {
    this.#parts = parts
    this.#events = events
  }

  /** Loads what is kept for these nodes, so that commands to them can be decided. */
  async load(peerIds: Iterable<string>): Promise<void> {
    for (const peerId of peerIds) await this.#session(peerId)
  }

  /** Wants every node of the roster, now and later, and opens a session to each that is connected. */
  start(): void {
    const { peers } = this.#parts
    const want = (): void => {
      for (const member of peers.members()) {
        if (!isGoneFor('node', member)) peers.want(member.machinePeerId)
      }
    }
    want()
    this.#watches.push(peers.watchMembers(want))
    const up = (peer: PeerFacts): void => {
      if (peer.kind !== 'node') return
      this.#wakes.get(peer.peerId)?.()
      void this.#serve(peer.peerId)
    }
    this.#watches.push(peers.watch({ up, down: () => undefined }))
  }

  get(peerId: string): NodeSession | undefined {
    return this.#sessions.get(peerId)
  }

  /** Into the node's outbox. The session was loaded: nothing is decided about a node that this hub never met. */
  send(tx: Transaction, peerId: string, message: HubMessage): void {
    const session = this.#sessions.get(peerId)
    if (session === undefined) throw new Error(`no session with ${peerId} was loaded`)
    this.#parts.epoch.commit()
    session.send(tx, message)
  }

  /**
   * Commands of an attempt that the node has not acknowledged keep their numbers and say nothing any more (rule 5). A stop
   * stays: whatever may still be running there is to end.
   */
  voidCommands(tx: Transaction, peerId: string, attemptId: string): void {
    this.#sessions
      .get(peerId)
      ?.voidWhere(tx, (message) => 'ref' in message && message.type !== 'stop' && message.ref.attemptId === attemptId)
  }

  /** Empties everything that a node has not acknowledged: nothing more is said to it. */
  voidAll(tx: Transaction, peerId: string): void {
    this.#sessions.get(peerId)?.voidWhere(tx, () => true)
  }

  /** Asks nodes for a sign of life. Resolves when all have answered, failed, or 2 s are over. */
  async probe(peerIds: readonly string[]): Promise<void> {
    if (peerIds.length === 0) return
    const late = Promise.withResolvers<void>()
    const timer = this.#parts.clock.after(probeMs, late.resolve)
    const probes = peerIds.map((peerId) =>
      this.#sessions
        .get(peerId)
        ?.probe()
        .catch(() => undefined),
    )
    await Promise.race([Promise.all(probes), late.promise])
    timer.cancel()
  }

  /** Asks nodes for a sign of life, and gives up a link soon that does not answer. */
  prove(peerIds: readonly string[]): void {
    for (const peerId of peerIds) {
      const session = this.#sessions.get(peerId)
      session?.setBusy(true)
      this.#busy.add(peerId)
      session?.probe().catch(() => undefined)
    }
  }

  /** Says with which nodes the loss of a link is to be noticed soon: with all others it is not. */
  setBusy(busy: ReadonlySet<string>): void {
    // Most sessions are with nodes that are neither now nor were before. Several that changed are told in their order.
    const changed = new Set([
      ...[...this.#busy].filter((peerId) => !busy.has(peerId)),
      ...[...busy].filter((peerId) => !this.#busy.has(peerId)),
    ])
    for (const peerId of changed.size > 1 ? this.#sessions.keys() : changed) {
      const session = this.#sessions.get(peerId)
      if (session === undefined || !changed.has(peerId)) continue
      session.setBusy(busy.has(peerId))
      if (busy.has(peerId)) this.#busy.add(peerId)
      else this.#busy.delete(peerId)
    }
  }

  close(): void {
    this.#closing.abort()
    for (const wake of this.#wakes.values()) wake()
    for (const unwatch of this.#watches.splice(0)) unwatch()
    for (const session of this.#sessions.values()) session.close()
  }

  #session(peerId: string): Promise<NodeSession> {
    const known = this.#loading.get(peerId)
    if (known !== undefined) return known
    const { engine, store, clock } = this.#parts
    const loading = Session.load<HubMessage, NodeMessage>({
      engine,
      store,
      clock,
      remote: peerId,
      side: 'hub',
      apply: (tx, message) => this.#events.message(tx, peerId, message),
      control: (message) => this.#events.control(peerId, message),
      restarted: (tx, restart) => this.#events.restarted(tx, peerId, restart),
      quarantined: (tx, poison) => this.#events.quarantined(tx, peerId, poison),
    }).then((session) => {
      this.#sessions.set(peerId, session)
      return session
    })
    this.#loading.set(peerId, loading)
    return loading
  }

  /** Keeps a session open for as long as the node is connected. */
  async #serve(peerId: string): Promise<void> {
    if (this.#serving.has(peerId) || this.#closing.signal.aborted) return
    this.#serving.add(peerId)
    try {
      const session = await this.#session(peerId)
      for (let failures = 0; this.#peer(peerId) !== undefined && !this.#closing.signal.aborted; ) {
        const isOpened = await this.#serveOnce(peerId, session)
        failures = isOpened ? 0 : failures + 1
        if (!this.#closing.signal.aborted) await this.#pause(peerId, failures)
      }
    } catch (error) {
      // The store is failing, or this hub is stale: either way the process is about to end.
      if (error instanceof NfltrError && error.code === 'stale_epoch') this.#events.stale(error)
    } finally {
      this.#serving.delete(peerId)
    }
  }

  /** @returns whether the session was open. @throws {NfltrError} `stale_epoch` when this hub has been replaced */
  async #serveOnce(peerId: string, session: NodeSession): Promise<boolean> {
    const { peers, epoch, hubId } = this.#parts
    await epoch.meet(this.#peer(peerId)?.highestEpochSeen ?? 0, { isOwn: this.#met.has(peerId) })
    try {
      const link = await peers.openSession(peerId, { signal: this.#closing.signal })
      if (session.outbox().entries > 0) epoch.commit()
      this.#sessionNo += 1
      this.#met.add(peerId)
      const fences = this.#events.fences(peerId)
      const accepted = await session.open(link, { hubId, epoch: epoch.current, sessionNo: this.#sessionNo, fences })
      this.#events.attached(peerId, accepted)
      session.caughtUp().then(
        () => this.#events.caughtUp(peerId, accepted),
        () => undefined,
      )
    } catch (error) {
      if (error instanceof NfltrError && error.code === 'stale_epoch') await epoch.meet(seenBy(error), { isOwn: false })
      return false
    }
    await session.detached()
    this.#events.detached(peerId)
    return true
  }

  #peer(peerId: string): PeerFacts | undefined {
    return this.#parts.peers.connected().find((peer) => peer.kind === 'node' && peer.peerId === peerId)
  }

  /** Full jitter under a doubling ceiling, the first within 100 ms; over at once when the node connects anew. */
  #pause(peerId: string, failures: number): Promise<void> {
    const ceilingMs = Math.min(limits.redialCapMs, limits.redialFirstMs * 2 ** failures)
    const over = Promise.withResolvers<void>()
    const timer = this.#parts.clock.after(Math.floor(this.#parts.random.next() * ceilingMs), over.resolve)
    this.#wakes.set(peerId, over.resolve)
    return over.promise.finally(() => {
      timer.cancel()
      this.#wakes.delete(peerId)
    })
  }
}

/** How long a probe may take before the node is left aside, in milliseconds. */
const probeMs = 2_000

function seenBy(error: NfltrError): number {
  const seen = error.details['highestEpochSeen']
  return typeof seen === 'number' ? seen : 0
}

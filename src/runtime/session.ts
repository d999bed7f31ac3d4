import { NfltrError, unreachable } from '../core/errors.ts'
import { doubtedAfterMs } from '../core/lease.ts'
import type {
  ControlMessage,
  LaneCursor,
  SessionAccept,
  SessionFrame,
  SessionOpen,
  WorkMessage,
} from '../core/messages.ts'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import type { LaneFault } from '../core/session-lane.ts'
import type { Link } from '../ports/peers.ts'
import { Attachment, linkErrors } from './attachment.ts'
import type { Transaction } from './engine.ts'
import type { DecodedWork, SessionCodec } from './session-codec.ts'
import { acceptFrame, cursorFor, faultError, openFrame, readFirst, readOpen } from './session-opening.ts'
import {
  defaultLimits,
  kinds,
  type LaneRestart,
  type SessionCounts,
  type SessionLimits,
  type SessionOptions,
  wireCodec,
  workLane,
} from './session-options.ts'
import { isPeerFault, refusal } from './session-refusal.ts'
import { WorkLane } from './work-lane.ts'

/**
 * Everything that one hub and one node say to each other, over whichever link is up. What `send` takes arrives there once
 * and in order, whatever happens to links and processes in between.
 */
export class Session<Out extends WorkMessage, In extends WorkMessage> {
  readonly #options: SessionOptions<Out, In>
  readonly #limits: SessionLimits
  readonly #codec: SessionCodec
  readonly #lane: WorkLane
  #attachment: Attachment | undefined
  /** Rises with each link that is taken up: who finds another number than its own was replaced. */
  #attempt = 0
  #isAttached = false
  #isBusy = false
  #isClosed = false
  #lastReason: Error | undefined
  #lastHeardAtMs: number | undefined
  #downSinceMs: number | undefined
  #caughtUp = Promise.withResolvers<void>()
  #highestEpoch: number
  #sessionNo = 0
  #peerFaults = 0
  #unsupported = 0

  private constructor(options: SessionOptions<Out, In>, lane: WorkLane, highestEpoch: number) {
    this.#options = options
    this.#limits = { ...defaultLimits, ...options.limits }
    this.#codec = options.codec ?? wireCodec
    this.#lane = lane
    this.#highestEpoch = highestEpoch
    this.#caughtUp.promise.catch(() => undefined)
  }

  /** @throws {NfltrError} `store_damaged`, `store_newer` */
  static async load<Out extends WorkMessage, In extends WorkMessage>(
    options: SessionOptions<Out, In>,
  ): Promise<Session<Out, In>> {
    const { engine, store, clock, remote, side, replace, isPutBack = false } = options
    if (!/^[!-.0-~]+$/.test(remote)) throw new Error(`not a name for a session's remote: ${JSON.stringify(remote)}`)
    const known = await store.get(epochKey(remote))
    const lane = await WorkLane.load({
      engine,
      store,
      clock,
      remote,
      lane: workLane,
      codec: options.codec ?? wireCodec,
      limits: { ...defaultLimits, ...options.limits },
      keepsBodies: side === 'hub',
      apply: (tx, message) => session.#apply(tx, message),
      quarantined: (tx, poison) => options.quarantined?.(tx, poison, (message) => session.send(tx, message)),
      // What is in the outbox came in through `send`.
      replace: (message, error) => replace?.(message as Out, error),
    })
    const epoch = known === undefined ? 0 : decodeRecord<{ epoch: number }>(known).epoch
    const session = new Session<Out, In>(options, lane, epoch)
    if (lane.isOfEarlierStore || isPutBack) await session.#restart({ side: 'own', incarnation: lane.incarnation + 1 })
    return session
  }

  /** Node: the hub's opening, the first frame of a link. See `runtime/session-opening.ts` for the errors. */
  static readOpen(
    link: Link,
    options: { readonly signal: AbortSignal; readonly codec?: SessionCodec },
  ): Promise<SessionOpen> {
    return readOpen(link, options.codec ?? wireCodec, options.signal)
  }

  /** Numbers the message and keeps it until acknowledged; it goes out once on disk, now or over any later link. */
  send(tx: Transaction, message: Out): void {
    this.#lane.send(tx, message)
  }

  /** Hub: replaces each message that is not acknowledged and that `test` names by a void under its number. */
  voidWhere(tx: Transaction, test: (message: Out) => boolean): void {
    if (this.#options.side !== 'hub') throw new Error('only a hub voids what it sent')
    this.#lane.voidWhere(tx, (message) => test(message as Out))
  }

  /** Sends an unnumbered message; dropped silently when no link is there. Only the newest of its kind waits. */
  control(message: ControlMessage): void {
    if (this.#isAttached) this.#attachment?.control(message)
  }

  /** What this side tells of its lanes: only what is on disk. */
  cursors(): LaneCursor[] {
    return [this.#lane.cursor]
  }

  /**
   * Hub: opens the session over a link, in the place of the one before. The link is closed on every error.
   *
   * @returns the node's answer, once the lanes run
   * @throws {NfltrError} `stale_epoch`, `protocol_violation` when the node refused (`details.highestEpochSeen`) or broke
   *   the protocol or the two stores do not fit together (`details.fault`); `timed_out`; `link_down`; `invalid_frame`
   */
  async open(
    link: Link,
    open: Omit<SessionOpen, 'type' | 'lanes'>,
  ): Promise<SessionAccept & { readonly type: 'accept' }> {
    const attempt = this.#begin()
    const own = this.#lane.cursor
    const { clock } = this.#options
    const timer = clock.after(this.#limits.openTimeoutMs, () =>
      link.close(new NfltrError('timed_out', 'The node did not answer the opening of the session in time.')),
    )
    try {
      await link.send(openFrame(this.#codec, { type: 'open', ...open, lanes: [own] }))
      const answer = await readFirst(link, this.#codec)
      timer.cancel()
      if (answer.type === 'refused') throw await this.#refused(answer)
      if (answer.type !== 'accept') {
        throw new NfltrError('protocol_violation', `The node answered the opening with a frame of kind ${answer.type}.`)
      }
      const fit = await this.#fit(cursorFor(answer.lanes, workLane))
      // The node begins at once where it began anew; a hub has to open again under its new incarnation.
      if (fit.restart?.side === 'own') throw faultError(fit.restart.fault, workLane)
      const told = fit.restart === undefined ? own : { ...this.#lane.cursor, sent: 0, received: 0 }
      const attachment = this.#attach(link, attempt)
      await this.#linkUp(attachment, attempt, { own: told, peer: fit.peer })
      this.#start(attachment)
      return answer
    } catch (error) {
      timer.cancel()
      throw this.#rejected(link, error)
    }
  }

  /**
   * Node: takes up the session that a hub opened, in the place of the one before. A lower epoch, or a session number that
   * is not above the one served, is refused. The epoch is on disk before the answer goes out.
   *
   * @throws {NfltrError} `stale_epoch`, `stale_session` (as `protocol_violation`), `protocol_violation` with
   *   `details.fault` when the two stores do not fit together; `link_down`
   */
  async accept(
    link: Link,
    open: SessionOpen,
    accept: Omit<SessionAccept & { readonly type: 'accept' }, 'type' | 'lanes'>,
  ): Promise<void> {
    try {
      this.#assertCurrent(open)
      this.#highestEpoch = open.epoch
      this.#sessionNo = open.sessionNo
      const attempt = this.#begin()
      const { peer } = await this.#fit(cursorFor(open.lanes, workLane))
      // From here on the numbers of this side are about the hub's store as it is now.
      const { storeId, incarnation } = peer
      const own = { ...this.#lane.cursor, peer: { storeId, incarnation } }
      const attachment = this.#attach(link, attempt)
      await this.#linkUp(attachment, attempt, { own, peer }, open.epoch)
      await link.send(acceptFrame(this.#codec, { type: 'accept', ...accept, lanes: [own] }, this.#options.unsendable))
      this.#assertNewest(attempt)
      this.#start(attachment)
    } catch (error) {
      const wasTold = await this.#refuse(link, error)
      const reason = this.#rejected(link, error, wasTold)
      // Whoever aborts the link now would take the refusal back; the hub closes its end once it has read it.
      if (wasTold) await this.#closed(link)
      throw reason
    }
  }

  get isAttached(): boolean {
    return this.#isAttached
  }

  get isCaughtUp(): boolean {
    return this.#isAttached && this.#lane.isCaughtUp
  }

  /** Node: the highest epoch of this hub that was ever taken up (rule 7); 0 for none. */
  get highestEpoch(): number {
    return this.#highestEpoch
  }

  get counts(): SessionCounts {
    return { ...this.#lane.counts, peerFaults: this.#peerFaults, unsupported: this.#unsupported }
  }

  /** Resolves once both sides applied what the other had sent before this link. @throws {NfltrError} `link_down` */
  caughtUp(): Promise<void> {
    if (!this.#isAttached) return Promise.reject(new NfltrError('link_down', 'No link to the peer was up.'))
    return this.#caughtUp.promise
  }

  /** Resolves once the current link is down (at once when there is none), with the reason where one is known. */
  detached(): Promise<Error | undefined> {
    return this.#attachment === undefined ? Promise.resolve(this.#lastReason) : this.#attachment.ended
  }

  /** Work runs or waits on the link: its loss is to be noticed soon. */
  setBusy(isBusy: boolean): void {
    this.#isBusy = isBusy
    this.#attachment?.setBusy(isBusy)
  }

  /** Asks the peer for an answer. @returns the round trip in milliseconds @throws {NfltrError} `link_down` */
  probe(): Promise<number> {
    if (this.#attachment !== undefined && this.#isAttached) return this.#attachment.probe()
    return Promise.reject(new NfltrError('link_down', 'No link to the peer was up.'))
  }

  /** What the peer has not acknowledged; `oldestAtMs` is wall time. */
  outbox(): { readonly entries: number; readonly bytes: number; readonly oldestAtMs?: number } {
    const { size, bytes, oldestAtMs } = this.#lane.outbox
    return { entries: size, bytes, ...(oldestAtMs === undefined ? {} : { oldestAtMs }) }
  }

  /** Monotonic time of the last byte from the peer, over this or an earlier link. */
  lastHeardAtMs(): number | undefined {
    return this.#attachment?.link.lastHeardAtMs() ?? this.#lastHeardAtMs
  }

  /** Monotonic time since when the peer owes an answer and is silent; without a link: since it went down. */
  owedSinceMs(): number | undefined {
    return this.#attachment === undefined ? this.#downSinceMs : this.#attachment.owedSinceMs()
  }

  /** Ends the link and takes up no other; what was sent stays in the store. */
  close(): void {
    this.#isClosed = true
    this.#begin()
  }

  /**
   * Compares the stores of both sides, and begins the lane anew where one of them was put back (rule 6).
   *
   * @returns the peer's cursor as it counts now
   * @throws {NfltrError} `protocol_violation` with `details.fault` where the peer has not noticed what it lost
   */
  async #fit(peer: LaneCursor): Promise<Fit> {
    const opening = this.#lane.judge(peer)
    switch (opening.type) {
      case 'fits':
        return { peer: opening.peer }
      case 'restart':
        await this.#restart({ side: 'peer' })
        return { peer: opening.peer, restart: { side: 'peer' } }
      case 'fault':
        throw faultError(opening.fault, workLane)
      case 'own_rollback': {
        const { fault, incarnation } = opening
        await this.#restart({ side: 'own', fault, incarnation })
        const again = this.#lane.judge(peer)
        if (again.type === 'fault' || again.type === 'own_rollback') throw faultError(again.fault, workLane)
        return { peer: again.peer, restart: { side: 'own', fault } }
      }
      default:
        return unreachable(opening)
    }
  }

  #restart(why: { readonly side: 'own' | 'peer'; readonly fault?: LaneFault; readonly incarnation?: number }) {
    const { side, fault } = why
    return this.#options.engine.transact((tx) => {
      this.#lane.restart(tx, why.incarnation)
      const { incarnation } = this.#lane
      const restart: LaneRestart = { side, incarnation, ...(fault === undefined ? {} : { fault }) }
      this.#options.restarted?.(tx, restart, (message) => this.send(tx, message))
    })
  }

  /** A node that refuses for its store says what it has: this side sees from it whether its own was put back. */
  async #refused(answer: SessionAccept & { readonly type: 'refused' }): Promise<NfltrError> {
    const error = refusal(answer)
    const told = answer.lanes?.find(({ lane }) => lane === workLane)
    if (told === undefined) return error
    const opening = this.#lane.judge(told)
    if (opening.type !== 'own_rollback') return error
    const { fault, incarnation } = opening
    await this.#restart({ side: 'own', fault, incarnation })
    return error
  }

  /** Ends whatever link is there; the number tells later whether another one took over in turn. */
  #begin(): number {
    this.#attempt += 1
    this.#drop(new NfltrError('link_down', 'A newer link took the place of this one.'))
    if (this.#isClosed) this.#lastReason = new NfltrError('link_down', 'The session was closed.')
    return this.#attempt
  }

  #assertNewest(attempt: number): void {
    if (this.#isClosed) throw new NfltrError('link_down', 'The session was closed.')
    if (attempt !== this.#attempt) throw new NfltrError('link_down', 'A newer link took the place of this one.')
  }

  #attach(link: Link, attempt: number): Attachment {
    this.#assertNewest(attempt)
    const { clock, engine, side } = this.#options
    const attachment: Attachment = new Attachment({
      link,
      clock,
      codec: this.#codec,
      limits: this.#limits,
      isBusy: this.#isBusy,
      doubtedAfterMs: side === 'node' ? doubtedAfterMs : undefined,
      nextPart: () => this.#lane.nextPart(attachment),
      take: (frame) => this.#take(attachment, frame),
      onFault: (fault) => attachment.close(faultError(fault, workLane)),
      onCaughtUp: () => this.#caughtUp.resolve(),
      onUnsendable: (kind, error) => this.#options.unsendable?.(kind, error),
      onBug: (error) => engine.fail(error),
      onDown: (reason) => this.#onDown(attachment, reason),
    })
    return attachment
  }

  async #linkUp(
    attachment: Attachment,
    attempt: number,
    cursors: { readonly own: LaneCursor; readonly peer: LaneCursor },
    epoch?: number,
  ): Promise<void> {
    await this.#options.engine.transact((tx) => {
      this.#assertNewest(attempt)
      this.#caughtUp = Promise.withResolvers<void>()
      this.#caughtUp.promise.catch(() => undefined)
      const fault = this.#lane.linkUp(tx, cursors, attachment)
      if (fault !== undefined) throw faultError(fault, workLane)
      if (epoch !== undefined) tx.put(epochKey(this.#options.remote), encodeRecord({ epoch }))
      this.#attachment = attachment
    })
    this.#assertNewest(attempt)
  }

  #start(attachment: Attachment): void {
    if (this.#attachment !== attachment) throw new NfltrError('link_down', 'The link ended while the session opened.')
    this.#isAttached = true
    attachment.start()
  }

  #drop(reason: Error): void {
    const attachment = this.#attachment
    if (attachment === undefined) return
    this.#onDown(attachment, reason)
    attachment.close(reason)
  }

  #onDown(attachment: Attachment, reason: Error | undefined): void {
    if (this.#attachment !== attachment) return
    this.#attachment = undefined
    this.#isAttached = false
    this.#lastReason = reason
    this.#lastHeardAtMs = attachment.link.lastHeardAtMs()
    this.#downSinceMs = this.#options.clock.nowMs()
    this.#lane.linkDown()
    if (isPeerFault(reason)) this.#peerFaults += 1
    this.#caughtUp.reject(
      new NfltrError('link_down', 'The link ended before both sides had caught up.', { cause: reason }),
    )
  }

  #take(attachment: Attachment, frame: SessionFrame): void {
    if (this.#attachment !== attachment) return
    switch (frame.type) {
      case 'control':
        this.#takeControl(attachment, frame.message)
        break
      case 'part':
        if (frame.lane !== workLane) {
          throw new NfltrError('protocol_violation', `The peer sent on lane ${frame.lane}, which is not open.`)
        }
        this.#lane.takePart(frame)
        break
      default:
        throw new NfltrError('protocol_violation', `The peer sent a frame of kind ${frame.type} in an open session.`)
    }
  }

  #takeControl(attachment: Attachment, message: ControlMessage): void {
    switch (message.type) {
      case 'heartbeat':
        break
      case 'ack':
        if (message.lane === workLane) this.#lane.takeAck(message.received)
        break
      case 'credit':
        if (message.lane === workLane) this.#lane.takeCredit(message.bytes)
        break
      case 'probe':
        attachment.control({ type: 'probe_reply', nonce: message.nonce })
        break
      case 'probe_reply':
        attachment.answerProbe(message.nonce)
        break
      case 'caught_up': {
        const head = message.heads.find(({ lane }) => lane === workLane)
        if (head !== undefined) this.#lane.takeCaughtUp(head.no)
        break
      }
      case 'capacity':
      case 'progress':
        this.#options.control(message)
        break
    }
  }

  #apply(tx: Transaction, message: DecodedWork): void {
    const { side, apply } = this.#options
    if (message.type !== 'unknown' && kinds[side].has(message.type)) {
      apply(tx, message as In)
      return
    }
    // A kind of a later version, or one that only this side sends: passed over, and a node says so (rule 26).
    this.#unsupported += 1
    if (side === 'hub') return
    const kind = message.type === 'unknown' ? message.kind : message.type
    const named = 'commandId' in message && message.commandId !== undefined ? { commandId: message.commandId } : {}
    this.#lane.send(tx, { type: 'unsupported', kind, ...named })
  }

  #assertCurrent(open: SessionOpen): void {
    if (open.epoch < this.#highestEpoch) {
      const message = `The hub's epoch ${open.epoch} was below ${this.#highestEpoch}, the highest seen.`
      throw new NfltrError('stale_epoch', message, { details: { highestEpochSeen: this.#highestEpoch } })
    }
    if (open.epoch === this.#highestEpoch && open.sessionNo <= this.#sessionNo) {
      const message = `The session number ${open.sessionNo} was not above ${this.#sessionNo}, the one served.`
      throw new NfltrError('protocol_violation', message, { details: { refused: 'stale_session' } })
    }
  }

  /** Tells the hub why, as far as the link still carries it. */
  async #refuse(link: Link, error: unknown): Promise<boolean> {
    if (!(error instanceof NfltrError) || !linkErrors.has(error.code) || error.code === 'link_down') return false
    const isStaleSession = error.details['refused'] === 'stale_session'
    const code = error.code === 'stale_epoch' ? 'stale_epoch' : isStaleSession ? 'stale_session' : 'protocol_violation'
    const { message } = error
    const frame = this.#codec.encodeFrame({
      type: 'refused',
      code,
      message,
      highestEpochSeen: this.#highestEpoch,
      ...(error.details['fault'] === undefined ? {} : { lanes: [this.#lane.cursor] }),
    })
    return link.send(frame).then(
      () => true,
      () => false,
    )
  }

  /** Resolves once the link is down, or after the bound of an opening. */
  async #closed(link: Link): Promise<void> {
    const bound = Promise.withResolvers<void>()
    const timer = this.#options.clock.after(this.#limits.openTimeoutMs, bound.resolve)
    await Promise.race([link.closed, bound.promise])
    timer.cancel()
  }

  /** Ends the link: softly where a last frame is still on its way, since an abort would take it back. */
  #rejected(link: Link, error: unknown, isSoft = false): Error {
    const reason = error instanceof Error ? error : new Error(String(error))
    if (this.#attachment?.link === link) this.#onDown(this.#attachment, reason)
    else if (isPeerFault(reason)) this.#peerFaults += 1
    if (isSoft) link.close()
    else link.close(reason)
    return reason
  }
}

interface Fit {
  readonly peer: LaneCursor
  readonly restart?: { readonly side: 'peer' } | { readonly side: 'own'; readonly fault: LaneFault }
}

function epochKey(remote: string): string {
  return `lane/${remote}/session`
}

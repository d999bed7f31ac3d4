import type { JournalRecord } from '../core/journal.ts'
import { limits } from '../core/limits.ts'
import type { AttemptResult } from '../core/model.ts'
import type { DriverInput, NodeAttemptEvent } from '../core/node-attempt-state.ts'
import type { AgentDriver, TurnEffect, TurnInput, TurnLaunch } from '../ports/agent-driver.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Keeper } from '../ports/keepers.ts'
import type { Transaction } from '../runtime/engine.ts'
import { type KeeperAction, KeeperHands } from './keeper-hands.ts'
import type { PendingEvent } from './log.ts'
import { Replay } from './replay.ts'
import { boundResult } from './text-bounds.ts'
import { keeperGoneMessage, type TurnEnd, unexplained } from './turn-end.ts'

/** How long log lines are gathered before they go out, in milliseconds. */
export const gatherMs = 250

/** What a turn needs of the node. */
export interface TurnHost {
  transact(decide: (tx: Transaction) => void): Promise<void>
  dispatch(tx: Transaction, event: NodeAttemptEvent): void
  sendEvents(tx: Transaction, events: readonly PendingEvent[]): void
  note(event: string, fields: Readonly<Record<string, string>>): void
}

export interface TurnOptions {
  readonly host: TurnHost
  readonly driver: AgentDriver
  readonly clock: Clock
  readonly keeper: Keeper
  readonly launch: TurnLaunch
  /** The journal before this byte was read by an earlier run of the node, and what follows from it is on disk. */
  readonly resumeAt: number
  /** What the driver was given by then besides the journal. */
  readonly inputs: readonly { readonly at: number; readonly input: DriverInput }[]
}

/**
 * The fold of one turn: the driver's state, and what it said that is not on disk yet.
 *
 * Two facts keep lines from being lost or repeated, wherever the node is killed. The offset is written only by `#flush`, in
 * one batch with everything that the records before it gave rise to. And the driver's state is never stored: it follows
 * from the journal and from its other inputs, which are kept with the offset at which it was given them, so a restarted node
 * gives it the same inputs in the same order. A bound that had not run out starts anew.
 */
export class Turn {
  readonly #options: TurnOptions
  readonly #hands: KeeperHands
  readonly #timers = new Map<string, Timer>()
  #state: unknown
  #replay: Replay | undefined
  #offset: number
  /** How far the known part of the journal has been read again. */
  #replayed = 0
  #gathered: PendingEvent[] = []
  #gatherTimer: Timer | undefined
  #keeperGone: string | undefined
  #isBroken = false
  #isOver = false

  constructor(options: TurnOptions) {
    this.#options = options
    this.#hands = new KeeperHands(options.keeper, options.clock)
    this.#state = options.driver.begin(options.launch)
    this.#replay = new Replay(options.resumeAt, options.inputs)
    this.#offset = options.resumeAt
  }

  /** How far the driver has read, where it may be given inputs: not while the known part is being read again. */
  get liveAt(): number | undefined {
    return this.#replay === undefined && !this.#isOver ? this.#offset : undefined
  }

  /** Where to read the journal on after it was interrupted. */
  get offset(): number {
    return this.#replay === undefined ? this.#offset : this.#replayed
  }

  replaceKeeper(keeper: Keeper): void {
    this.#hands.replace(keeper)
  }

  /** Takes the next record of the journal. Resolves when more can be taken: what must not wait is on disk then. */
  async take(record: JournalRecord): Promise<void> {
    if (this.#isOver) return
    if (this.#replay !== undefined) {
      if (this.#replay.covers(record)) {
        this.#again(this.#replay, record)
        // At once, and not with the next record: a program that waits for what it is owed writes none.
        if (record.nextOffset === this.#replay.untilOffset) await this.goLive()
        return
      }
      await this.goLive()
    }
    const effects = this.#advance({ type: 'record', record })
    this.#offset = record.nextOffset
    const isLaunched = record.type === 'launched'
    if (!isLaunched && effects.every((effect) => effect.type === 'event' || effect.type === 'wake_after')) {
      for (const effect of effects) this.#keep(effect)
      if (this.#gathered.length >= limits.taskEventsPerMessageMax) await this.#write(() => undefined)
      else this.#armGathering()
      return
    }
    await this.#write((tx) => {
      this.#process(tx, effects)
      if (isLaunched)
        this.#options.host.dispatch(tx, { type: 'launched', liveAt: record.nextOffset, atMs: this.#wallMs() })
    })
  }

  /** The known part of the journal has been read: from here on what the driver says counts. */
  async goLive(): Promise<void> {
    const replay = this.#replay
    if (replay === undefined || this.#isOver) return
    this.#giveAgain(replay, Number.POSITIVE_INFINITY)
    this.#replay = undefined
    await this.#write((tx) => {
      this.#process(tx, replay.owed())
      this.#options.host.dispatch(tx, { type: 'resumed', liveAt: this.#offset })
    })
  }

  /** An input that a decision of the node gave rise to; its consequences go into that decision's transaction. */
  feed(tx: Transaction, input: DriverInput): void {
    if (this.#isOver) return
    this.#process(tx, this.#advance(input))
    this.#flush(tx)
  }

  /**
   * The journal has no more: an exit record was its last, or its keeper is gone and nothing of the turn runs.
   * Afterwards the attempt has ended, whatever the driver makes of it.
   */
  async finish(end: TurnEnd): Promise<void> {
    await this.goLive()
    if (this.#isOver) return
    const { how, proof } = end
    if (how === 'keeper_gone') this.#keeperGone = keeperGoneMessage(proof)
    await this.#write((tx) => {
      if (how !== 'exit' && proof !== undefined) this.#process(tx, this.#advance({ type: how, proof }))
      if (!this.#isOver) this.#end(tx, unexplained(end))
    })
  }

  /** Lets go: the keeper and its program run on. What was gathered and not written is read again after the restart. */
  close(): void {
    this.#isOver = true
    this.#hands.end()
    this.#gatherTimer?.cancel()
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
  }

  /** A record of the known part, after the inputs that came before it. */
  #again(replay: Replay, record: JournalRecord): void {
    this.#giveAgain(replay, this.#replayed)
    this.#replayed = record.nextOffset
    replay.cross(record)
    replay.owe(this.#advance({ type: 'record', record }))
  }

  #giveAgain(replay: Replay, offset: number): void {
    for (const input of replay.inputsUpTo(offset)) {
      replay.ranOut(input)
      replay.owe(this.#advance(input))
    }
  }

  #advance(input: TurnInput): readonly TurnEffect[] {
    try {
      const { state, effects } = this.#options.driver.step(this.#state, input)
      this.#state = state
      return effects
    } catch (error) {
      // A driver never throws; one that does must not take the other turns with it. Its program is ended.
      this.#options.host.note('driver_failed', { attempt_id: this.#options.launch.attemptId, error: String(error) })
      const isFirst = !this.#isBroken
      this.#isBroken = true
      return isFirst ? [{ type: 'stop_tree', graceMs: limits.killGraceMs }] : []
    }
  }

  #process(tx: Transaction, effects: readonly TurnEffect[]): void {
    for (const effect of effects) {
      if (this.#isOver) return
      switch (effect.type) {
        case 'event':
        case 'wake_after':
          this.#keep(effect)
          break
        case 'session_ready':
          this.#tell(tx, { type: 'session_ready', sessionId: effect.sessionId })
          break
        case 'message_state':
          this.#tell(tx, { type: 'message_state', messageId: effect.messageId, state: effect.state })
          break
        case 'ended':
          this.#end(tx, effect.result)
          break
        default:
          this.#actLater(tx, effect)
      }
    }
  }

  #keep(effect: TurnEffect): void {
    if (effect.type === 'event') this.#gathered.push({ atMs: this.#wallMs(), event: effect.event })
    else if (effect.type === 'wake_after') this.#arm(effect.token, effect.delayMs)
  }

  #actLater(tx: Transaction, action: KeeperAction): void {
    tx.afterDurable(() => {
      if (!this.#isOver) this.#hands.act(action)
    })
  }

  #tell(tx: Transaction, event: NodeAttemptEvent): void {
    // Lines that came first go out first.
    this.#flush(tx)
    this.#options.host.dispatch(tx, event)
  }

  #end(tx: Transaction, result: AttemptResult): void {
    const keeperGone = this.#keeperGone === undefined ? {} : { keeperGone: this.#keeperGone }
    this.#tell(tx, { type: 'ended', result: boundResult(result), atMs: this.#wallMs(), ...keeperGone })
    this.close()
  }

  #write(decide: (tx: Transaction) => void): Promise<void> {
    return this.#options.host.transact((tx) => {
      decide(tx)
      if (!this.#isOver) this.#flush(tx)
    })
  }

  /** The one place that moves the offset: together with everything from before it. */
  #flush(tx: Transaction): void {
    this.#gatherTimer?.cancel()
    this.#gatherTimer = undefined
    const events = this.#gathered
    this.#gathered = []
    const { host } = this.#options
    host.sendEvents(tx, events)
    host.dispatch(tx, { type: 'progress', offset: this.#offset })
  }

  #armGathering(): void {
    if (this.#gatherTimer !== undefined || this.#gathered.length === 0) return
    this.#gatherTimer = this.#options.clock.after(gatherMs, () => {
      this.#gatherTimer = undefined
      if (!this.#isOver) void this.#write(() => undefined)
    })
  }

  #arm(token: string, delayMs: number): void {
    this.#timers.get(token)?.cancel()
    const timer = this.#options.clock.after(delayMs, () => {
      this.#timers.delete(token)
      if (this.#isOver) return
      void this.#write((tx) => {
        this.#options.host.dispatch(tx, { type: 'woke', token, liveAt: this.#offset })
        this.#process(tx, this.#advance({ type: 'woke', token }))
      })
    })
    this.#timers.set(token, timer)
  }

  #wallMs(): number {
    return this.#options.clock.wallMs()
  }
}

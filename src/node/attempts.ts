import type { NodeMessage } from '../core/messages.ts'
import type { AttemptResult, Capacity } from '../core/model.ts'
import { step } from '../core/node-attempt.ts'
import type { DriverInput, NodeAttempt, NodeAttemptEffect, NodeAttemptEvent } from '../core/node-attempt-state.ts'
import { isOpen } from '../core/node-attempt-step.ts'
import { capacityOf, emptySlots, type HeldSlot, releaseSlot, type Slots, takeSlot } from '../core/slots.ts'
import type { Transaction } from '../runtime/engine.ts'
import { numberEvents, type PendingEvent } from './log.ts'
import { type AgentRecord, deleteAttempt, dropResult, writeAgent, writeAttempt, writeResult } from './records.ts'

/** What the decisions of attempts set in motion. Each call happens after the decision is on disk, but `drive` and `send`. */
export interface AttemptsOutside {
  send(tx: Transaction, hubId: string, message: NodeMessage): void
  /** Hands an input to the attempt's driver, in the same transaction. */
  drive(tx: Transaction, attemptId: string, input: DriverInput): void
  prepare(attemptId: string): void
  launch(attemptId: string): void
  /** The attempt has ended: whatever still waits for its program may go. */
  ended(attemptId: string): void
  makeReceipt(attemptId: string): void
  sendKeptResult(attemptId: string): void
  proveAbsent(hubId: string, effect: Extract<NodeAttemptEffect, { type: 'prove_absent' }>): void
  remove(attemptId: string): void
  capacityChanged(): void
}

interface Entry {
  state: NodeAttempt | undefined
  /** As it was last written: what differs from it is written next. */
  written: NodeAttempt | undefined
}

/**
 * All attempts of the node in memory, and the one place where their decisions are carried out. Everything that follows
 * from an event is in the transaction in which the event was decided: a crash takes back all of it or nothing.
 */
export class Attempts {
  readonly #outside: AttemptsOutside
  readonly #entries = new Map<string, Entry>()
  /** Those of which a turn is not over: a few, whatever is still kept of earlier ones. */
  readonly #open = new Set<string>()
  /** No attempt is kept for a shorter time than this says, by the wall clock. */
  #keptUntilMs = Number.POSITIVE_INFINITY
  readonly #agents = new Map<string, AgentRecord>()
  /** Results that are not on disk yet. */
  readonly #fresh = new Map<string, AttemptResult>()
  #slots: Slots

  constructor(maxAgents: number, outside: AttemptsOutside) {
    this.#outside = outside
    this.#slots = emptySlots(maxAgents)
  }

  /** Puts back what a former run of the node had on disk. */
  restore(attempts: readonly NodeAttempt[], agents: readonly AgentRecord[]): void {
    for (const agent of agents) this.#agents.set(agent.agentId, agent)
    for (const state of attempts) {
      this.#entries.set(state.ref.attemptId, { state, written: state })
      this.#follow(state)
      this.#holdSlot(state)
    }
  }

  /** Takes in what the store has forgotten and the folders tell of; on disk once `keepRecalled` is. */
  recall(attempts: readonly NodeAttempt[]): void {
    for (const state of attempts) {
      this.#entries.set(state.ref.attemptId, { state, written: undefined })
      this.#follow(state)
      this.#holdSlot(state)
    }
  }

  keepRecalled(tx: Transaction): void {
    for (const entry of this.#entries.values()) {
      if (entry.state === undefined || entry.written !== undefined) continue
      writeAttempt(tx, undefined, entry.state)
      entry.written = entry.state
    }
  }

  #holdSlot(state: NodeAttempt): void {
    if (!isOpen(state)) return
    const directory = state.place === undefined ? {} : { directory: state.place.workspace }
    const { hubId } = state
    const slot: HeldSlot = { agentId: state.ref.agentId, hubId, isRunning: state.phase !== 'claimed', ...directory }
    this.#slots = takeSlot(this.#slots, state.ref.attemptId, slot)
  }

  get(attemptId: string): NodeAttempt | undefined {
    return this.#entries.get(attemptId)?.state
  }

  all(): readonly NodeAttempt[] {
    return [...this.#entries.values()].flatMap(({ state }) => state ?? [])
  }

  /** Attempts of which a turn is not over. */
  open(): readonly NodeAttempt[] {
    return [...this.#open].flatMap((attemptId) => this.get(attemptId) ?? [])
  }

  /** Attempts whose time is over, by the wall clock. */
  due(atMs: number): readonly NodeAttempt[] {
    if (atMs < this.#keptUntilMs) return []
    const all = this.all()
    // Those that are due count as well: whatever stands in the way of their end, they are found again.
    this.#keptUntilMs = all.reduce((soonest, state) => Math.min(soonest, keptUntil(state)), Number.POSITIVE_INFINITY)
    return all.filter((state) => keptUntil(state) <= atMs)
  }

  #follow(state: NodeAttempt): void {
    if (isOpen(state)) this.#open.add(state.ref.attemptId)
    else this.#open.delete(state.ref.attemptId)
    this.#keptUntilMs = Math.min(this.#keptUntilMs, keptUntil(state))
  }

  freshResult(attemptId: string): AttemptResult | undefined {
    return this.#fresh.get(attemptId)
  }

  agent(agentId: string): AgentRecord | undefined {
    return this.#agents.get(agentId)
  }

  get slots(): Slots {
    return this.#slots
  }

  capacity(isUnavailable: boolean): Capacity {
    const capacity = capacityOf(this.#slots)
    return isUnavailable ? { ...capacity, free: 0 } : capacity
  }

  /** Notes which folder a turn is going to write to; in memory, since a restart finds it in `place` or asks again. */
  occupy(attemptId: string, directory: string): void {
    const slot = this.#slots.held.get(attemptId)
    if (slot !== undefined) this.#slots = takeSlot(this.#slots, attemptId, { ...slot, directory })
  }

  /** Advances one attempt and carries out what follows. */
  dispatch(
    tx: Transaction,
    subject: { readonly hubId: string; readonly attemptId: string },
    event: NodeAttemptEvent,
  ): void {
    const { hubId, attemptId } = subject
    const entry = this.#entries.get(attemptId) ?? { state: undefined, written: undefined }
    // Nobody but the hub that claimed an attempt has a say in it.
    if (entry.state !== undefined && entry.state.hubId !== hubId) return
    const { state, effects } = step(entry.state, event)
    entry.state = state
    if (state !== undefined) {
      this.#entries.set(attemptId, entry)
      this.#follow(state)
    }
    for (const effect of effects) this.#perform(tx, { hubId, attemptId, entry }, effect)
  }

  /** Numbers log lines of an attempt's agent and puts them into the outbox. */
  sendEvents(tx: Transaction, attemptId: string, pending: readonly PendingEvent[]): void {
    const state = this.get(attemptId)
    if (state === undefined || pending.length === 0) return
    const agent = this.#agentOf(state)
    for (const events of numberEvents(pending, { seq: agent.nextSeq, turn: state.turn })) {
      this.#outside.send(tx, state.hubId, { type: 'task_events', ref: state.ref, events })
    }
    this.#writeAgent(tx, { ...agent, nextSeq: agent.nextSeq + pending.length })
  }

  /** The agent has a session now, and a continuation may go on with it. */
  agentReady(tx: Transaction, attemptId: string): void {
    const state = this.get(attemptId)
    if (state?.place === undefined || state.announcedSessionId === undefined) return
    const agent = this.#agentOf(state)
    const isContinuation = state.claim?.resumeSessionId !== undefined
    const origin = isContinuation ? {} : { originAttemptId: attemptId, dir: state.claim?.dir }
    const { announcedSessionId: sessionId, place } = state
    this.#writeAgent(tx, { ...agent, ...origin, sessionId, workspace: place.workspace })
  }

  #perform(
    tx: Transaction,
    subject: { readonly hubId: string; readonly attemptId: string; readonly entry: Entry },
    effect: NodeAttemptEffect,
  ): void {
    const { hubId, attemptId, entry } = subject
    const outside = this.#outside
    switch (effect.type) {
      case 'persist':
        if (entry.state !== undefined) writeAttempt(tx, entry.written, entry.state)
        entry.written = entry.state
        break
      case 'send':
        outside.send(tx, hubId, effect.message)
        break
      case 'keep_result':
        this.#keepResult(tx, attemptId, effect.result)
        break
      case 'drop_result':
        dropResult(tx, attemptId)
        break
      case 'take_slot':
        this.#takeSlot(tx, entry)
        break
      case 'release_slot':
        this.#slots = releaseSlot(this.#slots, attemptId)
        tx.afterDurable(() => outside.capacityChanged())
        break
      case 'drive':
        outside.drive(tx, attemptId, effect.input)
        break
      case 'delete':
        if (entry.written !== undefined) deleteAttempt(tx, entry.written)
        this.#entries.delete(attemptId)
        this.#open.delete(attemptId)
        break
      case 'launch': {
        const slot = this.#slots.held.get(attemptId)
        if (slot !== undefined) this.#slots = takeSlot(this.#slots, attemptId, { ...slot, isRunning: true })
        tx.afterDurable(() => outside.launch(attemptId))
        break
      }
      case 'prepare':
        tx.afterDurable(() => outside.prepare(attemptId))
        break
      case 'make_receipt':
        tx.afterDurable(() => outside.makeReceipt(attemptId))
        break
      case 'send_kept_result':
        tx.afterDurable(() => outside.sendKeptResult(attemptId))
        break
      case 'prove_absent':
        tx.afterDurable(() => outside.proveAbsent(hubId, effect))
        break
      case 'remove':
        tx.afterDurable(() => outside.remove(attemptId))
        break
    }
  }

  #keepResult(tx: Transaction, attemptId: string, result: AttemptResult): void {
    writeResult(tx, attemptId, result)
    this.#fresh.set(attemptId, result)
    tx.afterDurable(() => {
      this.#fresh.delete(attemptId)
      this.#outside.ended(attemptId)
    })
  }

  #takeSlot(tx: Transaction, entry: Entry): void {
    const { state } = entry
    if (state === undefined) return
    this.#slots = takeSlot(this.#slots, state.ref.attemptId, {
      agentId: state.ref.agentId,
      hubId: state.hubId,
      isRunning: false,
    })
    this.#writeAgent(tx, this.#agentOf(state))
    tx.afterDurable(() => this.#outside.capacityChanged())
  }

  /** The agent as it is known. A turn that begins another session changes nothing of it before that session exists. */
  #agentOf(state: NodeAttempt): AgentRecord {
    const { agentId, attemptId } = state.ref
    const known = this.#agents.get(agentId)
    if (known !== undefined) return known
    const { hubId, claim } = state
    return {
      agentId,
      hubId,
      originAttemptId: attemptId,
      sessionId: undefined,
      dir: claim?.dir,
      workspace: undefined,
      nextSeq: 1,
    }
  }

  #writeAgent(tx: Transaction, agent: AgentRecord): void {
    this.#agents.set(agent.agentId, agent)
    writeAgent(tx, agent)
  }
}

function keptUntil({ keptUntilMs }: NodeAttempt): number {
  return keptUntilMs ?? Number.POSITIVE_INFINITY
}

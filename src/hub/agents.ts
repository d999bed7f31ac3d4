import { type Attempt, fenceOf, isAlive, type StoreSide } from '../core/attempt.ts'
import { NfltrError, unreachable } from '../core/errors.ts'
import { factsOfChange } from '../core/history.ts'
import type { AttemptSummary, HubMessage } from '../core/messages.ts'
import type { Usage } from '../core/model.ts'
import { encodeRecord } from '../core/record-json.ts'
import { stepAgent, unsettledAttempts } from '../core/task.ts'
import {
  type Agent,
  currentTask,
  type Home,
  isActive,
  liveAttempt,
  refOf,
  type Steer,
  type Task,
} from '../core/task-record.ts'
import { adoptAttempt } from '../core/task-restore.ts'
import type { AgentEffect, AgentEvent } from '../core/task-step.ts'
import type { Clock } from '../ports/clock.ts'
import type { Store } from '../ports/store.ts'
import type { Transaction } from '../runtime/engine.ts'
import { type AgentAttempt, AgentIndex } from './agent-index.ts'
import type { AgentIndexParts } from './agent-index-building.ts'
import type { Changes } from './changes.ts'
import type { History } from './history.ts'
import { turnOfMessage } from './ids.ts'
import type { Mailbox } from './mailbox.ts'
import { type EndedAs, keys, type MachineRecord, type MessageRecord, prefixes, readAll } from './records.ts'

export interface AgentsParts {
  readonly store: Store
  readonly clock: Clock
  readonly changes: Changes
  readonly mailbox: Mailbox
  readonly history: History
  readonly sha256: (text: string) => string
  /** Into the outbox of a node's session. */
  readonly send: (tx: Transaction, peerId: string, message: HubMessage) => void
  /** Empties what the outbox still holds for an attempt. */
  readonly voidCommands: (tx: Transaction, peerId: string, attemptId: string) => void
  /** Looks for places once the decision is durable. */
  readonly findPlaces: () => void
}

/** What is known of a running turn beside its record; lost with the process. */
export interface Activity {
  readonly atMs: number
  readonly note?: string
}

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })
const toUtf8 = new TextEncoder()

/** All agents of this hub: the core's decisions about them carried out, and their texts. */
export class Agents {
  readonly #parts: AgentsParts
  readonly #agents: AgentIndex
  readonly #briefs = new Map<string, string>()
  readonly #messages: Map<string, MessageRecord>
  readonly #activity = new Map<string, Activity>()

  private constructor(parts: AgentsParts, agents: AgentIndex, messages: readonly MessageRecord[]) {
    this.#parts = parts
    this.#agents = agents
    this.#messages = new Map(messages.map((message) => [message.messageId, message]))
  }

  /** @throws {NfltrError} `store_damaged`, `store_newer` */
  static async load(parts: AgentsParts & AgentIndexParts): Promise<Agents> {
    const index = await AgentIndex.load(parts)
    const agents = new Agents(parts, index, await readAll<MessageRecord>(parts.store, prefixes.message))
    for (const { taskId } of index.open().filter(mayNeedBrief).map(currentTask)) {
      const brief = await parts.store.get(keys.brief(taskId))
      if (brief !== undefined) agents.#briefs.set(taskId, utf8.decode(brief))
    }
    return agents
  }

  /** @throws {NfltrError} `store_damaged` for one that ended and whose record cannot be read any more */
  get(agentId: string): Agent | undefined {
    return this.#agents.get(agentId)
  }

  /** False where the record is damaged, of which the store tells; also what is unknown can be read. */
  isReadable(agentId: string): boolean {
    try {
      this.#agents.get(agentId)
      return true
    } catch (error) {
      if (error instanceof NfltrError && error.code === 'store_damaged') return false
      throw error
    }
  }

  /** Agents that something may still come of, oldest first. */
  open(): readonly Agent[] {
    return this.#agents.open()
  }

  /** @see AgentIndex.newestFirst */
  newestFirst(below: number, mayBe: (ended: EndedAs) => boolean): AsyncIterable<Agent> {
    return this.#agents.newestFirst(below, mayBe)
  }

  /** What is known of each machine from the agents that ended there. */
  machines(): readonly MachineRecord[] {
    return this.#agents.machines()
  }

  /** Every machine that ever took an agent. */
  homes(): ReadonlySet<string> {
    const open = this.#agents.open().flatMap((agent) => agent.home?.peerId ?? [])
    return new Set([...open, ...this.machines().flatMap(({ peerId }) => (peerId === '' ? [] : [peerId]))])
  }

  /** The number that the next agent takes. */
  get nextNo(): number {
    return this.#agents.nextNo
  }

  /** How many agents are in each state. */
  states(isGone: (peerId: string) => boolean): Readonly<Record<string, number>> {
    return this.#agents.states(isGone)
  }

  /** What all turns of all agents used. */
  usage(): Usage {
    return this.#agents.usage()
  }

  /** Agents whose turn has not ended, oldest first. */
  active(): readonly Agent[] {
    return this.#agents.active()
  }

  /** Agents that wait for a place, oldest first. */
  queued(): readonly Agent[] {
    return this.#agents.queued()
  }

  /** Attempts of this node that may be running, as far as the hub knows. */
  aliveOn(peerId: string): readonly AgentAttempt[] {
    return this.#agents.aliveOn(peerId)
  }

  /** How many attempts this node was offered and has not answered. */
  offeredOn(peerId: string): number {
    const alive = this.aliveOn(peerId)
    // Most nodes have none at a time, and all are asked for at each placement.
    return alive.length === 0 ? 0 : alive.filter(({ attempt }) => attempt.phase === 'offered').length
  }

  /** Nodes with attempts that may be running, by PeerId. */
  workedOn(): Iterable<string> {
    return this.#agents.workedOn()
  }

  /**
   * What a session opening says of this node's attempts: below these epochs no command counts (rule 5). An opening that does
   * not hold them all leaves the last ones out: what may be running goes first, then the newest.
   */
  fencesOf(peerId: string): readonly { readonly attemptId: string; readonly epoch: number }[] {
    const attempts = this.#agents
      .open()
      .flatMap(unsettledAttempts)
      .filter((attempt) => attempt.peerId === peerId)
      .reverse()
    const alive = attempts.filter(isAlive)
    const lost = attempts.filter((attempt) => !isAlive(attempt))
    return [...alive, ...lost].map((attempt) => ({ attemptId: attempt.attemptId, epoch: fenceOf(attempt) }))
  }

  /** Attempts of this node that were counted lost and of which no end has come since. */
  lostOn(peerId: string): readonly AgentAttempt[] {
    return this.#agents.open().flatMap((agent) =>
      currentTask(agent)
        .attempts.filter((attempt) => attempt.peerId === peerId && attempt.phase === 'lost')
        .map((attempt) => ({ agent, attempt })),
    )
  }

  /** Attempts that may be running and of which one of the two stores was put back since. */
  inDoubtOn(peerId: string): readonly AgentAttempt[] {
    return this.#aliveAnywhere(peerId).filter(({ attempt }) => attempt.doubts !== undefined)
  }

  /** A store was put back: what is known of the attempts that may be running may be of an earlier time (rule 6). */
  doubt(tx: Transaction, side: StoreSide, peerId?: string): void {
    for (const { agent, attempt } of this.#aliveAnywhere(peerId)) {
      const { attemptId } = attempt
      this.apply(tx, agent.agentId, { type: 'attempt', attemptId, event: { type: 'doubted', side } })
    }
  }

  /** Takes in what a node has and this hub's store knows nothing of. @returns whether it was unknown */
  adopt(tx: Transaction, summary: AttemptSummary, home: Home): boolean {
    const previous = this.#agents.get(summary.ref.agentId)
    const adopted = adoptAttempt({ agent: previous, no: this.nextNo }, summary, home)
    if (adopted === undefined) return false
    const { state, effects } = adopted
    this.#parts.history.add(tx, factsOfChange({ previous, next: state, effects: [], sha256: this.#parts.sha256 }))
    this.#agents.keep(tx, state, previous)
    for (const effect of effects) this.#carryOut(tx, state, effect)
    this.#parts.changes.notifyAfter(tx)
    return true
  }

  /**
   * Says once more what an attempt was told and has not answered for good: it went away with a lane that began anew. What its
   * node has had is known there by its id.
   */
  tellAgain(
    tx: Transaction,
    agent: Agent,
    { task, attempt }: { readonly task: Task; readonly attempt: Attempt },
  ): void {
    const { send } = this.#parts
    const ref = refOf(agent, task, attempt)
    for (const { messageId, state } of task.steers.filter(isOpen)) {
      const text = this.#messages.get(messageId)?.text
      if (state === 'waiting' || text === undefined) continue
      send(tx, attempt.peerId, { type: 'steer', commandId: `${attempt.attemptId}.${messageId}`, ref, messageId, text })
    }
    if (task.stop === undefined || !isAlive(attempt)) return
    const { reason } = task.stop
    const stop = { type: 'stop', commandId: `${attempt.attemptId}.stop`, ref } as const
    send(tx, attempt.peerId, reason === undefined ? stop : { ...stop, reason })
  }

  /** Also of turns that are not the newest any more: a hub that was put back may not have heard their ends. */
  #aliveAnywhere(peerId?: string): readonly AgentAttempt[] {
    return this.#agents.open().flatMap((agent) =>
      agent.tasks
        .flatMap((task) => task.attempts)
        .filter((attempt) => isAlive(attempt) && (peerId === undefined || attempt.peerId === peerId))
        .map((attempt) => ({ agent, attempt })),
    )
  }

  activityOf(agentId: string): Activity | undefined {
    return this.#activity.get(agentId)
  }

  noteActivity(agentId: string, activity: Activity): void {
    if (this.#agents.get(agentId) !== undefined)
      this.#activity.set(agentId, { ...this.#activity.get(agentId), ...activity })
  }

  /** Takes a new agent in. */
  create(tx: Transaction, agent: Agent, brief: string): void {
    const { history, sha256 } = this.#parts
    history.add(tx, factsOfChange({ previous: undefined, next: agent, effects: [], sha256 }))
    this.#agents.keep(tx, agent, undefined)
    this.#keepBrief(tx, currentTask(agent).taskId, brief)
  }

  /** Keeps a message's text until its fate is known. */
  keepMessage(tx: Transaction, message: MessageRecord): void {
    this.#messages.set(message.messageId, message)
    tx.put(keys.message(message.messageId), encodeRecord(message))
  }

  /**
   * Advances an agent by one event and carries the effects out in the same batch.
   *
   * @param by the machine whose word it is, by PeerId
   * @returns whether the event was about anything this hub knows
   */
  apply(tx: Transaction, agentId: string, event: AgentEvent, by?: string): boolean {
    const agent = this.#agents.get(agentId)
    if (agent === undefined) return false
    const { clock, mailbox, changes, history, sha256, findPlaces } = this.#parts
    const context = { atMs: clock.wallMs(), deliveryId: mailbox.nextDeliveryId }
    const { state, effects } = stepAgent(agent, event, context)
    if (state !== agent) this.#agents.keep(tx, state, agent)
    const told = by === undefined ? {} : { by }
    history.add(tx, factsOfChange({ previous: agent, next: state, event, effects, sha256, ...told }))
    for (const effect of effects) this.#carryOut(tx, state, effect)
    // An offer counts against the free slots until it is answered; the node may have told of the slot before that.
    if (isOffered(agent) && !isOffered(state)) tx.afterDurable(findPlaces)
    if (state !== agent) {
      this.#dropTexts(tx, this.#agents.get(agentId) ?? state)
      this.noteActivity(agentId, { atMs: context.atMs })
      changes.notifyAfter(tx)
    }
    return true
  }

  #carryOut(tx: Transaction, agent: Agent, effect: AgentEffect): void {
    const { send, voidCommands, mailbox, sha256, findPlaces } = this.#parts
    switch (effect.type) {
      case 'persist':
        // It is in the batch already.
        break
      case 'send_claim': {
        const brief = this.#briefs.get(effect.claim.ref.taskId)
        if (brief === undefined) throw new Error(`the brief of ${effect.claim.ref.taskId} is not there`)
        send(tx, effect.peerId, { ...effect.claim, request: { brief, ...agent.settings } })
        break
      }
      case 'send_steer': {
        const { ref, messageId } = effect
        const text = this.#messages.get(messageId)?.text
        if (text === undefined) throw new Error(`the text of ${messageId} is not there`)
        const commandId = `${ref.attemptId}.${messageId}`
        send(tx, effect.peerId, { type: 'steer', commandId, ref, messageId, text })
        break
      }
      case 'send_stop':
        send(tx, effect.peerId, effect.stop)
        break
      case 'send_collected': {
        const { ref, text } = effect
        const commandId = `${ref.attemptId}.collected`
        send(tx, effect.peerId, { type: 'collected', commandId, ref, resultHash: sha256(text) })
        break
      }
      case 'deliver':
        mailbox.deliver(tx, effect.entry)
        // A slot may have become free, and another task may be waiting for it.
        tx.afterDurable(findPlaces)
        break
      case 'void_commands':
        voidCommands(tx, effect.peerId, effect.attemptId)
        break
      case 'find_place':
        tx.afterDurable(findPlaces)
        break
      case 'use_as_brief':
        this.#keepBrief(tx, effect.taskId, this.#messages.get(effect.messageId)?.text ?? '')
        break
      case 'carry_over':
        this.#carryOver(tx, agent, effect.messageId)
        break
      case 'keep_as_evidence':
        break
      default:
        unreachable(effect)
    }
  }

  #carryOver(tx: Transaction, agent: Agent, messageId: string): void {
    const text = this.#messages.get(messageId)?.text
    if (text === undefined) return
    const { sha256 } = this.#parts
    const taskId = turnOfMessage(messageId, sha256)
    const turn = { taskId, textHash: sha256(text), timeoutMs: currentTask(agent).timeoutMs }
    const isIdle = !isActive(agent)
    this.apply(tx, agent.agentId, { type: isIdle ? 'carry_over' : 'send', messageId, ...turn })
  }

  #keepBrief(tx: Transaction, taskId: string, brief: string): void {
    this.#briefs.set(taskId, brief)
    tx.put(keys.brief(taskId), toUtf8.encode(brief))
  }

  /** Lets go of texts that no command needs any more: of briefs in memory, of messages for good. */
  #dropTexts(tx: Transaction, agent: Agent): void {
    if (!mayNeedBrief(agent)) this.#briefs.delete(currentTask(agent).taskId)
    const open = new Set(agent.tasks.flatMap((task) => task.steers.filter(isOpen).map((steer) => steer.messageId)))
    for (const { messageId, agentId } of this.#messages.values()) {
      if (agentId !== agent.agentId || open.has(messageId)) continue
      this.#messages.delete(messageId)
      tx.delete(keys.message(messageId))
    }
  }
}

/** Whether the message's text may still be needed: its fate is not told yet. */
function isOpen(steer: Steer): boolean {
  return !steer.isReported && (steer.state === 'waiting' || steer.state === 'sent' || steer.state === 'accepted')
}

/** Whether a claim of the current turn may have to be sent, or sent again elsewhere. */
function mayNeedBrief(agent: Agent): boolean {
  const { end, attempts } = currentTask(agent)
  const last = attempts.at(-1)
  return end === undefined && (last === undefined || last.phase === 'offered' || last.phase === 'declined')
}

function isOffered(agent: Agent): boolean {
  return liveAttempt(agent)?.phase === 'offered'
}

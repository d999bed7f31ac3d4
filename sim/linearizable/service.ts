import { createHash } from 'node:crypto'
import { keyNumber } from '../../src/core/key-order.ts'
import type { TaskEvent } from '../../src/core/model.ts'
import { decodeRecord, encodeRecord } from '../../src/core/record-json.ts'
import { type Agent, currentAttempt, isQueued } from '../../src/core/task-record.ts'
import { newTask } from '../../src/core/task-step.ts'
import { Agents } from '../../src/hub/agents.ts'
import { Changes } from '../../src/hub/changes.ts'
import { History } from '../../src/hub/history.ts'
import { Mailbox } from '../../src/hub/mailbox.ts'
import { Waiting } from '../../src/hub/waiting.ts'
import { Attempts, type AttemptsOutside } from '../../src/node/attempts.ts'
import { readAgents, readAttempts } from '../../src/node/records.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { Store } from '../../src/ports/store.ts'
import { Engine, type Transaction } from '../../src/runtime/engine.ts'
import type { AppendInput, Tail } from './appends.ts'
import type { Ownership, OwnershipInput } from './ownership.ts'

/** What a client asks. `open` makes the task of a key, once. */
export type Request =
  | { readonly kind: 'open'; readonly key: string }
  | { readonly kind: 'ownership'; readonly key: string; readonly input: OwnershipInput }
  | { readonly kind: 'append'; readonly key: string; readonly input: AppendInput }

export type Answer = Ownership | Tail | undefined

const hubId = 'hub_1'

/**
 * The production decisions about who owns a task (the hub's agents) and about the numbers of log lines (the node's attempts),
 * over the production engine and a store: what a client is told is on disk, as it is to the outside world.
 */
export class Service {
  readonly #store: Store
  readonly #engine: Engine
  readonly #agents: Agents
  readonly #attempts: Attempts
  #no = 0

  private constructor(parts: {
    readonly store: Store
    readonly engine: Engine
    readonly agents: Agents
    readonly attempts: Attempts
  }) {
    this.#store = parts.store
    this.#engine = parts.engine
    this.#agents = parts.agents
    this.#attempts = parts.attempts
    this.#no = parts.agents.nextNo - 1
  }

  static async over(store: Store): Promise<Service> {
    const engine = new Engine(store)
    const clock = systemClock()
    const changes = new Changes(clock)
    const history = await History.load({ store, clock, sha256 })
    const mailbox = await Mailbox.load({ engine, store, changes, clock, history, waiting: new Waiting() })
    const agents = await Agents.load({
      engine,
      mark: { isKept: false, set: () => undefined },
      store,
      clock,
      changes,
      mailbox,
      history,
      sha256,
      send: () => undefined,
      voidCommands: () => undefined,
      findPlaces: () => undefined,
    })
    const attempts = new Attempts(Number.MAX_SAFE_INTEGER, logOnly)
    attempts.restore(await readAttempts(store), await readAgents(store))
    return new Service({ store, engine, agents, attempts })
  }

  /** Resolves once the answer may be told: everything that it shows is on disk. */
  async call(request: Request): Promise<Answer> {
    switch (request.kind) {
      case 'open':
        await this.#engine.transact((tx) => this.#open(tx, request.key))
        return undefined
      case 'ownership':
        return await this.#engine.transact((tx) => this.#ownership(tx, request.key, request.input))
      case 'append': {
        const count = await this.#engine.transact((tx) => this.#append(tx, request.key, request.input))
        return { count, last: await this.#lineAt(request.key, count) }
      }
    }
  }

  #open(tx: Transaction, key: string): void {
    if (this.#agents.get(key) !== undefined) return
    const atMs = Date.now()
    const task = newTask({ taskId: taskOf(key), turn: 1, textHash: '', timeoutMs: 0, atMs })
    const filters = { labels: {}, requires: [] }
    const no = ++this.#no
    const agent: Agent = { agentId: key, no, filters, lostAfterMs: 1, settings: {}, startedAtMs: atMs, tasks: [task] }
    this.#agents.create(tx, agent, 'a brief')
    const attemptId = logAttemptOf(key)
    const ref = { agentId: key, taskId: taskOf(key), attemptId, epoch: 1 }
    const message = { type: 'claim', commandId: `${attemptId}.claim`, ref, turn: 1, lostAfterMs: 1 } as const
    this.#attempts.dispatch(
      tx,
      { hubId, attemptId },
      {
        type: 'claim',
        hubId,
        message: { ...message, request: { brief: 'a brief' } },
        fence: 0,
        newSessionId: 'a session',
        decline: undefined,
        atMs,
      },
    )
  }

  #ownership(tx: Transaction, key: string, input: OwnershipInput): Ownership {
    const agent = this.#agents.get(key)
    if (agent === undefined) throw new Error(`${key} was not opened`)
    if (input.type === 'place') {
      const { attemptId } = input
      if (isQueued(agent)) this.#agents.apply(tx, key, { type: 'placed', attemptId, peerId: 'node', machine: 'vm1' })
    } else if (input.type === 'expire') {
      const event = { type: 'lost', ground: 'silent', message: 'Nothing was heard.' } as const
      this.#agents.apply(tx, key, { type: 'attempt', attemptId: input.attemptId, event })
    } else if (input.type !== 'read') {
      this.#agents.apply(tx, key, { type: 'attempt', attemptId: input.attemptId, event: wordOf(input) }, 'node')
    }
    return ownershipOf(this.#agents.get(key) ?? agent)
  }

  #append(tx: Transaction, key: string, input: AppendInput): number {
    if (input.type === 'append') {
      const event = { type: 'text', text: input.id, fields: {} } as const
      const lines = Array.from({ length: input.lines }, () => ({ atMs: 1, event }))
      this.#attempts.sendEvents(tx, logAttemptOf(key), lines)
    }
    return (this.#attempts.agent(key)?.nextSeq ?? 1) - 1
  }

  async #lineAt(key: string, seq: number): Promise<string> {
    const line = seq === 0 ? undefined : await this.#store.get(lineKey(key, seq))
    return line === undefined ? '' : (decodeRecord<TaskEvent>(line).text ?? '')
  }
}

/** Puts the lines where the hub would keep them; nothing else leaves this node. */
const logOnly: AttemptsOutside = {
  send: (tx, _hubId, message) => {
    if (message.type !== 'task_events') return
    for (const event of message.events) tx.put(lineKey(message.ref.agentId, event.seq), encodeRecord(event))
  },
  drive: () => undefined,
  prepare: () => undefined,
  launch: () => undefined,
  ended: () => undefined,
  makeReceipt: () => undefined,
  sendKeptResult: () => undefined,
  proveAbsent: () => undefined,
  remove: () => undefined,
  capacityChanged: () => undefined,
}

function wordOf(input: Extract<OwnershipInput, { readonly epoch: number }>) {
  const { epoch } = input
  switch (input.type) {
    case 'claimed':
      return { type: 'claimed', epoch } as const
    case 'started':
      return { type: 'started', epoch, sessionId: 'a session' } as const
    case 'declined':
      return { type: 'declined', epoch, reason: 'queue_full', message: 'No slot.', isPermanent: false } as const
    case 'ended': {
      const usage = { inputTokens: 0, outputTokens: 0, costUsd: 0, durationMs: 0 }
      const nothing = { denied: [], messages: [], details: {} }
      return {
        type: 'ended',
        epoch,
        result: { outcome: 'completed', text: input.attemptId, usage, ...nothing },
      } as const
    }
  }
}

function ownershipOf(agent: Agent): Ownership {
  const [task] = agent.tasks
  if (task === undefined) throw new Error(`${agent.agentId} has no task`)
  const attempt = currentAttempt(task)
  return {
    epoch: attempt?.epoch ?? 0,
    attemptId: attempt?.attemptId ?? '',
    phase: attempt?.phase ?? 'none',
    end: task.end === undefined ? 'none' : task.end.outcome === 'node_lost' ? 'lost' : 'result',
    isLate: task.lateEnd !== undefined,
  }
}

function taskOf(key: string): string {
  return `tsk_${key}`
}

function logAttemptOf(key: string): string {
  return `att_log_${key}`
}

function lineKey(key: string, seq: number): string {
  return `hub/event/${key}/${keyNumber(seq)}`
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

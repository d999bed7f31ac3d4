import type { Attempt } from '../core/attempt.ts'
import type { AttemptRef, HubMessage, NodeMessage } from '../core/messages.ts'
import { hasIds } from '../core/node-attempt-claim.ts'
import { encodeRecord } from '../core/record-json.ts'
import { type Agent, currentTask, refOf } from '../core/task-record.ts'
import type { Clock } from '../ports/clock.ts'
import type { Store } from '../ports/store.ts'
import type { Engine, Transaction } from '../runtime/engine.ts'
import type { LaneRestart } from '../runtime/session-options.ts'
import type { Agents } from './agents.ts'
import type { Mailbox } from './mailbox.ts'
import { keys, readRecord } from './records.ts'

type Inventory = Extract<NodeMessage, { type: 'inventory' }>

/** How long the nodes have to tell a hub that was put back of agents that it forgot, in milliseconds. */
const untoldMs = 20_000

export interface RestorationParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly store: Store
  readonly agents: Agents
  readonly mailbox: Mailbox
  readonly send: (tx: Transaction, peerId: string, message: HubMessage) => void
  readonly nameOf: (peerId: string) => string
  /** Whether the nodes that are here have caught up, or have had the time for it. */
  readonly isStarted: () => boolean
  /** Every machine that a task may go to, by PeerId. */
  readonly nodes: () => readonly string[]
}

/** What outlives the process of a store that was put back. */
interface RestoredRecord {
  readonly incarnation: number
  /** Nodes that have not said since what they have: a task that waited then may be running on one of them. */
  readonly untold?: readonly string[]
  /** Tasks that waited for a place when the hub was found put back. */
  readonly held?: readonly string[]
}

/**
 * What a hub does when its own store, or that of a node, was lost or put back to an earlier time (rule 6). Nothing that was
 * numbered before is executed; what both sides have is compared attempt by attempt.
 *
 * - The hub was put back: numbers of entries go on above all that were given; results that come again are `maybe_seen`;
 *   attempts that only the node knows are taken in; attempts that were only offered, and that the node never got, look for
 *   a place again.
 * - A node was put back: attempts whose folders are still there are claimed again, which finds the turn where its journal
 *   is; of all others the node is asked, and proves that nothing runs.
 */
export class Restoration {
  readonly #parts: RestorationParts
  #incarnation: number
  #beganAtMs: number | undefined
  /** Nodes whose session began anew and has not caught up since. */
  readonly #justRestarted = new Set<string>()
  /** Nodes that have said all they have since this process began, and so what a store put back before that does not know. */
  readonly #told = new Set<string>()
  readonly #untold: Set<string>
  readonly #held: Set<string>
  /** Tasks that waited for a place when this process began: its store may have been put back, and nobody has told it yet. */
  readonly #waited: ReadonlySet<string>

  private constructor(parts: RestorationParts, known: RestoredRecord | undefined) {
    this.#parts = parts
    this.#incarnation = known?.incarnation ?? 1
    this.#untold = new Set(known?.untold)
    this.#held = new Set(known?.held)
    this.#waited = new Set(parts.agents.queued().map((agent) => currentTask(agent).taskId))
  }

  /** Takes note of a store that was found put back when it was opened. */
  static async load(parts: RestorationParts): Promise<Restoration> {
    const restoration = new Restoration(parts, await readRecord<RestoredRecord>(parts.store, keys.restored))
    const { incarnation } = parts.store.identity
    if (incarnation > restoration.#incarnation) await parts.engine.transact((tx) => restoration.#begin(tx, incarnation))
    return restoration
  }

  /** Until when, in awake time, an agent that is not known may only be one that its node has not told of yet. */
  get untoldUntilMs(): number {
    return this.#beganAtMs === undefined ? 0 : this.#beganAtMs + untoldMs
  }

  /** Whether this hub's store was ever put back. */
  get wasRestored(): boolean {
    return this.#incarnation > 1
  }

  /** A session's lane begins anew. */
  restarted(tx: Transaction, peerId: string, { side, incarnation }: LaneRestart): void {
    const { agents, mailbox, nameOf } = this.#parts
    this.#justRestarted.add(peerId)
    this.#told.delete(peerId)
    if (side === 'own') {
      this.#begin(tx, incarnation)
      return
    }
    agents.doubt(tx, 'node', peerId)
    const machine = nameOf(peerId)
    const text = `The store of ${machine} was lost or put back to an earlier time. What runs there is compared with what this hub knows; nothing that was sent before is done a second time.`
    mailbox.deliverEvent(tx, { source: machine, machine, text })
  }

  /** What a node has of this hub, after one of the two stores was put back. */
  inventory(tx: Transaction, peerId: string, message: Inventory): void {
    const { agents, nameOf } = this.#parts
    const home = { peerId, machine: nameOf(peerId) }
    // All that a node has of this hub was on this hub's disk first. One that had said what it has names nothing new.
    const isForgotten = message.attempts.some((summary) => this.#isForgotten(summary))
    if (isForgotten && !this.#untold.has(peerId)) this.#begin(tx, this.#incarnation + 1)
    for (const summary of message.attempts) {
      if (!hasIds(summary.ref) || !agents.isReadable(summary.ref.agentId)) continue
      agents.adopt(tx, summary, home)
      const found = this.#find(peerId, summary.ref)
      if (found === undefined) continue
      const { agent, task, attempt } = found
      if (!isSettled(found)) this.#recall(tx, peerId, refOf(agent, task, attempt))
      if (task.attempts.at(-1) === attempt) agents.tellAgain(tx, agent, found)
      if (!isSettled(found) && summary.state !== 'ended' && attempt.doubts !== undefined) {
        const event = { type: 'listed_open' } as const
        agents.apply(tx, agent.agentId, { type: 'attempt', attemptId: attempt.attemptId, event })
      }
    }
    for (const attemptId of message.orphans) this.#claimAgain(tx, peerId, attemptId)
    if (message.isLast) this.#settle(tx, peerId, message)
  }

  /**
   * Which tasks have to wait now, since they may have been placed in a time that this hub's store lost: as long as a node has
   * not said what it has, where the store is known to have been put back; else until the nodes that are here have caught up.
   */
  held(): (taskId: string) => boolean {
    const isStarted = !this.holds || this.#parts.isStarted()
    const isUntold = this.#untold.size > 0 && this.#parts.nodes().some((peerId) => this.#untold.has(peerId))
    return (taskId) =>
      isStarted ? isUntold && this.#held.has(taskId) : this.#untold.size > 0 || this.#waited.has(taskId)
  }

  /** Whether a task may wait for what the nodes have, whoever answers. */
  get holds(): boolean {
    return this.#waited.size > 0 || this.#untold.size > 0
  }

  /** The node has caught up: whatever it had to say is here. */
  told(peerId: string): void {
    this.#told.add(peerId)
    if (!this.#untold.has(peerId)) return
    void this.#parts.engine.transact((tx) => {
      this.#untold.delete(peerId)
      this.#keep(tx)
    })
  }

  /** Attempts in doubt that no inventory has named since: the node is asked for each by its id. */
  askAgain(peerId: string): void {
    const { agents, engine } = this.#parts
    // What began with this very link has just been asked.
    if (this.#justRestarted.delete(peerId)) return
    const open = agents.inDoubtOn(peerId)
    if (open.length === 0) return
    void engine.transact((tx) => {
      for (const { agent, attempt } of agents.inDoubtOn(peerId)) {
        const task = taskOf(agent, attempt)
        if (task !== undefined) this.#recall(tx, peerId, refOf(agent, task, attempt))
      }
    })
  }

  #begin(tx: Transaction, incarnation: number): void {
    if (incarnation <= this.#incarnation) return
    const { agents, mailbox } = this.#parts
    this.#incarnation = incarnation
    this.#beganAtMs = this.#parts.clock.nowMs()
    for (const peerId of this.#parts.nodes()) if (!this.#told.has(peerId)) this.#untold.add(peerId)
    this.#held.clear()
    for (const agent of agents.queued()) this.#held.add(currentTask(agent).taskId)
    this.#keep(tx)
    mailbox.restored(tx, incarnation)
    agents.doubt(tx, 'hub')
    const text =
      'The store of this hub was put back to an earlier time. Its nodes are asked for what they have: results that may have been read before come with maybe_seen: true, and agents of which only their node knew are listed again.'
    mailbox.deliverEvent(tx, { source: 'hub', text })
    const { lost } = this.#parts.store
    if (lost.length > 0) mailbox.deliverEvent(tx, { source: 'hub', text: lossText(lost) })
  }

  #keep(tx: Transaction): void {
    const record: RestoredRecord = { incarnation: this.#incarnation, untold: [...this.#untold], held: [...this.#held] }
    tx.put(keys.restored, encodeRecord(record))
  }

  #isForgotten({ ref }: Inventory['attempts'][number]): boolean {
    const { agents } = this.#parts
    if (!hasIds(ref) || !agents.isReadable(ref.agentId)) return false
    const task = agents.get(ref.agentId)?.tasks.find(({ taskId }) => taskId === ref.taskId)
    return task?.attempts.some(({ attemptId }) => attemptId === ref.attemptId) !== true
  }

  /** What no page named is asked for by its id: the node proves that nothing of it runs. */
  #settle(tx: Transaction, peerId: string, { orphans, attempts }: Inventory): void {
    const named = new Set([...orphans, ...attempts.map(({ ref }) => ref.attemptId)])
    for (const { agent, attempt } of this.#parts.agents.inDoubtOn(peerId)) {
      const task = taskOf(agent, attempt)
      if (task === undefined || named.has(attempt.attemptId)) continue
      this.#recall(tx, peerId, refOf(agent, task, attempt))
    }
  }

  /** The same claim once more: the node finds the folder and goes on with what its journal says. */
  #claimAgain(tx: Transaction, peerId: string, attemptId: string): void {
    const { store, agents, engine, send } = this.#parts
    const found = agents.inDoubtOn(peerId).find(({ attempt }) => attempt.attemptId === attemptId)
    const task = found === undefined ? undefined : taskOf(found.agent, found.attempt)
    if (found === undefined || task === undefined) return
    const { agent, attempt } = found
    const work = async (): Promise<void> => {
      const brief = await store.get(keys.brief(task.taskId))
      if (brief === undefined) return
      await engine.transact((tx) => {
        send(tx, peerId, {
          type: 'claim',
          commandId: `${attemptId}.claim`,
          ref: refOf(agent, task, attempt),
          turn: task.turn,
          request: { brief: new TextDecoder('utf-8', { ignoreBOM: true }).decode(brief), ...agent.settings },
          lostAfterMs: agent.lostAfterMs,
          ...(agent.title === undefined ? {} : { title: agent.title }),
          ...(agent.filters.dir === undefined ? {} : { dir: agent.filters.dir }),
          ...(task.turn > 1 && agent.sessionId !== undefined ? { resumeSessionId: agent.sessionId } : {}),
        })
        agents.tellAgain(tx, agent, { task, attempt })
      })
    }
    // Should the process end before it, the next session asks for the attempt by its id, and is told of the folder again.
    tx.afterDurable(() => void work().catch(() => undefined))
  }

  #recall(tx: Transaction, peerId: string, ref: AttemptRef): void {
    this.#parts.send(tx, peerId, { type: 'recall', commandId: `${ref.attemptId}.recall`, ref })
  }

  #find(peerId: string, ref: AttemptRef) {
    const agent = this.#parts.agents.get(ref.agentId)
    const task = agent?.tasks.find((candidate) => candidate.taskId === ref.taskId)
    const attempt = task?.attempts.find((candidate) => candidate.attemptId === ref.attemptId)
    if (agent === undefined || task === undefined || attempt?.peerId !== peerId) return undefined
    return { agent, task, attempt }
  }
}

/** What a repair could not keep, as its own report has it. */
function lossText(lost: Store['lost']): string {
  const parts = lost.map(({ found, from, to }) => (from === undefined ? found : `${from} to ${to ?? from}: ${found}`))
  return `The store of this hub was repaired, and not all of it could be kept. Lost: ${parts.join('; ')}`.slice(
    0,
    4_000,
  )
}

/** Nothing more is expected of it: its end is here, and its receipt. */
function isSettled({ task, attempt }: { readonly task: Agent['tasks'][number]; readonly attempt: Attempt }): boolean {
  return attempt.phase === 'declined' || (attempt.phase === 'ended' && task.receiptId !== undefined)
}

function taskOf(agent: Agent, attempt: Attempt): Agent['tasks'][number] | undefined {
  return agent.tasks.find((task) => task.attempts.some((one) => one.attemptId === attempt.attemptId))
}

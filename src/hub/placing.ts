import { clip } from '../core/clip.ts'
import { whyGone } from '../core/membership.ts'
import { type Decline, giveUp, type NodeView, type Placement, place, type Wish } from '../core/placement.ts'
import { type Agent, currentTask } from '../core/task-record.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Engine, Transaction } from '../runtime/engine.ts'
import type { Agents } from './agents.ts'
import type { Nodes } from './nodes.ts'

export interface PlacingParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly agents: Agents
  readonly nodes: Nodes
  readonly probe: (peerIds: readonly string[]) => Promise<void>
  readonly randomId: (prefix: string) => string
  /** Which tasks have to wait now until the nodes have said what they have. */
  readonly held: () => (taskId: string) => boolean
}

/** How long a node that declined for the moment is left alone by that task: doubles with each decline. Milliseconds. */
const restMs = { first: 1_000, cap: 10_000 } as const

/** How often a node that did not answer is asked again while something waits, in milliseconds. */
const askAgainMs = 1_000

/** How long a spawn that is bound to a revoked machine waits for another one of that name to show. In milliseconds. */
const replacedWithinMs = 2_000

interface Rest {
  readonly untilMs: number
  readonly spanMs: number
}

/** Finds places for the tasks that wait, whenever something changed that may let one in. */
export class Placing {
  readonly #parts: PlacingParts
  /** By task: when it has waited long enough, in awake time. After a restart the whole time is granted again (rule 29). */
  readonly #deadlines = new Map<string, number>()
  readonly #rests = new Map<string, Map<string, Rest>>()
  /** Since when machines that something waits for are out of the mesh, as seen here. */
  readonly #goneSinceMs = new Map<string, number>()
  #timer: Timer | undefined
  #isRunning = false
  #isWanted = false
  #isClosed = false

  constructor(parts: PlacingParts) {
    this.#parts = parts
  }

  /** Looks for places soon. Quiet links are probed first: nothing is placed where nobody answers. */
  trigger(): void {
    this.#isWanted = true
    if (!this.#isRunning && !this.#isClosed) void this.#work()
  }

  /** A node has slots again: whoever it declined for want of one may ask at once. */
  rested(peerId: string): void {
    const nowMs = this.#parts.clock.nowMs()
    for (const rests of this.#rests.values()) {
      const rest = rests.get(peerId)
      if (rest !== undefined) rests.set(peerId, { ...rest, untilMs: nowMs })
    }
  }

  /** This process was not running for so long, and nobody waited in that time. */
  postpone(missedMs: number): void {
    for (const [taskId, deadlineMs] of this.#deadlines) this.#deadlines.set(taskId, deadlineMs + missedMs)
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
  }

  /** Probes the links over which nothing was heard for a while. */
  freshen(): Promise<void> {
    return this.#parts.probe(this.#parts.nodes.quiet())
  }

  /**
   * Places what can be placed, and ends what waited long enough, in this transaction.
   *
   * @returns the nodes as they are seen after that
   */
  run(tx: Transaction): readonly NodeView[] {
    const { agents, clock } = this.#parts
    const nowMs = clock.nowMs()
    // What is placed changes one node, and making all views anew for each task that waits is work without end.
    let views = this.#parts.nodes.views()
    const isHeld = this.#parts.held()
    for (const agent of agents.queued()) {
      const taken = this.#placeOne(tx, agent, { nowMs, views, isHeld: isHeld(currentTask(agent).taskId) })
      if (taken !== undefined) views = views.map((view) => (view.peerId === taken ? withOneMore(view) : view))
    }
    this.#forgetDone()
    tx.afterDurable(() => this.#schedule())
    return views
  }

  async #work(): Promise<void> {
    this.#isRunning = true
    try {
      while (this.#isWanted && !this.#isClosed) {
        this.#isWanted = false
        if (this.#parts.agents.queued().length === 0) continue
        await this.freshen()
        await this.#parts.engine.transact((tx) => this.run(tx))
      }
    } catch {
      // The engine has failed, and whoever runs the hub has been told.
    } finally {
      this.#isRunning = false
    }
  }

  /** @returns the node that it was offered to */
  #placeOne(
    tx: Transaction,
    agent: Agent,
    options: { readonly nowMs: number; readonly views: readonly NodeView[]; readonly isHeld: boolean },
  ): string | undefined {
    const { agents, nodes, randomId } = this.#parts
    const { nowMs, views: all, isHeld } = options
    const task = currentTask(agent)
    const deadlineMs = this.#deadlines.get(task.taskId) ?? nowMs + task.timeoutMs
    this.#deadlines.set(task.taskId, deadlineMs)
    const wish = this.#wish(agent, nowMs)
    const views = nodes.candidates(wish.filters.machine, all)
    const found: Placement = isHeld ? { type: 'wait' } : place(wish, views)
    const isLate = nowMs > deadlineMs || (nowMs === deadlineMs && task.declines.length > 0)
    if (found.type === 'place' && !isLate) {
      const { peerId, name } = found
      this.#restAfter(task.taskId, peerId, nowMs)
      agents.apply(tx, agent.agentId, { type: 'placed', attemptId: randomId('att_'), peerId, machine: name })
      return peerId
    }
    if (found.type === 'reject') {
      this.#reject(tx, agent, found)
    } else if (wish.boundTo !== undefined && this.#isGoneForGood(wish.boundTo, nowMs)) {
      this.#reject(tx, agent, revoked(wish.boundTo, nodes))
    } else if (nowMs >= deadlineMs) {
      this.#reject(tx, agent, giveUp(wish, views))
    }
    return undefined
  }

  /** A machine that is replaced is revoked first: whoever gets its name shows a moment later, and is the better reason. */
  #isGoneForGood(peerId: string, nowMs: number): boolean {
    if (this.#parts.nodes.gone(peerId) === undefined) {
      this.#goneSinceMs.delete(peerId)
      return false
    }
    const sinceMs = this.#goneSinceMs.get(peerId) ?? nowMs
    this.#goneSinceMs.set(peerId, sinceMs)
    return nowMs - sinceMs >= replacedWithinMs
  }

  #reject(tx: Transaction, agent: Agent, { reason, declines }: ReturnType<typeof giveUp>): void {
    this.#parts.agents.apply(tx, agent.agentId, { type: 'unplaced', reason, declines: declines.map(bounded) })
  }

  #wish(agent: Agent, nowMs: number): Wish {
    const task = currentTask(agent)
    const rests = [...(this.#rests.get(task.taskId) ?? [])]
    const resting = new Set(rests.filter(([, rest]) => rest.untilMs > nowMs).map(([peerId]) => peerId))
    return { ...wishOf(agent), declines: task.declines, resting }
  }

  /** Should the node decline, it is not asked again at once. */
  #restAfter(taskId: string, peerId: string, nowMs: number): void {
    const rests = this.#rests.get(taskId) ?? new Map<string, Rest>()
    const spanMs = Math.min(restMs.cap, (rests.get(peerId)?.spanMs ?? restMs.first / 2) * 2)
    rests.set(peerId, { untilMs: nowMs + spanMs, spanMs })
    this.#rests.set(taskId, rests)
  }

  #forgetDone(): void {
    const { agents } = this.#parts
    const open = new Set(agents.active().map((agent) => currentTask(agent).taskId))
    for (const taskId of this.#deadlines.keys()) if (!open.has(taskId)) this.#deadlines.delete(taskId)
    for (const taskId of this.#rests.keys()) if (!open.has(taskId)) this.#rests.delete(taskId)
  }

  /** Wakes at the next moment at which time alone changes something. */
  #schedule(): void {
    this.#timer?.cancel()
    if (this.#isClosed) return
    const { agents, clock, nodes } = this.#parts
    const nowMs = clock.nowMs()
    const waiting = agents.queued().map((agent) => currentTask(agent).taskId)
    const moments = waiting.flatMap((taskId) => [
      this.#deadlines.get(taskId) ?? nowMs,
      ...[...(this.#rests.get(taskId)?.values() ?? [])].map((rest) => rest.untilMs).filter((atMs) => atMs > nowMs),
    ])
    if (moments.length === 0) return
    for (const sinceMs of this.#goneSinceMs.values()) {
      if (sinceMs + replacedWithinMs > nowMs) moments.push(sinceMs + replacedWithinMs)
    }
    // Nothing tells that a quiet node answers again: it is asked until it does.
    if (nodes.quiet().length > 0) moments.push(nowMs + askAgainMs)
    const delayMs = Math.max(0, Math.min(...moments) - nowMs)
    this.#timer = clock.after(delayMs, () => this.trigger())
  }
}

/** Where an agent's next turn may run: a continuation only where its session and workspace are. */
export function wishOf(agent: Agent): Pick<Wish, 'filters' | 'boundTo'> {
  const isContinuation = agent.sessionId !== undefined && currentTask(agent).turn > 1
  if (isContinuation && agent.home !== undefined) {
    const { dir } = agent.filters
    const filters = { machine: agent.home.machine, labels: {}, requires: [], ...(dir === undefined ? {} : { dir }) }
    return { filters, boundTo: agent.home.peerId }
  }
  return { filters: agent.filters, ...(agent.boundTo === undefined ? {} : { boundTo: agent.boundTo }) }
}

/** The one machine that it may run on is out of the mesh: waiting leads nowhere. */
function revoked(peerId: string, nodes: Nodes): ReturnType<typeof giveUp> {
  const gone = nodes.gone(peerId)
  const machine = gone?.name ?? ''
  const message = `${machine} is no node of the mesh any more: ${whyGone(gone)}.`
  return { reason: 'revoked', declines: [{ peerId, machine, reason: 'revoked', message, isPermanent: true }] }
}

/** A node that was just offered something, until it says what that left free. */
function withOneMore(view: NodeView): NodeView {
  return { ...view, pending: view.pending + 1 }
}

/** A node's words in a result, bounded. */
function bounded(decline: Decline): Decline {
  return { ...decline, message: clip(decline.message, 500) }
}

import { type Attempt, isAlive } from '../core/attempt.ts'
import { NfltrError } from '../core/errors.ts'
import type { Usage } from '../core/model.ts'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import { isOpenAgent } from '../core/task.ts'
import { type Agent, currentTask, isActive, isQueued, usageOf } from '../core/task-record.ts'
import type { Store } from '../ports/store.ts'
import type { Transaction } from '../runtime/engine.ts'
import { type AgentIndexParts, buildIndex } from './agent-index-building.ts'
import { rowOf } from './agent-rows.ts'
import { endedAs, shownWhere } from './agent-state.ts'
import { added, MachineTallies, statesOf, timedTurns } from './machine-tallies.ts'
import { RecentAgents } from './recent-agents.ts'
import {
  type AgentCounts,
  type AgentRow,
  type EndedAs,
  keys,
  type MachineRecord,
  prefixes,
  readRecord,
} from './records.ts'

interface Loaded {
  readonly open: readonly Agent[]
  readonly tallies: MachineTallies
  readonly counts: AgentCounts
}

/** An attempt and whose it is. */
export interface AgentAttempt {
  readonly agent: Agent
  readonly attempt: Attempt
}

/** The open agents as others look at them, each list oldest first. */
interface OpenAgents {
  readonly all: readonly Agent[]
  readonly active: readonly Agent[]
  readonly queued: readonly Agent[]
  /** By PeerId: attempts of current turns that may be running there. */
  readonly alive: ReadonlyMap<string, readonly AgentAttempt[]>
}

/**
 * All agents by their ids. In memory are those that something may still come of, and the last ones that ended; the others are
 * read when they are asked for. A hub keeps the records of a hundred thousand that ended, and starts without them.
 *
 * What it needs to know of them without reading them (which are open, their order, their sums) is on disk beside them, written
 * in the same batches. Where that was not kept, by an earlier version or a store that was put back or repaired, or where it
 * cannot be read, it is made anew out of the agents.
 */
export class AgentIndex {
  readonly #store: Store
  readonly #open: Map<string, Agent>
  readonly #recent = new RecentAgents()
  readonly #tallies: MachineTallies
  /** The open ones in their order, made when they are asked for after one of them changed. */
  #lists: OpenAgents | undefined
  #newestNo: number

  private constructor(store: Store, { open, tallies, counts }: Loaded) {
    this.#store = store
    this.#open = new Map(open.map((agent) => [agent.agentId, agent]))
    this.#tallies = tallies
    this.#newestNo = counts.newestNo
  }

  /** @throws {NfltrError} `store_damaged` where an open agent, or an agent at all while the index is made, cannot be read; `store_newer` */
  static async load(parts: AgentIndexParts): Promise<AgentIndex> {
    const { store, mark } = parts
    const kept = mark.isKept ? await unlessDamaged(() => loadKept(store)) : undefined
    if (kept !== undefined) return new AgentIndex(store, kept)
    await buildIndex(parts)
    const made = await loadKept(store)
    if (made === undefined) throw new NfltrError('store_damaged', 'The index of agents was not as it was just written.')
    return new AgentIndex(store, made)
  }

  /** @throws {NfltrError} `store_damaged`, `store_newer` */
  get(agentId: string): Agent | undefined {
    const known = this.#open.get(agentId) ?? this.#recent.get(agentId)
    if (known !== undefined) return known
    const bytes = this.#store.getSync(keys.agent(agentId))
    if (bytes === undefined) return undefined
    const agent = decodeRecord<Agent>(bytes)
    this.#recent.add(agent)
    return agent
  }

  /** Writes an agent and what follows from it, in one batch. @param before - the agent as it was; undefined for a new one */
  keep(tx: Transaction, agent: Agent, before: Agent | undefined): void {
    const { agentId } = agent
    const wasOpen = before !== undefined && isOpenAgent(before)
    const isOpenNow = isOpenAgent(agent)
    tx.put(keys.agent(agentId), encodeRecord(agent))
    this.#recent.holdUntilDurable(tx, agentId)
    if (isOpenNow || wasOpen) this.#lists = undefined
    if (isOpenNow) {
      this.#open.set(agentId, agent)
      this.#recent.delete(agentId)
    } else {
      this.#open.delete(agentId)
      this.#recent.add(agent)
    }
    if (before !== undefined && !wasOpen) this.#tallies.count(before, -1)
    if (!isOpenNow) this.#tallies.count(agent, 1)
    for (const turn of timedTurns(before, agent)) this.#tallies.time(turn)
    this.#tallies.write(tx)
    if (isOpenNow && !wasOpen) tx.put(keys.openAgent(agentId), encodeRecord({ no: agent.no }))
    if (!isOpenNow && wasOpen) tx.delete(keys.openAgent(agentId))
    if (before === undefined || (!isOpenNow && (wasOpen || !isSame(endedAs(before), endedAs(agent))))) {
      tx.put(keys.agentNo(agent.no), encodeRecord(rowOf(agent)))
    }
    if (before !== undefined && isOpenNow === wasOpen) return
    this.#newestNo = Math.max(this.#newestNo, agent.no)
    tx.put(keys.agents, encodeRecord({ newestNo: this.#newestNo, open: this.#open.size } satisfies AgentCounts))
  }

  /** Agents with a turn that has not ended, or an attempt whose end was never told; oldest first. */
  open(): readonly Agent[] {
    return this.#openAgents().all
  }

  /** Agents whose turn has not ended, oldest first. */
  active(): readonly Agent[] {
    return this.#openAgents().active
  }

  /** Agents that wait for a place, oldest first. */
  queued(): readonly Agent[] {
    return this.#openAgents().queued
  }

  /** Attempts of current turns that may be running on this node, as far as the hub knows. */
  aliveOn(peerId: string): readonly AgentAttempt[] {
    return this.#openAgents().alive.get(peerId) ?? none
  }

  /** Nodes on which attempts of current turns may be running. */
  workedOn(): Iterable<string> {
    return this.#openAgents().alive.keys()
  }

  #openAgents(): OpenAgents {
    this.#lists ??= listsOf([...this.#open.values()].sort((a, b) => a.no - b.no))
    return this.#lists
  }

  /**
   * Agents below a number, newest first.
   *
   * @param mayBe - tells by what is on record of one that ended whether it is worth reading; the caller looks once more
   */
  async *newestFirst(below: number, mayBe: (ended: EndedAs) => boolean): AsyncGenerator<Agent> {
    const from = Number.isFinite(below) ? { from: keys.agentNo(below - 1) } : {}
    for await (const { value } of this.#store.scan(prefixes.agentNo, from)) {
      const { agentId, ended } = decodeRecord<AgentRow>(value)
      const isHere = this.#open.has(agentId)
      if (!isHere && ended !== undefined && !mayBe(ended)) continue
      const agent = this.get(agentId)
      if (agent !== undefined) yield agent
    }
  }

  /**
   * How many agents are in each state.
   *
   * @param isGone - whether a machine left: what is idle there cannot go on
   */
  states(isGone: (peerId: string) => boolean): Readonly<Record<string, number>> {
    const states = statesOf(this.#tallies.all(), isGone)
    for (const agent of this.#open.values()) {
      const shown = shownWhere(endedAs(agent), isGone)
      states.set(shown, (states.get(shown) ?? 0) + 1)
    }
    return Object.fromEntries(states)
  }

  /** What all turns of all agents used. */
  usage(): Usage {
    const sums = [...this.machines().map(({ usage }) => usage), ...[...this.#open.values()].map(usageOf)]
    const [first = { inputTokens: 0, outputTokens: 0, costUsd: 0, durationMs: 0 }, ...rest] = sums
    return rest.reduce((sum, one) => added(sum, one, 1), first)
  }

  /** What is known of each machine from the agents that ended there. */
  machines(): readonly MachineRecord[] {
    return this.#tallies.all()
  }

  /** The number that the next agent takes. */
  get nextNo(): number {
    return this.#newestNo + 1
  }
}

const none: readonly AgentAttempt[] = []

function listsOf(all: readonly Agent[]): OpenAgents {
  const active = all.filter(isActive)
  const attempts = active.flatMap((agent) => currentTask(agent).attempts.map((attempt) => ({ agent, attempt })))
  const alive = Map.groupBy(
    attempts.filter(({ attempt }) => isAlive(attempt)),
    ({ attempt }) => attempt.peerId,
  )
  return { all, active, queued: active.filter(isQueued), alive }
}

/** What is on disk, or undefined where it does not hold together. */
async function loadKept(store: Store): Promise<Loaded | undefined> {
  const counts = await readRecord<AgentCounts>(store, keys.agents)
  const ids = await openIds(store)
  if (ids.length !== counts?.open) return undefined
  const open: Agent[] = []
  for (const agentId of ids) {
    const agent = await readRecord<Agent>(store, keys.agent(agentId))
    if (agent === undefined) return undefined
    open.push(agent)
  }
  return { open, tallies: await MachineTallies.load(store), counts }
}

async function openIds(store: Store): Promise<readonly string[]> {
  const ids: string[] = []
  for await (const { key } of store.scan(prefixes.openAgent)) ids.push(key.slice(prefixes.openAgent.length))
  return ids
}

/** An index that cannot be read is as good as none: the agents have all that it says. */
async function unlessDamaged<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof NfltrError && error.code === 'store_damaged') return undefined
    throw error
  }
}

function isSame(a: EndedAs, b: EndedAs): boolean {
  return a.state === b.state && a.peerId === b.peerId
}

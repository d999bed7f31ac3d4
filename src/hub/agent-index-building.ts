import { NfltrError } from '../core/errors.ts'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import { isOpenAgent } from '../core/task.ts'
import type { Agent } from '../core/task-record.ts'
import type { Store } from '../ports/store.ts'
import type { Engine, Transaction } from '../runtime/engine.ts'
import { rowOf } from './agent-rows.ts'
import { MachineTallies, type TimedTurn, timedTurns, timedTurnsMax } from './machine-tallies.ts'
import { type AgentCounts, keys, prefixes } from './records.ts'

/** Agents in one batch: some hundred KiB. */
const batchAgents = 500
const rowsPerBatch = 5_000

export interface AgentIndexParts {
  readonly engine: Engine
  readonly store: Store
  /** Whether the index on disk was kept by every hub that ever worked with this store. */
  readonly mark: { readonly isKept: boolean; set(tx: Transaction, isKept: boolean): void }
}

/**
 * Makes the index of agents anew out of the agents. It counts only once all of it is there: should the process end before,
 * the next start begins again.
 *
 * @throws {NfltrError} `store_damaged` where an agent cannot be read, and then nothing was put in its place
 */
export async function buildIndex({ engine, store, mark }: AgentIndexParts): Promise<void> {
  await engine.transact((tx) => mark.set(tx, false))
  for (const prefix of [prefixes.openAgent, prefixes.agentNo, prefixes.machine]) {
    for (const page of await oldRows(store, prefix)) await engine.transact((tx) => page.map((key) => tx.delete(key)))
  }
  const tallies = new MachineTallies()
  const newest = new NewestTurns()
  let newestNo = 0
  let open = 0
  let batch: Agent[] = []
  const write = (): Promise<void> => {
    const agents = batch
    batch = []
    return engine.transact((tx) => {
      for (const agent of agents) {
        tx.put(keys.agentNo(agent.no), encodeRecord(rowOf(agent)))
        if (isOpenAgent(agent)) tx.put(keys.openAgent(agent.agentId), encodeRecord({ no: agent.no }))
        // Where one could not be read, it may still be there.
        else tx.delete(keys.openAgent(agent.agentId))
      }
    })
  }
  for await (const agent of agentsOf(store)) {
    newestNo = Math.max(newestNo, agent.no)
    if (isOpenAgent(agent)) open += 1
    else tallies.count(agent, 1)
    for (const turn of timedTurns(undefined, agent)) newest.add(turn)
    batch.push(agent)
    if (batch.length === batchAgents) await write()
  }
  await write()
  await engine.transact((tx) => {
    for (const turn of newest.inOrder()) tallies.time(turn)
    tallies.write(tx)
    tx.put(keys.agents, encodeRecord({ newestNo, open } satisfies AgentCounts))
    mark.set(tx, true)
  })
}

/** The newest turns of each machine, out of turns in no order. */
class NewestTurns {
  readonly #turns = new Map<string, TimedTurn[]>()

  add(turn: TimedTurn): void {
    const known = this.#turns.get(turn.peerId) ?? []
    this.#turns.set(turn.peerId, known)
    known.push(turn)
    if (known.length >= 8 * timedTurnsMax) known.sort(byEnd).splice(0, known.length - timedTurnsMax)
  }

  /** Oldest first. */
  inOrder(): readonly TimedTurn[] {
    return [...this.#turns.values()].flat().sort(byEnd)
  }
}

function byEnd(a: TimedTurn, b: TimedTurn): number {
  return a.endedAtMs - b.endedAtMs
}

async function* agentsOf(store: Store): AsyncGenerator<Agent> {
  for await (const { value } of store.scan(prefixes.agent)) yield decodeRecord<Agent>(value)
}

/** Rows of an index that does not count any more. Those that cannot be read are written over, or stay without a meaning. */
async function oldRows(store: Store, prefix: string): Promise<readonly (readonly string[])[]> {
  const pages: string[][] = []
  try {
    for await (const { key } of store.scan(prefix)) {
      const page = pages.at(-1)
      if (page === undefined || page.length >= rowsPerBatch) pages.push([key])
      else page.push(key)
    }
  } catch (error) {
    if (!(error instanceof NfltrError && error.code === 'store_damaged')) throw error
  }
  return pages
}

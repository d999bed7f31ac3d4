import { type AgentState, noUsage, type Usage } from '../core/model.ts'
import { encodeRecord } from '../core/record-json.ts'
import { type Agent, usageOf } from '../core/task-record.ts'
import type { Store } from '../ports/store.ts'
import type { Transaction } from '../runtime/engine.ts'
import { endedAs, shownWhere } from './agent-state.ts'
import { keys, type MachineRecord, prefixes, readAll } from './records.ts'

/** Turns per machine that an estimate rests on, the newest ones. */
export const timedTurnsMax = 32

/** A turn that ran to its end on a machine, and how long it took. */
export interface TimedTurn {
  readonly peerId: string
  readonly endedAtMs: number
  readonly spanMs: number
}

/**
 * Sums over all agents that ended, by the machine that has them: who attaches to a hub asks for these first, and no hub reads
 * a hundred thousand agents for that. Kept in the batches of the changes that they follow from.
 */
export class MachineTallies {
  readonly #records: Map<string, MachineRecord>
  readonly #changed = new Set<string>()

  constructor(records: readonly MachineRecord[] = []) {
    this.#records = new Map(records.map((record) => [record.peerId, record]))
  }

  /** @throws {NfltrError} `store_damaged`, `store_newer` */
  static async load(store: Store): Promise<MachineTallies> {
    return new MachineTallies(await readAll<MachineRecord>(store, prefixes.machine))
  }

  all(): readonly MachineRecord[] {
    return [...this.#records.values()]
  }

  /** Takes an agent that has ended in, or out again when it goes on. */
  count(agent: Agent, sign: 1 | -1): void {
    const { state, peerId } = endedAs(agent)
    const record = this.#of(peerId)
    const states = { ...record.states, [state]: (record.states[state] ?? 0) + sign }
    this.#set({ ...record, states, usage: added(record.usage, usageOf(agent), sign) })
  }

  /** Keeps how long a turn took; of a machine's turns the newest come last. */
  time({ peerId, spanMs }: TimedTurn): void {
    const record = this.#of(peerId)
    this.#set({ ...record, spansMs: [...record.spansMs, spanMs].slice(-timedTurnsMax) })
  }

  /** Writes what changed since the last time. */
  write(tx: Transaction): void {
    for (const peerId of this.#changed) tx.put(keys.machine(peerId), encodeRecord(this.#of(peerId)))
    this.#changed.clear()
  }

  #of(peerId: string): MachineRecord {
    return this.#records.get(peerId) ?? { peerId, states: {}, usage: noUsage, spansMs: [] }
  }

  #set(record: MachineRecord): void {
    this.#records.set(record.peerId, record)
    this.#changed.add(record.peerId)
  }
}

/** Turns of an agent that ran to their end and have their receipt only now: only those say how long such a turn takes. */
export function timedTurns(before: Agent | undefined, { home, tasks }: Agent): readonly TimedTurn[] {
  if (home === undefined) return []
  const known = new Set(before?.tasks.flatMap((task) => (task.receiptId === undefined ? [] : [task.taskId])))
  return tasks.flatMap(({ taskId, times: { progress }, end, receiptId }) => {
    if (known.has(taskId) || receiptId === undefined || end?.outcome !== 'completed') return []
    if (progress === undefined || end.atMs < progress) return []
    return [{ peerId: home.peerId, endedAtMs: end.atMs, spanMs: end.atMs - progress }]
  })
}

/** How many agents are in each state, of machines of which some may have left: what is idle there cannot go on. */
export function statesOf(
  records: readonly MachineRecord[],
  isGone: (peerId: string) => boolean,
): Map<AgentState, number> {
  const states = new Map<AgentState, number>()
  for (const { peerId, states: counts } of records) {
    for (const [state, count] of Object.entries(counts) as [AgentState, number][]) {
      const shown = shownWhere({ state, peerId }, isGone)
      if (count > 0) states.set(shown, (states.get(shown) ?? 0) + count)
    }
  }
  return states
}

/** Costs are sums of fractions: what is taken away again must not leave a trace of rounding. */
export function added(sum: Usage, one: Usage, sign: 1 | -1): Usage {
  return {
    inputTokens: sum.inputTokens + sign * one.inputTokens,
    outputTokens: sum.outputTokens + sign * one.outputTokens,
    costUsd: Math.round((sum.costUsd + sign * one.costUsd) * 1e9) / 1e9,
    durationMs: sum.durationMs + sign * one.durationMs,
  }
}

import { type Agent, currentTask, liveAttempt } from '../core/task-record.ts'
import type { MachineRecord } from './records.ts'

/** Estimates from how long the newest turns of each machine took. Times are those of the hub's wall clock. */
export class TurnTimes {
  readonly #medianMs: ReadonlyMap<string, number>

  constructor(machines: readonly MachineRecord[]) {
    this.#medianMs = new Map(machines.flatMap(({ peerId, spansMs }) => medianOf(spansMs, peerId)))
  }

  /**
   * When a running turn may end, if it takes as long as half of the past turns of its machine did.
   *
   * @returns `undefined` where nothing is known, and where it has taken longer than that already
   */
  endsAtMs(agent: Agent, nowMs: number): number | undefined {
    const peerId = liveAttempt(agent)?.peerId
    const startedAtMs = currentTask(agent).times.progress
    if (peerId === undefined || startedAtMs === undefined) return undefined
    const medianMs = this.#medianMs.get(peerId)
    if (medianMs === undefined) return undefined
    const endsAtMs = startedAtMs + medianMs
    return endsAtMs > nowMs ? endsAtMs : undefined
  }
}

function medianOf(spans: readonly number[], peerId: string): readonly (readonly [string, number])[] {
  const sorted = spans.toSorted((a, b) => a - b)
  const median = sorted[Math.floor(sorted.length / 2)]
  return median === undefined ? [] : [[peerId, median]]
}

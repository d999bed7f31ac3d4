import { type Agent, currentTask, liveAttempt } from '../core/task-record.ts'

/** Turns per machine that an estimate rests on, the newest ones. */
const turnsMax = 32

/** Reads the past once, and estimates from it. Times are those of the hub's wall clock. */
export class TurnTimes {
  readonly #medianMs: ReadonlyMap<string, number>

  /** @param agents - every agent, oldest first */
  constructor(agents: readonly Agent[]) {
    const spans = new Map<string, number[]>()
    for (const agent of agents.toReversed()) {
      const peerId = agent.home?.peerId
      if (peerId === undefined) continue
      const known = spans.get(peerId) ?? []
      spans.set(peerId, known)
      for (const task of agent.tasks.toReversed()) {
        const { times, end, receiptId } = task
        // Only what ran to its end and has a receipt says how long such a turn takes.
        if (known.length >= turnsMax || receiptId === undefined || end?.outcome !== 'completed') continue
        if (times.progress !== undefined && end.atMs >= times.progress) known.push(end.atMs - times.progress)
      }
    }
    this.#medianMs = new Map([...spans].flatMap(([peerId, known]) => medianOf(known, peerId)))
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

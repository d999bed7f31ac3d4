import type { Engine } from '../runtime/engine.ts'
import type { Agents } from './agents.ts'
import type { Accepted } from './sessions.ts'

/** A node of the first version left out what was more than this, and did not say so. */
const firstInventoryMax = 1_000

/** Attempts that a node has taken in, as far as this hub knows. */
export function believedOn(agents: Agents, peerId: string): ReadonlySet<string> {
  const alive = agents.aliveOn(peerId).filter(({ attempt }) => attempt.phase !== 'offered')
  return new Set(alive.map(({ attempt }) => attempt.attemptId))
}

/**
 * Compares what this hub believed when the session was opened with what the node had then, once both have heard everything
 * the other had to say. An attempt that the node had claimed and no longer knows of is gone: the node is here and has
 * nothing of it.
 */
export function reconcile(
  { engine, agents }: { readonly engine: Engine; readonly agents: Agents },
  peerId: string,
  { accepted, believed }: { readonly accepted: Accepted; readonly believed: ReadonlySet<string> },
): void {
  noteReturned({ engine, agents }, peerId, accepted)
  // What is missing from a part of an inventory proves nothing.
  if (accepted.isInventoryCut === true || accepted.inventory.length >= firstInventoryMax) return
  const known = new Set(accepted.inventory.map((item) => item.attemptId))
  const gone = agents
    .aliveOn(peerId)
    .filter(({ attempt }) => believed.has(attempt.attemptId) && !known.has(attempt.attemptId))
    // What a store that was put back makes doubtful is settled by the whole inventory.
    .filter(({ attempt }) => attempt.doubts === undefined)
  if (gone.length === 0) return
  void engine.transact((tx) => {
    for (const { agent, attempt } of gone) {
      const message = `${attempt.machine} is here and knows nothing of the attempt.`
      const event = { type: 'lost', ground: 'keeper_gone', message } as const
      agents.apply(tx, agent.agentId, { type: 'attempt', attemptId: attempt.attemptId, event })
    }
  })
}

/** Turns that were counted lost and run on all the same, as the node says that is back; and those that no longer do. */
function noteReturned(
  { engine, agents }: { readonly engine: Engine; readonly agents: Agents },
  peerId: string,
  accepted: Accepted,
): void {
  const running = new Set(accepted.inventory.filter(({ state }) => state !== 'ended').map((item) => item.attemptId))
  const changed = agents
    .lostOn(peerId)
    .filter(({ attempt }) => running.has(attempt.attemptId) !== (attempt.isBack === true))
  if (changed.length === 0) return
  void engine.transact((tx) => {
    for (const { agent, attempt } of changed) {
      const event = { type: 'returned', isRunning: running.has(attempt.attemptId) } as const
      agents.apply(tx, agent.agentId, { type: 'attempt', attemptId: attempt.attemptId, event })
    }
  })
}

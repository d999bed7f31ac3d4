import type { Check } from '../check.ts'

/**
 * Every spawn that was answered has its agent, the turns of an agent are numbered 1, 2, 3 …, and every turn that is over ended in
 * exactly one outcome (D10).
 */
export const oneOutcome: Check = {
  name: 'one-outcome',
  begin() {
    const answered: { readonly hubId: string; readonly mark: string; readonly agentId: string }[] = []
    const turns = new Map<string, Turn>()
    const agents = new Set<string>()
    const ends = new Map<string, number>()
    /** Where in its hub's history a turn ended, and up to where that history was over when the record was begun to be read. */
    const endedAt = new Map<string, number>()
    const recordedUpTo = new Map<string, number>()
    const isSince = (key: string, hubId: string): boolean =>
      (endedAt.get(key) ?? 0) > (recordedUpTo.get(hubId) ?? Number.POSITIVE_INFINITY)
    return {
      see(event, fail) {
        if (event.type === 'spawn_answered') answered.push(event)
        if (event.type === 'agent_kept') {
          const { hubId, agentId, tasks } = event
          agents.add(`${hubId} ${agentId}`)
          const wrong = tasks.find(({ turn }, index) => turn !== index + 1)
          if (wrong !== undefined) fail({ agentId, message: `${agentId} has turn ${wrong.turn} out of its place` })
          for (const { taskId, turn, deliveryId } of tasks) {
            turns.set(`${hubId} ${taskId}`, { hubId, agentId, turn, isOver: deliveryId !== undefined })
          }
        }
        if (event.type === 'history_read') recordedUpTo.set(event.hubId, event.recordedUpTo)
        if (event.type === 'decided' && event.event.type === 'result' && event.event.isLate !== true) {
          endedAt.set(`${event.hubId} ${event.event.taskId}`, event.event.seq)
        }
        if (event.type === 'entry_kept' && event.result !== undefined && !event.result.isLate) {
          const key = `${event.hubId} ${event.result.taskId}`
          ends.set(key, (ends.get(key) ?? 0) + 1)
        }
      },
      end(fail) {
        for (const { hubId, mark, agentId } of answered) {
          if (agents.has(`${hubId} ${agentId}`)) continue
          fail({ agentId, message: `${hubId} answered the spawn ${mark} with ${agentId} and has no such agent` })
        }
        for (const [key, { hubId, agentId, turn, isOver }] of turns) {
          const count = ends.get(key) ?? 0
          // Agents are read before entries: of a hub that works on, a turn may have ended in between.
          if (!isOver && count === 1 && isSince(key, hubId)) continue
          if (count !== (isOver ? 1 : 0)) fail({ agentId, message: `turn ${turn} of ${agentId} has ${count} outcomes` })
        }
      },
    }
  },
}

interface Turn {
  readonly hubId: string
  readonly agentId: string
  readonly turn: number
  readonly isOver: boolean
}

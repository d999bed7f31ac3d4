import type { Usage } from '../../core/model.ts'
import type { Check, Watch } from '../check.ts'
import type { KeptEntry } from '../events/records.ts'

/** A result says of machine and usage what the history of its attempt and its agent's record say (D6). */
export const sameFacts: Check = {
  name: 'same-facts',
  begin(): Watch {
    const machines = new Map<string, string>()
    const attempts = new Map<string, string>()
    const usages = new Map<string, Usage>()
    const entries: KeptEntry[] = []
    return {
      see(event) {
        if (event.type === 'entry_kept') entries.push(event)
        if (event.type === 'agent_kept') {
          for (const { deliveryId, usage } of event.tasks.flatMap((task) => task.usages ?? [])) {
            usages.set(`${event.hubId} ${deliveryId}`, usage)
          }
        }
        if (event.type !== 'decided') return
        if (event.event.type === 'attempt_made') machines.set(event.event.attemptId, event.event.machine)
        if (event.event.type !== 'result' || event.event.attemptId === undefined) return
        attempts.set(`${event.hubId} ${event.event.deliveryId}`, event.event.attemptId)
      },
      end(fail) {
        for (const { hubId, deliveryId, agentId, result } of entries) {
          if (result === undefined) continue
          const about = agentId === undefined ? {} : { agentId }
          // A hub that ends a turn by itself may name the machine as the spawn did.
          const isOfNode = result.outcome === 'completed' || result.outcome === 'failed'
          const machine = isOfNode ? machines.get(attempts.get(`${hubId} ${deliveryId}`) ?? '') : undefined
          if (machine !== undefined && result.machine !== undefined && machine !== result.machine) {
            fail({ ...about, message: `entry ${deliveryId} names ${result.machine}, and the turn ran on ${machine}` })
          }
          const usage = usages.get(`${hubId} ${deliveryId}`)
          if (usage === undefined || result.usage === undefined || isSame(usage, result.usage)) continue
          fail({ ...about, message: `entry ${deliveryId} tells of another usage than the end of its turn` })
        }
      },
    }
  },
}

function isSame(one: Usage, other: Usage): boolean {
  return (
    one.inputTokens === other.inputTokens &&
    one.outputTokens === other.outputTokens &&
    one.costUsd === other.costUsd &&
    one.durationMs === other.durationMs
  )
}

import type { Check } from '../check.ts'

/** At most one result is accepted for an attempt, and one more only as a late one (D6). */
export const acceptedOnce: Check = {
  name: 'accepted-once',
  begin() {
    const seen = new Map<string, number>()
    return {
      see(event, fail) {
        if (event.type !== 'entry_kept' || event.result === undefined) return
        const { hubId, deliveryId, agentId, result } = event
        const key = `${result.taskId} attempt ${result.attempt}${result.isLate ? ' (late)' : ''}`
        const other = seen.get(`${hubId} ${key}`)
        seen.set(`${hubId} ${key}`, deliveryId)
        if (other === undefined) return
        const message = `${hubId} accepted ${key} twice, as ${other} and ${deliveryId}`
        fail({ message, ...(agentId === undefined ? {} : { agentId }) })
      },
    }
  },
}

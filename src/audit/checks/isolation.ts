import type { Check } from '../check.ts'

/** No hub hears of another hub's work, and no node does one hub's work for another (I1). */
export const isolation: Check = {
  name: 'isolation',
  begin() {
    const owners = new Map<string, string>()
    return {
      see(event, fail) {
        if (event.type === 'sent' && event.agentId !== undefined) {
          const { agentId, hubId, side, life } = event
          const owner = owners.get(agentId)
          if (owner === undefined && side === 'hub') owners.set(agentId, hubId)
          else if (owner !== hubId) {
            fail({ agentId, message: `${life} spoke of ${agentId} of ${owner ?? 'nobody'} in the session of ${hubId}` })
          }
        }
        if (event.type === 'entry_kept' && event.agentId !== undefined) {
          const { agentId, hubId, deliveryId } = event
          const owner = owners.get(agentId)
          if (owner !== undefined && owner !== hubId) {
            fail({ agentId, message: `${hubId} has ${agentId} of ${owner} in its inbox, as ${deliveryId}` })
          }
        }
        if (event.type === 'agent_kept') {
          const owner = owners.get(event.agentId)
          if (owner !== undefined && owner !== event.hubId) {
            fail({ agentId: event.agentId, message: `${event.hubId} keeps ${event.agentId} of ${owner}` })
          }
        }
      },
    }
  },
}

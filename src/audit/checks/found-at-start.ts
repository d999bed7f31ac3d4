import type { Check } from '../check.ts'

/** Whatever something may still come of is what its hub reads when it starts, and nothing else is. */
export const foundAtStart: Check = {
  name: 'found-at-start',
  begin: () => ({
    see(event, fail) {
      if (event.type !== 'agent_kept' || event.start === undefined) return
      const { agentId, hubId } = event
      const { isOpen, isFound } = event.start
      if (isOpen === isFound) return
      const message = isOpen
        ? `${agentId} is open, and ${hubId} would not find it when it starts`
        : `nothing more comes of ${agentId}, and ${hubId} counts it among the open ones`
      fail({ agentId, message })
    },
  }),
}

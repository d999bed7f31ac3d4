import type { Check } from '../check.ts'

/** A node tells the lines of a log in their order: none is older than one that was told before (C6). */
export const logOrder: Check = {
  name: 'log-order',
  begin() {
    const highest = new Map<string, number>()
    return {
      see(event, fail) {
        if (event.type !== 'line_told' || event.isRepeat) return
        const { life, agentId, seq } = event
        const last = highest.get(agentId) ?? 0
        if (seq <= last) fail({ agentId, message: `${life} told line ${seq} of ${agentId} anew after line ${last}` })
        highest.set(agentId, Math.max(last, seq))
      },
    }
  },
}

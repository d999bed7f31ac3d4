import type { Check } from '../check.ts'

/** A silence that the hub was awake and able to hear is counted, and ends in a loss once it is over its bound (L6, rule 8). */
export const silence: Check = {
  name: 'silence',
  begin: () => ({
    see(event, fail) {
      if (event.type !== 'turn_open' || event.silentMs <= event.lostAfterMs + graceMs) return
      const { agentId, machine, silentMs, lostAfterMs } = event
      const message = `${agentId} may be running on ${machine}, which was silent for ${silentMs} ms; ${lostAfterMs} ms are a loss`
      fail({ agentId, message })
    },
  }),
}

/** The hub looks once a second, and what it decides takes a sync. */
const graceMs = 10_000

import { silentMinMs } from '../../core/lease.ts'
import type { Check } from '../check.ts'

/** A silence that the hub was awake and able to hear is counted, and ends in a loss once it is over its bound (L6, rule 8). */
export const silence: Check = {
  name: 'silence',
  begin: () => ({
    see(event, fail) {
      if (event.type !== 'turn_open') return
      const { agentId, machine, silentMs, lostAfterMs } = event
      if (silentMs <= Math.max(lostAfterMs, silentMinMs) + graceMs) return
      const message = `${agentId} may be running on ${machine}, which was silent for ${silentMs} ms; ${lostAfterMs} ms are a loss`
      fail({ agentId, message })
    },
  }),
}

/** The hub looks once a second, and counts a silence and decides about it in one look. */
const graceMs = 3_000

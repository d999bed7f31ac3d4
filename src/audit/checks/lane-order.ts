import type { Check } from '../check.ts'

/**
 * Messages of a lane are numbered 1, 2, 3 … and say the same whenever they are sent; acknowledgements of one lane never go
 * back (C1, C3).
 */
export const laneOrder: Check = {
  name: 'lane-order',
  begin() {
    const digests = new Map<string, number>()
    const sentUpTo = new Map<string, number>()
    const ackedUpTo = new Map<string, number>()
    return {
      see(event, fail) {
        if (event.type === 'acked') {
          const lane = `${event.process}>${event.remote}`
          const acked = ackedUpTo.get(lane) ?? 0
          if (event.received < acked) {
            fail({ message: `${event.life} acknowledged ${event.received} to ${event.remote} after ${acked}` })
          }
          ackedUpTo.set(lane, event.received)
        }
        if (event.type !== 'sent') return
        const { process, life, remote, no, kind, digest, isReplaced } = event
        const lane = `${process}>${remote}`
        const sent = sentUpTo.get(lane) ?? 0
        if (no > sent + 1) fail({ message: `${life} sent message ${no} to ${remote} after ${sent}` })
        sentUpTo.set(lane, Math.max(sent, no))
        const known = digests.get(`${lane} ${no}`)
        if (known !== undefined && known !== digest && !isReplaced) {
          fail({ message: `${life} sent another message ${no} (${kind}) to ${remote} than before` })
        }
        digests.set(`${lane} ${no}`, digest)
      },
    }
  },
}

import type { Check } from '../check.ts'

/** Nothing leaves a process that a crash could make it forget: no message, and no decision that a message tells of (D4). */
export const sentImpliesDurable: Check = {
  name: 'sent-implies-durable',
  begin: () => ({
    see(event, fail) {
      if (event.type !== 'sent') return
      const { life, no, kind, remote, isKept, missing } = event
      if (!isKept) fail({ message: `${life} sent message ${no} (${kind}) to ${remote} and does not have it on disk` })
      if (missing !== undefined) fail({ message: `${life} sent ${kind} to ${remote} and has not on disk ${missing}` })
    },
  }),
}

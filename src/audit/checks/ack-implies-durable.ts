import type { Check } from '../check.ts'

/** Who acknowledges a message has it on disk: the other side forgets it on that word (D2). */
export const ackImpliesDurable: Check = {
  name: 'ack-implies-durable',
  begin: () => ({
    see(event, fail) {
      if (event.type !== 'acked' || event.durable >= event.received) return
      const { life, received, remote, durable } = event
      fail({ message: `${life} acknowledged ${received} to ${remote} and has ${durable} on disk` })
    },
  }),
}

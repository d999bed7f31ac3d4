import type { Check } from '../check.ts'

/** A sender lets a message go only when its receiver has it on disk; nothing above the confirmed cursor goes (D3, C4). */
export const forgetImpliesAck: Check = {
  name: 'forget-implies-ack',
  begin: () => ({
    see(event, fail) {
      if (event.type !== 'forgotten' || event.no <= event.received) return
      const { process, no, remote, received } = event
      fail({ message: `${process} let message ${no} to ${remote} go, which has ${received} on disk` })
    },
  }),
}

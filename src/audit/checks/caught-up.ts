import type { Check } from '../check.ts'

/** "Caught up" is said only once the last message of the replay is applied, on disk (C5, rule 27). */
export const caughtUp: Check = {
  name: 'caught-up',
  begin: () => ({
    see(event, fail) {
      if (event.type !== 'caught_up' || event.durable >= event.no) return
      const { life, remote, no, durable } = event
      fail({ message: `${life} told ${remote} that it had caught up to ${no}, and has ${durable} on disk` })
    },
  }),
}

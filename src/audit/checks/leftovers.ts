import type { Check } from '../check.ts'

/** No process, attempt or outbox row is left once all work has ended (V2). */
export const leftovers: Check = {
  name: 'leftovers',
  begin: () => ({
    see(event, fail) {
      if (event.type === 'left' && event.what === 'leftover') fail({ message: event.text })
    },
  }),
}

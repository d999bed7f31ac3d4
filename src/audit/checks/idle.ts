import type { Check } from '../check.ts'

/** Idle means: heartbeats and a tick, and nothing else, neither on the wire nor on a disk (V3). */
export const idle: Check = {
  name: 'idle',
  begin: () => ({
    see(event, fail) {
      if (event.type !== 'stirred' || event.count <= event.allowed) return
      const { who, what, count } = event
      fail({ message: `${who}: ${count} ${what} while nothing was to be done` })
    },
  }),
}

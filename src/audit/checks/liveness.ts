import type { Check } from '../check.ts'

/** After everything healed, all work ends and is read, within a bound (V1). */
export const liveness: Check = {
  name: 'liveness',
  begin: () => ({
    see(event, fail) {
      if (event.type === 'left' && event.what === 'work') fail({ message: event.text })
    },
  }),
}

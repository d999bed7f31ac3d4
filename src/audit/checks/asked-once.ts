import type { Check } from '../check.ts'

/** A request that is repeated under its key has one effect: a text that was asked for once stands for one turn (L4, rule 3). */
export const askedOnce: Check = {
  name: 'asked-once',
  begin() {
    const seen = new Set<string>()
    return {
      see(event, fail) {
        if (event.type !== 'brief_kept') return
        const key = `${event.hubId} ${event.text}`
        if (seen.has(key)) fail({ message: `${event.hubId} took one brief in twice: ${event.text.slice(0, 60)}` })
        seen.add(key)
      },
    }
  },
}

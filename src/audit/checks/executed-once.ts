import type { Check } from '../check.ts'

/** A command has its effect at most once: one launch for an attempt, and no text is taken up twice (rules 5, 20, 22). */
export const executedOnce: Check = {
  name: 'executed-once',
  begin() {
    const launched = new Set<string>()
    const taken = new Map<string, string>()
    return {
      see(event, fail) {
        if (event.type === 'launched') {
          if (launched.has(event.attemptId)) fail({ message: `the attempt ${event.attemptId} was launched again` })
          launched.add(event.attemptId)
        }
        if (event.type === 'taken') {
          const { mark, attemptId } = event
          const other = taken.get(mark)
          if (other !== undefined) fail({ message: `${mark} was taken up twice: in ${other} and in ${attemptId}` })
          taken.set(mark, attemptId)
        }
      },
    }
  },
}

import type { Checker } from './checker.ts'

/** A command has its effect at most once: one launch for an attempt, and no text is taken up twice (rules 5, 20, 22). */
export function executedOnce(): Checker {
  return {
    name: 'executed-once',
    atEnd({ deeds }, fail) {
      for (const [attemptId, count] of deeds.launches) {
        if (count > 1) fail(`the attempt ${attemptId} was launched ${count} times`)
      }
      for (const [mark, takings] of deeds.taken) {
        if (takings.length > 1) {
          fail(`${mark} was taken up ${takings.length} times: ${takings.map(({ attemptId }) => attemptId).join(', ')}`)
        }
      }
    },
  }
}

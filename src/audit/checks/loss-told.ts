import type { Check } from '../check.ts'

/** A loss is a result like any other: each attempt that was counted lost ended its turn, and that is an entry (D9). */
export const lossTold: Check = {
  name: 'loss-told',
  begin() {
    const lost = new Map<string, Loss>()
    const recordedUpTo = new Map<string, number>()
    const superseded = new Set<string>()
    const over = new Set<string>()
    const entries = new Set<string>()
    return {
      see(event) {
        if (event.type === 'history_read') recordedUpTo.set(event.hubId, event.recordedUpTo)
        if (event.type === 'entry_kept' && event.result !== undefined) entries.add(event.result.taskId)
        if (event.type !== 'decided') return
        const decision = event.event
        if (decision.type === 'attempt_became') {
          if (decision.phase === 'superseded') superseded.add(decision.attemptId)
          if (decision.phase === 'lost') lost.set(decision.attemptId, { hubId: event.hubId, ...decision })
        }
        if (decision.type === 'result') over.add(decision.taskId)
      },
      end(fail) {
        for (const [attemptId, { hubId, agentId, taskId, seq }] of lost) {
          // Entries are read before the history: of a hub that works on, the loss may be of a moment in between.
          const isSince = seq > (recordedUpTo.get(hubId) ?? Number.POSITIVE_INFINITY)
          if (superseded.has(attemptId) || (over.has(taskId) && (isSince || entries.has(taskId)))) continue
          fail({ agentId, seq, message: `the attempt ${attemptId} was counted lost, and nobody was told` })
        }
      },
    }
  },
}

interface Loss {
  readonly hubId: string
  readonly agentId: string
  readonly taskId: string
  readonly seq: number
}

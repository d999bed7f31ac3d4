import type { HistoryEvent } from '../../core/history.ts'
import type { Check, Fail } from '../check.ts'

type PhaseChange = Extract<HistoryEvent, { type: 'attempt_became' }>

/** What the hub has moved past is never revived, and its late result comes once, marked as late (D8). */
export const leftBehind: Check = {
  name: 'left-behind',
  begin() {
    const past = new Set<string>()
    const late = new Set<string>()
    return {
      see(event, fail) {
        if (event.type !== 'decided') return
        const decision = event.event
        if (decision.type === 'attempt_became') became(past, decision, fail)
        if (decision.type !== 'result' || decision.attemptId === undefined || decision.outcome === 'node_lost') return
        const { attemptId, agentId, seq, isLate } = decision
        if (!past.has(attemptId)) return
        if (isLate !== true)
          fail({ agentId, seq, message: `the result of ${attemptId}, left behind, is not marked as late` })
        if (late.has(attemptId)) fail({ agentId, seq, message: `the late result of ${attemptId} came twice` })
        late.add(attemptId)
      },
    }
  },
}

function became(past: Set<string>, { attemptId, phase, agentId, seq }: PhaseChange, fail: Fail): void {
  if (phase === 'lost' || phase === 'superseded') past.add(attemptId)
  else if (past.has(attemptId) && (phase === 'claimed' || phase === 'running')) {
    fail({ agentId, seq, message: `the attempt ${attemptId} was left behind and became ${phase} again` })
  }
}

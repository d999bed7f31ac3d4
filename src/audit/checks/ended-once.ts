import type { HistoryEvent } from '../../core/history.ts'
import type { Check, Fail } from '../check.ts'

/**
 * What has ended stays so: an attempt has one end and is never live again, a turn that is over gets no further attempt, and no
 * node works on what its hub has settled (D5).
 */
export const endedOnce: Check = {
  name: 'ended-once',
  begin() {
    /** Attempts by how they ended, and turns that are over. */
    const ended = new Map<string, string>()
    const over = new Map<string, number>()
    return {
      see(event, fail) {
        if (event.type === 'decided') {
          decide(ended, over, event.event, fail)
        }
        if (event.type === 'attempt_on_node' && event.isOpen && ended.get(event.attemptId) === 'ended') {
          const { agentId, attemptId, node } = event
          fail({ agentId, message: `the attempt ${attemptId} ended, and ${node} still works on it` })
        }
      },
    }
  },
}

function decide(ended: Map<string, string>, over: Map<string, number>, event: HistoryEvent, fail: Fail): void {
  if (event.type === 'attempt_became') {
    const { attemptId, phase, agentId, seq } = event
    const before = ended.get(attemptId)
    const mayFollow = before === undefined || (before === 'lost' && (phase === 'ended' || phase === 'back'))
    if (!mayFollow && phase !== 'superseded') {
      fail({ agentId, seq, message: `the attempt ${attemptId} became ${phase} after it was ${before}` })
    }
    if (phase === 'ended' || phase === 'declined' || phase === 'lost') ended.set(attemptId, phase)
  }
  // One that was found was given before: it may only be left behind.
  if (event.type === 'attempt_made' && event.found !== 'left_behind') {
    const { taskId, attemptId, agentId, seq } = event
    const endSeq = over.get(taskId)
    if (endSeq !== undefined) {
      fail({
        agentId,
        seq,
        message: `the turn ${taskId} was over at ${endSeq} and was given to the attempt ${attemptId}`,
      })
    }
  }
  if (event.type === 'result' && event.isLate !== true) over.set(event.taskId, over.get(event.taskId) ?? event.seq)
}

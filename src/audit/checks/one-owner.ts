import type { Check } from '../check.ts'

/** A turn has at most one owner at a time, each under a higher epoch than the one before (L1, L2). */
export const oneOwner: Check = {
  name: 'one-owner',
  begin() {
    const turns = new Map<string, { epoch: number; attemptId: string; isAlive: boolean }>()
    return {
      see(event, fail) {
        if (event.type !== 'decided') return
        const decision = event.event
        // One that was found and left behind never becomes the owner.
        if (decision.type === 'attempt_made' && decision.found !== 'left_behind') {
          const { taskId, attemptId, epoch, agentId, seq } = decision
          const last = turns.get(taskId)
          if (last !== undefined && epoch <= last.epoch && decision.found === undefined) {
            fail({
              agentId,
              seq,
              message: `${attemptId} has epoch ${epoch} of ${taskId} after ${last.attemptId} had ${last.epoch}`,
            })
          }
          if (last?.isAlive === true) {
            fail({ agentId, seq, message: `${taskId} was given to ${attemptId} while ${last.attemptId} had it` })
          }
          turns.set(taskId, { epoch: Math.max(epoch, last?.epoch ?? 0), attemptId, isAlive: true })
        }
        if (decision.type === 'attempt_became') {
          const turn = turns.get(decision.taskId)
          const isOver = decision.phase !== 'claimed' && decision.phase !== 'running' && decision.phase !== 'back'
          if (turn?.attemptId === decision.attemptId && isOver) turn.isAlive = false
        }
      },
    }
  },
}

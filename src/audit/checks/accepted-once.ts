import type { Check, Fail } from '../check.ts'
import type { KeptEntry } from '../events/records.ts'

/** At most one result is accepted for an attempt, and one more only as a late one; a turn has one end (D6). */
export const acceptedOnce: Check = {
  name: 'accepted-once',
  begin() {
    const kept = new Map<string, number>()
    const decided = new Map<string, number>()
    return {
      see(event, fail) {
        if (event.type === 'entry_kept') keep(kept, event, fail)
        if (event.type !== 'decided' || event.event.type !== 'result') return
        const { taskId, attemptId, agentId, isLate, seq } = event.event
        const once = (key: string, what: string): void => note(decided, { key, what, agentId, seq }, fail)
        if (isLate !== true) once(`${event.hubId} ${taskId}`, `the end of ${taskId}`)
        if (attemptId !== undefined) once(`${event.hubId} ${attemptId}${isLate === true ? ' late' : ''}`, attemptId)
      },
    }
  },
}

function keep(kept: Map<string, number>, { hubId, deliveryId, agentId, result }: KeptEntry, fail: Fail): void {
  if (result === undefined) return
  const key = `${result.taskId} attempt ${result.attempt}${result.isLate ? ' (late)' : ''}`
  const other = kept.get(`${hubId} ${key}`)
  kept.set(`${hubId} ${key}`, deliveryId)
  if (other === undefined) return
  const message = `${hubId} accepted ${key} twice, as ${other} and ${deliveryId}`
  fail({ message, ...(agentId === undefined ? {} : { agentId }) })
}

function note(
  seen: Map<string, number>,
  {
    key,
    what,
    agentId,
    seq,
  }: { readonly key: string; readonly what: string; readonly agentId: string; readonly seq: number },
  fail: Fail,
): void {
  const other = seen.get(key)
  if (other !== undefined)
    fail({ agentId, seq, message: `a result of ${what} was accepted at ${other} and again at ${seq}` })
  seen.set(key, seq)
}

import type { HistoryEvent } from '../../core/history.ts'
import type { Check, Fail, Watch } from '../check.ts'
import type { KeptAttempt, KeptEntry, KeptTask } from '../events/records.ts'
import type { AuditEvent } from '../events.ts'

/** What is on record is what the history tells of, and all of it is: nothing came to be or went away beside it. */
export const historyComplete: Check = { name: 'history-complete', begin: () => new Comparison() }

interface Told {
  readonly seq: number
  readonly agentId?: string
  readonly what: string
}

interface HubAccount {
  readonly entries: Map<number, KeptEntry>
  readonly tasks: Map<string, { readonly agentId: string; readonly no: number; readonly task: KeptTask }>
  readonly toldEntries: Map<number, Told>
  readonly toldTurns: Map<string, Told>
  /** By attempt, the phase that the history tells last, and where. */
  readonly toldPhases: Map<string, { readonly phase: string; readonly seq: number }>
  readonly toldReceipts: Map<string, string>
  inherited: { readonly lastAgentNo: number; readonly nextDeliveryId: number }
  /** Above it is what the hub went on to decide while it was read. */
  recordedUpTo: number | undefined
}

class Comparison implements Watch {
  readonly #hubs = new Map<string, HubAccount>()

  see(event: AuditEvent): void {
    switch (event.type) {
      case 'agent_kept':
        for (const task of event.tasks) {
          this.#of(event.hubId).tasks.set(task.taskId, { agentId: event.agentId, no: event.no, task })
        }
        break
      case 'entry_kept':
        this.#of(event.hubId).entries.set(event.deliveryId, event)
        break
      case 'decided':
        decided(this.#of(event.hubId), event.event)
        break
      case 'history_read':
        this.#of(event.hubId).recordedUpTo = event.recordedUpTo
        break
      default:
    }
  }

  end(fail: Fail): void {
    for (const [hubId, account] of this.#hubs) {
      if (account.recordedUpTo === undefined) continue
      checkEntries(hubId, account, fail)
      checkTurns(hubId, account, fail)
    }
  }

  #of(hubId: string): HubAccount {
    const known = this.#hubs.get(hubId)
    if (known !== undefined) return known
    const fresh: HubAccount = {
      entries: new Map(),
      tasks: new Map(),
      toldEntries: new Map(),
      toldTurns: new Map(),
      toldPhases: new Map(),
      toldReceipts: new Map(),
      inherited: { lastAgentNo: 0, nextDeliveryId: 1 },
      recordedUpTo: undefined,
    }
    this.#hubs.set(hubId, fresh)
    return fresh
  }
}

function decided(account: HubAccount, event: HistoryEvent): void {
  const { seq } = event
  switch (event.type) {
    case 'inherited':
      account.inherited = event
      break
    case 'turn_asked':
      account.toldTurns.set(event.taskId, { seq, agentId: event.agentId, what: `turn ${event.turn}` })
      break
    case 'attempt_made':
      account.toldPhases.set(event.attemptId, { phase: 'offered', seq })
      break
    case 'attempt_became':
      if (event.phase !== 'superseded' && event.phase !== 'back') {
        account.toldPhases.set(event.attemptId, { phase: event.phase, seq })
      }
      break
    case 'receipt_taken':
      account.toldReceipts.set(event.taskId, event.receiptId)
      break
    case 'result': {
      const { agentId, taskId, outcome, isLate } = event
      const what = `result ${taskId} ${outcome}${isLate === true ? ' late' : ''}`
      account.toldEntries.set(event.deliveryId, { seq, agentId, what })
      break
    }
    case 'entry_added': {
      const about = event.agentId === undefined ? {} : { agentId: event.agentId }
      account.toldEntries.set(event.deliveryId, { seq, ...about, what: event.kind })
      break
    }
    default:
  }
}

function whatOf({ kind, result }: KeptEntry): string {
  return result === undefined ? kind : `result ${result.taskId} ${result.outcome}${result.isLate ? ' late' : ''}`
}

function checkEntries(
  hubId: string,
  { entries, toldEntries, inherited, recordedUpTo = 0 }: HubAccount,
  fail: Fail,
): void {
  for (const [deliveryId, entry] of entries) {
    if (deliveryId < inherited.nextDeliveryId) continue
    const about = entry.agentId === undefined ? {} : { agentId: entry.agentId }
    const told = toldEntries.get(deliveryId)
    const what = whatOf(entry)
    if (told === undefined)
      fail({ ...about, message: `entry ${deliveryId} of ${hubId} (${what}) is not in its history` })
    else if (told.what !== what) {
      fail({ ...about, seq: told.seq, message: `entry ${deliveryId} is ${what}, and was ${told.what} by the history` })
    }
  }
  for (const [deliveryId, { seq, agentId, what }] of toldEntries) {
    if (seq > recordedUpTo || entries.has(deliveryId)) continue
    const about = agentId === undefined ? {} : { agentId }
    fail({ ...about, seq, message: `entry ${deliveryId} of ${hubId} (${what}) is not on record any more` })
  }
}

function checkTurns(hubId: string, account: HubAccount, fail: Fail): void {
  const { tasks, toldTurns, toldEntries, toldReceipts, inherited, recordedUpTo = 0 } = account
  for (const { agentId, no, task } of tasks.values()) {
    if (no <= inherited.lastAgentNo) continue
    if (!toldTurns.has(task.taskId)) {
      fail({ agentId, message: `turn ${task.turn} of ${agentId} is not in the history of ${hubId}` })
    }
    if (task.deliveryId !== undefined && !toldEntries.has(task.deliveryId)) {
      fail({ agentId, message: `turn ${task.turn} of ${agentId} ended, and the history of ${hubId} does not say how` })
    }
    if (task.receiptId !== undefined && toldReceipts.get(task.taskId) !== task.receiptId) {
      fail({ agentId, message: `the receipt of turn ${task.turn} of ${agentId} is not the one in the history` })
    }
    for (const attempt of task.attempts) checkPhase(account, agentId, attempt, fail)
  }
  for (const [taskId, { seq, agentId = '', what }] of toldTurns) {
    if (seq > recordedUpTo || tasks.has(taskId)) continue
    fail({ agentId, seq, message: `${what} of ${agentId} is not on record any more` })
  }
}

function checkPhase(account: HubAccount, agentId: string, { attemptId, phase }: KeptAttempt, fail: Fail): void {
  const told = account.toldPhases.get(attemptId)
  if (told?.phase === phase) return
  // Of a hub that goes on deciding, the history is read last: it may be ahead of the record of what is not over for good.
  const isOver = phase === 'ended' || phase === 'declined'
  if (!isOver && told !== undefined && told.seq > (account.recordedUpTo ?? 0)) return
  fail({ agentId, message: `the attempt ${attemptId} is ${phase}, and ${told?.phase ?? 'nothing'} by the history` })
}

import { chainedText, emptyHistoryHash } from '../core/history.ts'
import type { AccountEntry, AccountLine, HistoryHead } from '../core/hub-account.ts'
import { isOpenAgent } from '../core/task.ts'
import type { Agent } from '../core/task-record.ts'
import type { KeptEntry, KeptTask } from './events/records.ts'
import type { AuditEvent } from './events.ts'

/** Turns what a hub has on record into events, line by line. Receipts are the caller's: it takes a key to check one. */
export class AccountReader {
  readonly #hubId: string
  readonly #sha256: (text: string) => string
  #recordedUpTo: number | undefined
  #head: HistoryHead | undefined
  #previousHash = emptyHistoryHash

  /** @param sha256 over a text's UTF-8 bytes, as hex */
  constructor(hubId: string, sha256: (text: string) => string) {
    this.#hubId = hubId
    this.#sha256 = sha256
  }

  /** The head of a page, before its lines. */
  page(head: HistoryHead): void {
    this.#recordedUpTo ??= head.seq
    this.#head = head
  }

  read(line: AccountLine): AuditEvent | undefined {
    const hubId = this.#hubId
    switch (line.part) {
      case 'agent':
        return agentOf(hubId, line)
      case 'entry':
        return entryOf(hubId, line)
      case 'log':
        return { type: 'line_kept', hubId, agentId: line.agentId, seq: line.seq }
      case 'turn': {
        const { part: _, ...facts } = line
        return { type: 'turn_open', hubId, ...facts }
      }
      case 'inbox':
        return { type: 'inbox_told', hubId }
      case 'open': {
        const { part: _, ...facts } = line
        return { type: 'entry_open', hubId, ...facts }
      }
      case 'offer':
        return { type: 'offer_kept', hubId, offerId: line.offerId }
      case 'history': {
        const { event, hash } = line.record
        const computedHash = this.#sha256(chainedText(this.#previousHash, event))
        this.#previousHash = hash
        return { type: 'decided', hubId, event, hash, computedHash }
      }
      case 'receipt':
        return undefined
    }
  }

  /** After the last page. */
  end(): AuditEvent {
    const head = this.#head ?? { seq: 0, hash: emptyHistoryHash }
    return { type: 'history_read', hubId: this.#hubId, head, recordedUpTo: this.#recordedUpTo ?? 0 }
  }
}

function agentOf(hubId: string, { agent, isFound }: AccountLine & { readonly part: 'agent' }): AuditEvent {
  const { agentId, no } = agent
  const start = isFound === undefined ? {} : { start: { isOpen: isOpenAgent(agent), isFound } }
  return { type: 'agent_kept', hubId, agentId, no, tasks: tasksOf(agent), ...start }
}

function tasksOf(agent: Agent): readonly KeptTask[] {
  return agent.tasks.map(({ taskId, turn, end, lateEnd, times, receiptId, attempts }) => ({
    taskId,
    turn,
    ...(end === undefined ? {} : { deliveryId: end.deliveryId, endedAtMs: end.atMs }),
    ...(lateEnd === undefined ? {} : { lateDeliveryId: lateEnd.deliveryId }),
    ...(times.settle === undefined ? {} : { settledAtMs: times.settle }),
    ...(receiptId === undefined ? {} : { receiptId }),
    usages: [end, lateEnd].flatMap((one) =>
      one === undefined ? [] : { deliveryId: one.deliveryId, usage: one.usage },
    ),
    attempts: attempts.map(({ attemptId, epoch, peerId, phase }) => ({ attemptId, epoch, peerId, phase })),
  }))
}

function entryOf(hubId: string, { part: _, ...entry }: AccountEntry): KeptEntry {
  return { type: 'entry_kept', hubId, ...entry }
}

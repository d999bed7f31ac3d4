import { hash } from 'node:crypto'
import { AccountReader } from '../../audit/account.ts'
import { allChecks } from '../../audit/all-checks.ts'
import { Audit, type AuditViolation } from '../../audit/check.ts'
import type { AuditEvent } from '../../audit/events.ts'
import { type AgentAccount, Ledger } from '../../audit/ledger.ts'
import type { AccountLine, AccountPage } from '../../core/hub-account.ts'
import type { NodeAccount } from '../../core/node-account.ts'
import type { ReceiptBody, StoredReceipt } from '../../core/receipt.ts'

export interface AuditReport {
  readonly hubId: string
  readonly events: number
  /** Agents on record. */
  readonly agentCount: number
  readonly receipts: number
  readonly nodes: number
  /** Machines that worked on a turn and whose own record was not read: what they have is known by their receipts alone. */
  readonly notAsked: readonly string[]
  readonly violations: readonly AuditViolation[]
  readonly agents: readonly AgentAccount[]
}

/** A receipt, and who may have signed it. */
export interface ClaimedReceipt extends StoredReceipt {
  readonly hubId: string
  readonly owners: readonly string[]
  readonly agentId?: string
}

interface ReceiptOpener {
  /** Checks a receipt's id and signature. @throws {NfltrError} `bad_signature` */
  openReceipt(receipt: StoredReceipt, expected: { readonly machinePeerId: string }): Promise<ReceiptBody>
}

/** One history on its way through the checks. */
export class AuditRun {
  readonly #opener: ReceiptOpener
  readonly #hubId: string
  readonly #reader: AccountReader
  readonly #violations: AuditViolation[] = []
  readonly #audit = new Audit(allChecks, (violation) => this.#violations.push(violation))
  readonly #ledger = new Ledger()
  /** Machines that worked on a task, and whose agent it is. */
  readonly #tasks = new Map<string, { readonly agentId: string; readonly owners: readonly string[] }>()
  /** PeerId → name of the machines that took turns. */
  readonly #machines = new Map<string, string>()
  #events = 0
  #agents = 0
  #receipts = 0

  constructor(opener: ReceiptOpener, hubId: string) {
    this.#opener = opener
    this.#hubId = hubId
    this.#reader = new AccountReader(hubId, sha256)
  }

  /** Pages in their order, one at a time. */
  async page({ head, lines }: AccountPage): Promise<void> {
    this.#reader.page(head)
    const receipts: ClaimedReceipt[] = []
    for (const line of lines) {
      if (line.part === 'receipt') receipts.push(this.#claimOf(line))
      else this.#line(line)
    }
    await this.receipts(receipts)
  }

  /** All of them at once: the caller's memory holds them anyway. */
  async receipts(receipts: readonly ClaimedReceipt[]): Promise<void> {
    this.#receipts += receipts.length
    for (const event of await Promise.all(receipts.map((receipt) => this.#opened(receipt)))) this.#tell(event)
  }

  /** After the last page. @param nodes what nodes have of this hub */
  end(nodes: readonly NodeAccount[]): AuditReport {
    this.#tell(this.#reader.end())
    for (const { peerId, attempts } of nodes) {
      this.#machines.delete(peerId)
      for (const attempt of attempts) this.#tell({ type: 'attempt_on_node', node: peerId, ...attempt })
    }
    return this.report(nodes.length)
  }

  /** Nothing follows. */
  report(nodes = 0): AuditReport {
    this.#audit.end()
    return {
      hubId: this.#hubId,
      events: this.#events,
      agentCount: this.#agents,
      receipts: this.#receipts,
      nodes,
      notAsked: [...this.#machines.values()].sort(),
      violations: this.#violations,
      agents: this.#ledger.agents(),
    }
  }

  #line(line: AccountLine): void {
    if (line.part === 'agent') {
      this.#agents += 1
      const { agentId, tasks } = line.agent
      for (const { taskId, attempts } of tasks) {
        this.#tasks.set(taskId, { agentId, owners: [...new Set(attempts.map(({ peerId }) => peerId))] })
        for (const { peerId, machine, phase } of attempts) {
          if (phase !== 'offered' && phase !== 'declined') this.#machines.set(peerId, machine)
        }
      }
    }
    if (line.part === 'history' || line.part === 'log') this.#events += 1
    const event = this.#reader.read(line)
    if (event !== undefined) this.#tell(event)
  }

  #claimOf({ taskId, receiptId, envelope }: AccountLine & { readonly part: 'receipt' }): ClaimedReceipt {
    const { agentId, owners } = this.#tasks.get(taskId) ?? { agentId: undefined, owners: [] }
    const receipt = { receiptId, envelope: new Uint8Array(Buffer.from(envelope, 'base64')), hubId: this.#hubId, owners }
    return agentId === undefined ? receipt : { ...receipt, agentId }
  }

  #tell(event: AuditEvent): void {
    this.#audit.see(event)
    this.#ledger.see(event)
  }

  async #opened(receipt: ClaimedReceipt): Promise<AuditEvent> {
    const { receiptId, hubId, agentId } = receipt
    const opened = await this.#open(receipt)
    if (typeof opened === 'string') {
      const about = agentId === undefined ? {} : { agentId }
      return { type: 'receipt_refused', hubId, receiptId, message: opened, ...about }
    }
    const { owner: node, previousHash, attemptId, taskId, outcome, resultHash } = opened
    const facts = { node, receiptId, previousHash, attemptId, taskId, outcome, resultHash }
    return { type: 'receipt_kept', hubId: opened.hubId, ...facts }
  }

  /** The body, signed by one of those who may have; else why not. */
  async #open({ receiptId, envelope, owners }: ClaimedReceipt): Promise<ReceiptBody | string> {
    let reason = `The receipt ${receiptId} is of no turn that ran anywhere.`
    for (const machinePeerId of owners) {
      try {
        return await this.#opener.openReceipt({ receiptId, envelope }, { machinePeerId })
      } catch (error) {
        reason = error instanceof Error ? error.message : String(error)
      }
    }
    return reason
  }
}

function sha256(text: string): string {
  return hash('sha256', text, 'hex')
}

import type { NfltrError } from '../core/errors.ts'
import type { HistoryEvent } from '../core/history.ts'
import type { AccountLine, AccountPage } from '../core/hub-account.ts'
import type { NodeAccount } from '../core/node-account.ts'
import type { ReceiptBody, StoredReceipt } from '../core/receipt.ts'
import { AccountReader } from './account.ts'
import { allChecks } from './all-checks.ts'
import { Audit, type AuditViolation } from './check.ts'
import type { AuditEvent } from './events.ts'
import { type AgentAccount, Ledger } from './ledger.ts'
import type { AskedNodes } from './node-asking.ts'

export interface AuditReport {
  readonly hubId: string
  readonly events: number
  /** Agents on record. */
  readonly agentCount: number
  readonly receipts: number
  readonly nodes: number
  /** Machines that worked on a turn and whose own record was not read: what they have is known by their receipts alone. */
  readonly notAsked: readonly UnaskedMachine[]
  readonly violations: readonly AuditViolation[]
  readonly agents: readonly AgentAccount[]
}

export interface UnaskedMachine {
  readonly name: string
  /** Why it could not be asked, or what was wrong with its answer; absent where nobody tried. */
  readonly why?: NfltrError
}

/** A receipt, and who may have signed it. */
export interface ClaimedReceipt extends StoredReceipt {
  readonly hubId: string
  readonly owners: readonly string[]
  readonly agentId?: string
}

type ReceiptLine = AccountLine & { readonly part: 'receipt' }

export interface ReceiptOpener {
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
  /** Attempts of this hub: whose agent it is, and whether it ended by the history. */
  readonly #attempts = new Map<string, { readonly agentId: string; readonly hasEnded: boolean }>()
  /** Receipts of turns that were not known, or not of that machine, when they were read. */
  readonly #unplaced: ReceiptLine[] = []
  #events = 0
  #agents = 0
  #receipts = 0

  /** @param sha256 over a text's UTF-8 bytes, as hex */
  constructor(opener: ReceiptOpener, hubId: string, sha256: (text: string) => string) {
    this.#opener = opener
    this.#hubId = hubId
    this.#reader = new AccountReader(hubId, sha256)
  }

  /** Pages in their order, one at a time. */
  async page({ head, lines }: AccountPage): Promise<void> {
    this.#reader.page(head)
    const receipts: ReceiptLine[] = []
    for (const line of lines) {
      if (line.part === 'receipt') receipts.push(line)
      else this.#line(line)
    }
    this.#receipts += receipts.length
    const events = await Promise.all(receipts.map((line) => this.#opened(this.#claimOf(line))))
    for (const [index, event] of events.entries()) {
      const line = receipts[index]
      // A turn that was asked for since is in the history, which is yet to come, and may be why.
      if (event.type === 'receipt_refused' && line !== undefined) this.#unplaced.push(line)
      else this.#tell(event)
    }
  }

  /** All of them at once: the caller's memory holds them anyway. */
  async receipts(receipts: readonly ClaimedReceipt[]): Promise<void> {
    this.#receipts += receipts.length
    for (const event of await Promise.all(receipts.map((receipt) => this.#opened(receipt)))) this.#tell(event)
  }

  /** Machines that took turns, by PeerId. */
  machines(): readonly string[] {
    return [...this.#machines.keys()]
  }

  knows(attemptId: string): boolean {
    return this.#attempts.has(attemptId)
  }

  /** Whether a node says that it works on something that had ended before it was asked. */
  isBehind({ attempts }: NodeAccount): boolean {
    return attempts.some(({ attemptId, isOpen }) => isOpen && this.#attempts.get(attemptId)?.hasEnded === true)
  }

  /** After the last page. */
  async end({ accounts, failures }: AskedNodes): Promise<AuditReport> {
    const placed = this.#unplaced.map((line) => this.#opened(this.#claimOf(line)))
    for (const event of await Promise.all(placed)) this.#tell(event)
    this.#tell(this.#reader.end())
    for (const { peerId: node, attempts } of accounts) {
      this.#machines.delete(node)
      for (const attempt of attempts) {
        // Whose agent it is, the hub knows: a node that says another one shall not point at it.
        const agentId = this.#attempts.get(attempt.attemptId)?.agentId ?? attempt.agentId
        this.#tell({ type: 'attempt_on_node', node, ...attempt, agentId })
      }
    }
    return this.report(accounts.length, failures)
  }

  /** Nothing follows. */
  report(nodes = 0, failures: AskedNodes['failures'] = new Map()): AuditReport {
    this.#audit.end()
    const notAsked = [...this.#machines].map(([peerId, name]): UnaskedMachine => {
      const why = failures.get(peerId)
      return why === undefined ? { name } : { name, why }
    })
    return {
      hubId: this.#hubId,
      events: this.#events,
      agentCount: this.#agents,
      receipts: this.#receipts,
      nodes,
      notAsked: notAsked.sort((one, other) => (one.name < other.name ? -1 : 1)),
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
        for (const { attemptId, peerId, machine, phase } of attempts) {
          this.#attempts.set(attemptId, { agentId, hasEnded: false })
          if (phase !== 'offered' && phase !== 'declined') this.#machines.set(peerId, machine)
        }
      }
    }
    if (line.part === 'history' || line.part === 'log') this.#events += 1
    if (line.part === 'history') this.#follow(line.record.event)
    const event = this.#reader.read(line)
    if (event !== undefined) this.#tell(event)
  }

  #follow(event: HistoryEvent): void {
    if (event.type !== 'attempt_made' && event.type !== 'attempt_became') return
    const { attemptId, agentId, taskId } = event
    if (event.type === 'attempt_made') {
      const { owners } = this.#tasks.get(taskId) ?? { owners: [] }
      this.#tasks.set(taskId, { agentId, owners: [...new Set([...owners, event.peerId])] })
    }
    const hasEnded = this.#attempts.get(attemptId)?.hasEnded === true
    const ends = event.type === 'attempt_became' && event.phase === 'ended'
    this.#attempts.set(attemptId, { agentId, hasEnded: hasEnded || ends })
  }

  #claimOf({ taskId, receiptId, envelope }: ReceiptLine): ClaimedReceipt {
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

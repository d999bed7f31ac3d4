import { createHash } from 'node:crypto'
import type { Command } from 'commander'
import { AccountReader } from '../../audit/account.ts'
import { allChecks } from '../../audit/all-checks.ts'
import { Audit, type AuditViolation } from '../../audit/check.ts'
import type { AuditEvent } from '../../audit/events.ts'
import { type AgentAccount, Ledger } from '../../audit/ledger.ts'
import type { AccountLine, AccountPage } from '../../core/hub-account.ts'
import type { NodeAccount } from '../../core/node-account.ts'
import type { ReceiptBody, StoredReceipt } from '../../core/receipt.ts'
import { hubLeaf } from '../command.ts'
import type { CliIo } from '../io.ts'
import { type GivenReceipt, readGivenReceipts } from './audit-receipts.ts'

/** Whose account is audited: a hub that runs, or the store of one that does not. */
export interface AuditedHub extends AsyncDisposable {
  readonly hubId: string
  account(from?: string): Promise<AccountPage>
}

export interface AuditWorld {
  readonly io: CliIo
  open(options: { readonly hubId?: string }): Promise<AuditedHub>
  /** Nodes that can be asked here for what they have of this hub. */
  nodes(hubId: string): Promise<readonly NodeAccount[]>
  /** @throws {NfltrError} `invalid_argument` for a file that cannot be read */
  readFile(path: string): Promise<string>
  /** Checks a receipt's id and signature. @throws {NfltrError} `bad_signature` */
  openReceipt(receipt: StoredReceipt, expected: { readonly machinePeerId: string }): Promise<ReceiptBody>
}

/** `nfltr audit` — holds what is on record against every promise; changes nothing. */
export function audit(world: AuditWorld): Command {
  return hubLeaf('audit', 'check the history of this project: every result accepted once and delivered once')
    .option(
      '--receipts <file>',
      'check receipts alone, without hub and network: lines or documents of agent receipt --json; - for stdin',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ nfltr audit\n  $ nfltr agent receipt agt_1f0c --json > receipts.json; nfltr audit --receipts receipts.json',
    )
    .action(async (_options: unknown, command: Command) => {
      const options = command.optsWithGlobals<{ hubId?: string; receipts?: string }>()
      const report =
        options.receipts === undefined
          ? await auditHub(world, options)
          : await auditReceipts(world, await readGivenReceipts(world, options.receipts))
      world.io.answer(documentOf(report), textOf(report))
      if (report.violations.length > 0) process.exitCode = 1
    })
}

export interface AuditReport {
  readonly hubId: string
  readonly events: number
  /** Agents on record. */
  readonly agentCount: number
  readonly receipts: number
  readonly nodes: number
  readonly violations: readonly AuditViolation[]
  readonly agents: readonly AgentAccount[]
}

/** Reads a hub's whole account and judges it. */
export async function auditHub(world: AuditWorld, options: { readonly hubId?: string }): Promise<AuditReport> {
  await using hub = await world.open(options)
  const run = new Run(world, hub.hubId)
  let from: string | undefined
  do {
    const page = await hub.account(from)
    run.reader.page(page.head)
    for (const line of page.lines) await run.line(line)
    from = page.next
  } while (from !== undefined)
  run.tell(run.reader.end())
  const nodes = await world.nodes(hub.hubId)
  for (const { peerId, attempts } of nodes) {
    for (const attempt of attempts) run.tell({ type: 'attempt_on_node', node: peerId, ...attempt })
  }
  return run.report(nodes.length)
}

/** Judges receipts by themselves: each signature, and the chains that they form. */
export async function auditReceipts(world: AuditWorld, given: readonly GivenReceipt[]): Promise<AuditReport> {
  const run = new Run(world, given[0]?.hubId ?? '')
  for (const { hubId, owner, receiptId, envelope } of given) {
    await run.receipt({ receiptId, envelope }, { hubId, owners: [owner] })
  }
  return run.report(0)
}

/** One history on its way through the checks. */
class Run {
  readonly reader: AccountReader
  readonly #world: AuditWorld
  readonly #hubId: string
  readonly #violations: AuditViolation[] = []
  readonly #audit = new Audit(allChecks, (violation) => this.#violations.push(violation))
  readonly #ledger = new Ledger()
  /** Machines that worked on a task, and whose agent it is. */
  readonly #tasks = new Map<string, { readonly agentId: string; readonly owners: readonly string[] }>()
  #events = 0
  #agents = 0
  #receipts = 0

  constructor(world: AuditWorld, hubId: string) {
    this.#world = world
    this.#hubId = hubId
    this.reader = new AccountReader(hubId, sha256)
  }

  async line(line: AccountLine): Promise<void> {
    if (line.part === 'agent') {
      this.#agents += 1
      const { agentId, tasks } = line.agent
      for (const { taskId, attempts } of tasks) {
        this.#tasks.set(taskId, { agentId, owners: [...new Set(attempts.map(({ peerId }) => peerId))] })
      }
    }
    if (line.part === 'history' || line.part === 'log') this.#events += 1
    if (line.part === 'receipt') {
      const { agentId, owners } = this.#tasks.get(line.taskId) ?? { agentId: undefined, owners: [] }
      const receipt = { receiptId: line.receiptId, envelope: new Uint8Array(Buffer.from(line.envelope, 'base64')) }
      await this.receipt(receipt, { hubId: this.#hubId, owners, ...(agentId === undefined ? {} : { agentId }) })
      return
    }
    const event = this.reader.read(line)
    if (event !== undefined) this.tell(event)
  }

  tell(event: AuditEvent): void {
    this.#audit.see(event)
    this.#ledger.see(event)
  }

  async receipt(
    receipt: StoredReceipt,
    about: { readonly hubId: string; readonly owners: readonly string[]; readonly agentId?: string },
  ): Promise<void> {
    this.#receipts += 1
    const { receiptId } = receipt
    const { hubId, owners, agentId } = about
    const opened = await this.#open(receipt, owners)
    if (typeof opened === 'string') {
      this.tell({
        type: 'receipt_refused',
        hubId,
        receiptId,
        message: opened,
        ...(agentId === undefined ? {} : { agentId }),
      })
      return
    }
    const { owner: node, previousHash, attemptId, taskId, outcome, resultHash } = opened
    const facts = { node, receiptId, previousHash, attemptId, taskId, outcome, resultHash }
    this.tell({ type: 'receipt_kept', hubId: opened.hubId, ...facts })
  }

  report(nodes: number): AuditReport {
    this.#audit.end()
    return {
      hubId: this.#hubId,
      events: this.#events,
      agentCount: this.#agents,
      receipts: this.#receipts,
      nodes,
      violations: this.#violations,
      agents: this.#ledger.agents(),
    }
  }

  /** The body, signed by one of those who may have; else why not. */
  async #open(receipt: StoredReceipt, owners: readonly string[]): Promise<ReceiptBody | string> {
    let reason = `The receipt ${receipt.receiptId} is of no turn that ran anywhere.`
    for (const machinePeerId of owners) {
      try {
        return await this.#world.openReceipt(receipt, { machinePeerId })
      } catch (error) {
        reason = error instanceof Error ? error.message : String(error)
      }
    }
    return reason
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function documentOf({ hubId, events, agentCount, receipts, nodes, violations, agents }: AuditReport): object {
  return {
    ok: violations.length === 0,
    hub_id: hubId,
    checked: { events, agents: agentCount, receipts, nodes },
    violations: violations.map(({ check, agentId, seq, message }) => ({
      check,
      ...(agentId === undefined ? {} : { agent_id: agentId }),
      ...(seq === undefined ? {} : { seq }),
      message,
    })),
    agents: agents.map(({ agentId, turns, receipts: own, results }) => ({
      agent_id: agentId,
      turns,
      receipts: own,
      results: results.map((result) => ({
        turn: result.turn,
        outcome: result.outcome,
        delivery_id: result.deliveryId,
        ...(result.isLate ? { late: true } : {}),
        accepted: result.accepted,
        accepted_at: at(result.acceptedAtMs),
        delivered: result.delivered,
        ...(result.delivered > 0 && result.deliveredAtMs !== undefined
          ? { delivered_at: at(result.deliveredAtMs) }
          : {}),
        ...(result.confirmedAtMs === undefined ? {} : { confirmed_at: at(result.confirmedAtMs) }),
        state: stateOf(result),
      })),
    })),
  }
}

function stateOf(result: AgentAccount['results'][number]): 'undelivered' | 'offered' | 'unconfirmed' | 'read' {
  if (result.isSettled) return 'read'
  if (result.isNamed) return 'unconfirmed'
  return result.delivered > 0 ? 'offered' : 'undelivered'
}

function textOf(report: AuditReport): string {
  const { agents, agentCount, violations, events, receipts } = report
  const lines = agents.flatMap(({ agentId, results }) =>
    results.map(
      (result) =>
        `${agentId} turn ${result.turn}: ${result.outcome}, accepted ${times(result.accepted)} (${at(result.acceptedAtMs)}), delivered ${times(result.delivered)}${
          result.delivered > 0 && result.deliveredAtMs !== undefined ? ` (${at(result.deliveredAtMs)})` : ''
        }, ${stateOf(result)}`,
    ),
  )
  const found = violations.map(({ check, message }) => `BAD  ${check}: ${message}`)
  const summary = `${events} events, ${agentCount} agents, ${receipts} receipts: ${violations.length} violations`
  return [...lines, ...found, summary].join('\n')
}

function times(count: number): string {
  return count === 1 ? 'once' : count === 0 ? 'not yet' : `${count} times`
}

function at(ms: number): string {
  return new Date(ms).toISOString()
}

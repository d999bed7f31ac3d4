import type { Command } from 'commander'
import { type AuditReport, AuditRun, type UnaskedMachine } from '../../audit/audit-run.ts'
import { type AuditedHub, type AuditWays, auditAccount } from '../../audit/hub-audit.ts'
import type { AgentAccount } from '../../audit/ledger.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { hubLeaf } from '../command.ts'
import type { CliIo } from '../io.ts'
import { type GivenReceipt, readGivenReceipts } from './audit-receipts.ts'

export type OpenedHub = AuditedHub & AsyncDisposable

export interface AuditWorld extends AuditWays {
  readonly io: CliIo
  open(options: { readonly hubId?: string }): Promise<OpenedHub>
  /** @throws {NfltrError} `invalid_argument` for a file that cannot be read */
  readFile(path: string): Promise<string>
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
      for (const warning of warnings(report)) world.io.warn(warning)
      world.io.answer(documentOf(report), textOf(report))
      if (report.violations.length > 0) process.exitCode = 1
    })
}

/** Reads a hub's whole account and judges it. */
export async function auditHub(world: AuditWorld, options: { readonly hubId?: string }): Promise<AuditReport> {
  await using hub = await world.open(options)
  return await auditAccount(hub, world)
}

/** Judges receipts by themselves: each signature, and the chains that they form. */
export async function auditReceipts(world: AuditWorld, given: readonly GivenReceipt[]): Promise<AuditReport> {
  const run = new AuditRun(world, given[0]?.hubId ?? '', world.sha256)
  await run.receipts(
    given.map(({ hubId, owner, receiptId, envelope }) => ({ receiptId, envelope, hubId, owners: [owner] })),
  )
  return run.report()
}

function documentOf(report: AuditReport): object {
  const { hubId, events, agentCount, receipts, nodes, notAsked, violations, agents } = report
  return {
    ok: violations.length === 0,
    hub_id: hubId,
    checked: { events, agents: agentCount, receipts, nodes, nodes_not_asked: notAsked.map(({ name }) => name) },
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
  const { agents, agentCount, violations, events, receipts, notAsked } = report
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
  const unheard =
    notAsked.length === 0 ? [] : [`Known by receipts alone, not asked: ${notAsked.map(unaskedText).join(', ')}.`]
  return [...lines, ...found, ...unheard, summary].join('\n')
}

/** Failures of an answer, as opposed to one that did not come. */
const badAnswers: readonly ErrorCode[] = ['invalid_frame', 'frame_too_large', 'protocol_violation']

/** Where a machine answered what cannot be an answer, a person has to hear of it, whoever reads the document. */
function warnings({ notAsked }: AuditReport): readonly string[] {
  return notAsked.flatMap(({ name, why }) =>
    why !== undefined && badAnswers.includes(why.code) ? [`${name} gave an answer that is none: ${why.message}`] : [],
  )
}

function unaskedText({ name, why }: UnaskedMachine): string {
  if (why === undefined || why.code === 'not_running') return name
  if (why.code === 'link_down') return `${name} (not connected)`
  if (why.code === 'timed_out') return `${name} (no answer in time)`
  if (why.code === 'unsupported') return `${name} (an earlier version)`
  return `${name} (${why.code}: ${why.message})`
}

function times(count: number): string {
  return count === 1 ? 'once' : count === 0 ? 'not yet' : `${count} times`
}

function at(ms: number): string {
  return new Date(ms).toISOString()
}

/**
 * `npm run bench:audit`: how long `nfltr audit` takes over a history of 100,000 events. The history is made by the production
 * decisions in a real store, with signed receipts; the command's own work is measured, without the start of a process. `--events N`;
 * `--figures` writes docs/reference/figures/audit.json. Ends with 1 when it took longer than promised.
 */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { originOf, writeFigures } from '../sim/figures.ts'
import type { AuditReport } from '../src/audit/audit-run.ts'
import { auditHub } from '../src/cli/commands/audit.ts'
import { auditWorld } from '../src/cli/compose/audit-world.ts'
import { terminalIo } from '../src/cli/io.ts'
import { encodeRecord } from '../src/core/record-json.ts'
import { newTask } from '../src/core/task-step.ts'
import { Agents } from '../src/hub/agents.ts'
import { Changes } from '../src/hub/changes.ts'
import { History } from '../src/hub/history.ts'
import { Mailbox } from '../src/hub/mailbox.ts'
import { keys } from '../src/hub/records.ts'
import { Waiting } from '../src/hub/waiting.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../src/identity/keys.ts'
import { makeReceipt } from '../src/identity/receipts.ts'
import { systemClock } from '../src/platform/clock.ts'
import type { Store } from '../src/ports/store.ts'
import { Engine } from '../src/runtime/engine.ts'
import { openHome } from '../src/store/home/home.ts'
import { openLevelStore } from '../src/store/level-store.ts'

const promisedSeconds = 3
const hubId = 'bench'
/** Decisions and log lines of one agent that was asked, ran, was read and signed for. */
const decisionsPerAgent = 11
const linesPerAgent = 9

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** Writes what a hub has on record after so many agents ran one turn each. */
async function fill(store: Store, agentCount: number, key: PrivateKey): Promise<void> {
  const engine = new Engine(store)
  const clock = systemClock()
  const changes = new Changes(clock)
  const history = await History.load({ store, clock, sha256 })
  const mailbox = await Mailbox.load({ engine, store, changes, clock, history, waiting: new Waiting() })
  const agents = await Agents.load({
    engine,
    mark: { isKept: false, set: () => undefined },
    store,
    clock,
    changes,
    mailbox,
    history,
    sha256,
    send: () => undefined,
    voidCommands: () => undefined,
    findPlaces: () => undefined,
  })
  const node = peerIdOf(key)
  let previousHash = ''
  for (let no = 1; no <= agentCount; no++) {
    const [agentId, taskId, attemptId] = [`agt_${no}`, `tsk_${no}`, `att_${no}`]
    const text = `answer ${no}`
    const atMs = clock.wallMs()
    const receipt = await makeReceipt(key, {
      hubId,
      agentId,
      taskId,
      attemptId,
      attempt: 1,
      owner: node,
      inputsHash: sha256('a brief'),
      outcome: 'completed',
      resultHash: sha256(text),
      claimedAtMs: atMs,
      startedAtMs: atMs,
      endedAtMs: atMs,
      settledAtMs: atMs,
      previousHash,
    })
    previousHash = receipt.receiptId
    const done = engine.transact((tx) => {
      const task = newTask({ taskId, turn: 1, textHash: sha256('a brief'), timeoutMs: 0, atMs })
      const rest = { filters: { labels: {}, requires: [] }, lostAfterMs: 150_000, settings: {}, startedAtMs: atMs }
      agents.create(tx, { agentId, no, ...rest, tasks: [task] }, 'a brief')
      const spawnId = mailbox.nextDeliveryId
      mailbox.deliverSpawn(tx, { kind: 'spawn', deliveryId: spawnId, agentId, state: 'queued', atMs })
      const said = (event: Parameters<Agents['apply']>[2]): void => void agents.apply(tx, agentId, event, node)
      agents.apply(tx, agentId, { type: 'placed', attemptId, peerId: node, machine: 'vm1' })
      said({ type: 'attempt', attemptId, event: { type: 'claimed', epoch: 1 } })
      said({ type: 'attempt', attemptId, event: { type: 'started', epoch: 1, sessionId: 'ses_1' } })
      for (let seq = 1; seq <= linesPerAgent; seq++) {
        tx.put(
          keys.event(agentId, seq),
          encodeRecord({ seq, atMs, turn: 1, type: 'text', text: `line ${seq}`, fields: {} }),
        )
      }
      const resultId = mailbox.nextDeliveryId
      const usage = { inputTokens: 1, outputTokens: 1, costUsd: 0, durationMs: 1 }
      const result = { outcome: 'completed', text, denied: [], usage, messages: [], details: {} } as const
      said({ type: 'attempt', attemptId, event: { type: 'ended', epoch: 1, result } })
      tx.put(keys.receipt(taskId), encodeRecord(receipt))
      said({ type: 'receipt', attemptId, receiptId: receipt.receiptId })
      const offer = {
        offerId: `ofr_${no}`,
        answerKey: `hub/answer/wait_for_agents/${no}`,
        sessionKey: 's',
        isOfHolder: true,
      }
      mailbox.step(tx, { type: 'offered', ...offer, entries: [spawnId, resultId], names: [] })
      mailbox.step(tx, { type: 'confirmed', offerId: offer.offerId })
      mailbox.step(tx, { type: 'requested', sessionKey: 's' })
    })
    if (no % 200 === 0) await done
  }
  await engine.settled()
}

interface Round {
  readonly seconds: number
  /** Of all threads: what is left of a round on a machine that has other things to do. */
  readonly cpu_seconds: number
}

/** The command's own work over a home, without the start of a process. */
async function audited(home: string): Promise<{ readonly report: AuditReport; readonly round: Round }> {
  const io = terminalIo({ isJson: true })
  const startMs = performance.now()
  const cpu = process.cpuUsage()
  const report = await auditHub(auditWorld({ io, env: { NFLTR_HOME: home }, version: '0' }), { hubId })
  const { user, system } = process.cpuUsage(cpu)
  const rounded = (seconds: number): number => Number(seconds.toFixed(2))
  const seconds = rounded((performance.now() - startMs) / 1_000)
  return { report, round: { seconds, cpu_seconds: rounded((user + system) / 1_000_000) } }
}

const { values } = parseArgs({
  options: { events: { type: 'string', default: '100000' }, figures: { type: 'boolean', default: false } },
})
const home = mkdtempSync(join(tmpdir(), 'nfltr-audit-'))
try {
  const origin = originOf()
  const agentCount = Math.ceil(Number(values.events) / (decisionsPerAgent + linesPerAgent))
  const store = await openLevelStore(openHome({ home, env: {} }).paths.hub(hubId))
  await fill(store, agentCount, await generateKey())
  await store.close()
  const rounds: Round[] = []
  let report: AuditReport | undefined
  for (let no = 0; no < 3; no++) {
    const { report: found, round } = await audited(home)
    report = found
    rounds.push(round)
  }
  // Where others use the processors, the time of the clock says little about this program.
  const best = Math.min(...rounds.map(({ seconds, cpu_seconds: cpu }) => Math.min(seconds, cpu)))
  const { events, agentCount: agents, receipts, violations = [] } = report ?? {}
  const times = rounds.map(({ seconds, cpu_seconds: cpu }) => `${seconds} s (processor ${cpu} s)`).join(', ')
  console.log(`${events} events, ${agents} agents, ${receipts} receipts: ${times}; ${promisedSeconds} s are promised`)
  for (const { check, message } of violations.slice(0, 3)) console.log(`  ${check}: ${message}`)
  const load = Number((loadavg()[0] ?? 0).toFixed(1))
  const figures = { events, agents, receipts, rounds, promised_seconds: promisedSeconds, load_average: load }
  if (values.figures) writeFigures('audit', origin, { ...figures, violations: violations.length })
  if (report === undefined || violations.length > 0 || best > promisedSeconds) process.exitCode = 1
} finally {
  rmSync(home, { recursive: true, force: true })
}

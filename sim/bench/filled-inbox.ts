import { createHash, randomBytes } from 'node:crypto'
import { encodeRecord } from '../../src/core/record-json.ts'
import type { Agent } from '../../src/core/task-record.ts'
import { keys } from '../../src/hub/records.ts'
import type { StoreOperation } from '../../src/ports/store.ts'
import { openLevelStore } from '../../src/store/level-store.ts'

export interface FilledInbox {
  /** Agents, one result each. */
  readonly entries: number
  /** Of these, the newest so many have not been delivered. */
  readonly undelivered: number
  /** The machine that they ran on. */
  readonly peerId: string
  readonly machine: string
}

const agentsPerBatch = 500
const encoder = new TextEncoder()

/**
 * Writes into a hub's store what a hub leaves there after so many turns: agents of one turn each, with brief, receipt, result
 * and text, all of them read but the newest.
 */
export async function fillInbox(dir: string, filled: FilledInbox): Promise<void> {
  const store = await openLevelStore(dir)
  try {
    for (let from = 1; from <= filled.entries; from += agentsPerBatch) {
      const batch: StoreOperation[] = []
      for (let no = from; no < Math.min(from + agentsPerBatch, filled.entries + 1); no += 1) {
        batch.push(...agentRecords(no, filled))
      }
      batch.push(put(keys.deliveries, { next: filled.entries + 1 }))
      await store.commit(batch)
    }
  } finally {
    await store.close()
  }
}

function agentRecords(no: number, filled: FilledInbox): readonly StoreOperation[] {
  const { peerId, machine, entries, undelivered } = filled
  const [agentId, taskId, attemptId] = ['agt_', 'tsk_', 'att_'].map(
    (prefix) => prefix + randomBytes(16).toString('hex'),
  )
  if (agentId === undefined || taskId === undefined || attemptId === undefined) throw new Error('no ids')
  const brief = `Look at part ${no} of the work and say what there is to do.`
  const text = `Part ${no} is done. ${'What was found is told here. '.repeat(6)}`
  const atMs = 1_750_000_000_000 + no
  const usage = { inputTokens: 1_000 + no, outputTokens: 200, costUsd: 0.01, durationMs: 4_000 }
  const receiptId = `rcp_${createHash('sha256').update(agentId).digest('hex')}`
  const agent: Agent = {
    agentId,
    no,
    filters: { labels: {}, requires: [] },
    lostAfterMs: 150_000,
    settings: {},
    home: { peerId, machine },
    sessionId: crypto.randomUUID(),
    startedAtMs: atMs,
    tasks: [
      {
        taskId,
        turn: 1,
        stage: 'receipt',
        times: { quote: atMs, approve: atMs, execute: atMs, progress: atMs, review: atMs, settle: atMs, receipt: atMs },
        briefHash: createHash('sha256').update(brief).digest('hex'),
        timeoutMs: 600_000,
        nextEpoch: 2,
        attempts: [
          {
            attemptId,
            number: 1,
            epoch: 1,
            peerId,
            machine,
            phase: 'ended',
            isSuperseded: false,
            hasLateResult: false,
          },
        ],
        declines: [],
        steers: [],
        end: { outcome: 'completed', atMs, deliveryId: no, usage, proof: 'cgroup_empty', isSuperseded: false },
        receiptId,
      },
    ],
  }
  const bytes = encoder.encode(text)
  const entry = {
    kind: 'result',
    deliveryId: no,
    agentId,
    taskId,
    attempt: 1,
    turn: 1,
    outcome: 'completed',
    textBytes: bytes.length,
    denied: [],
    declines: [],
    details: {},
    machine,
    usage,
    messages: [],
    isLate: false,
    isSuperseded: false,
    atMs,
  }
  const isOpen = no > entries - undelivered
  return [
    put(keys.agent(agentId), agent),
    { type: 'put', key: keys.brief(taskId), value: encoder.encode(brief) },
    put(keys.entry(no), entry),
    { type: 'put', key: keys.text(no), value: bytes },
    put(keys.receipt(taskId), { receiptId, envelope: randomBytes(300).toString('base64') }),
    put(keys.event(agentId, 1), { seq: 1, atMs, turn: 1, type: 'text', text }),
    ...(isOpen ? [put(keys.open(no), { deliveryId: no, kind: 'result', agentId, state: 'undelivered' })] : []),
  ]
}

function put(key: string, value: object): StoreOperation {
  return { type: 'put', key, value: encodeRecord(value) }
}

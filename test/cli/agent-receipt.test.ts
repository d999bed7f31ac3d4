import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { agentReceipt } from '../../src/cli/commands/agent-receipt.ts'
import type { CliIo } from '../../src/cli/io.ts'
import type { ReceiptBody } from '../../src/core/receipt.ts'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'
import { checkReceipt, makeReceipt } from '../../src/identity/receipts.ts'
import type { ReceiptDocument } from '../../src/ports/hub-api.ts'
import { scriptedHub } from '../control/scripted-hub.ts'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

async function signed(overrides: Partial<ReceiptBody> = {}) {
  const key = await generateKey()
  const owner = peerIdOf(key)
  const body: ReceiptBody = {
    hubId: 'hub_1',
    agentId: 'agt_1',
    taskId: 'tsk_1',
    attemptId: 'att_1',
    attempt: 1,
    owner,
    inputsHash: sha256('do it'),
    outcome: 'completed',
    resultHash: sha256('done'),
    claimedAtMs: 1_000,
    startedAtMs: 2_000,
    endedAtMs: 3_000,
    settledAtMs: 4_000,
    previousHash: '',
    ...overrides,
  }
  const receipt = await makeReceipt(key, body)
  const kept: ReceiptDocument = {
    schema: 1,
    receipt_id: receipt.receiptId,
    envelope: Buffer.from(receipt.envelope).toString('base64'),
    hub_id: 'hub_1',
    agent_id: 'agt_1',
    task_id: 'tsk_1',
    turn: 1,
    attempt_id: 'att_1',
    machine: 'vm1',
    peer_id: owner,
    outcome: 'completed',
    inputs_hash: sha256('do it'),
    result_hash: sha256('done'),
  }
  return { kept, owner }
}

async function run(kept: ReceiptDocument) {
  const answers: Record<string, unknown>[] = []
  const warnings: string[] = []
  const io = {
    answer: (document: object) => void answers.push(document as Record<string, unknown>),
    warn: (text: string) => void warnings.push(text),
  } as unknown as CliIo
  const hub = { ...scriptedHub(), receipt: async () => kept }
  const command = agentReceipt({ io, connect: async () => hub, openReceipt: checkReceipt })
  const failure = await command.parseAsync(['agt_1'], { from: 'user' }).then(
    () => undefined,
    (error: unknown) => error,
  )
  const exitCode = process.exitCode
  process.exitCode = undefined
  return { answer: answers[0], failure, warnings, exitCode }
}

describe('agent receipt', () => {
  test('shows what the node signed, and that it is what the hub knows', async () => {
    const { kept, owner } = await signed()

    const { answer, failure } = await run(kept)

    expect(failure).toBeUndefined()
    expect(answer).toMatchObject({
      ok: true,
      receipt_id: kept.receipt_id,
      owner,
      outcome: 'completed',
      result_hash: sha256('done'),
      ended_at: '1970-01-01T00:00:03.000Z',
      differences: [],
    })
  })

  test('names each field in which it says something else', async () => {
    const { kept } = await signed({ resultHash: sha256('something else'), outcome: 'failed' })

    const { answer, failure, warnings, exitCode } = await run(kept)

    // One document on standard output says all of it: a thrown error would be printed as a second one.
    expect(failure).toBeUndefined()
    expect(answer).toMatchObject({ ok: false, differences: ['outcome', 'result_hash'] })
    expect(warnings).toEqual([expect.stringContaining('outcome, result_hash')])
    expect(exitCode).toBe(3)
  })

  test('refuses one that another machine signed, and one whose bytes were changed', async () => {
    const { kept } = await signed()
    const stranger = await signed()
    const bytes = Buffer.from(kept.envelope, 'base64')
    bytes[bytes.length - 1] = (bytes[bytes.length - 1] ?? 0) ^ 1

    expect((await run({ ...kept, peer_id: stranger.owner })).failure).toMatchObject({ code: 'bad_signature' })
    expect((await run({ ...kept, envelope: bytes.toString('base64') })).failure).toMatchObject({
      code: 'bad_signature',
    })
  })
})

import { expect, test } from 'vitest'
import { jsonBytes } from '../../src/hub/pages.ts'
import { resultDocument } from '../../src/hub/present.ts'
import type { ResultRecord } from '../../src/hub/records.ts'

interface Shown {
  readonly messages: readonly unknown[]
  readonly messages_count?: number
  readonly details: {
    readonly denied: readonly { readonly input: string }[]
    readonly declines: readonly unknown[]
    readonly declines_count?: number
    readonly note: string
  }
}

const record: ResultRecord = {
  kind: 'result',
  deliveryId: 1,
  agentId: 'agt_1',
  taskId: 'tsk_1',
  attempt: 1,
  turn: 1,
  outcome: 'failed',
  textBytes: 0,
  denied: [],
  declines: [],
  details: {},
  usage: { inputTokens: 0, outputTokens: 0, costUsd: 0, durationMs: 0 },
  messages: [],
  isLate: false,
  isSuperseded: false,
  atMs: 0,
}

function documentOf(facts: Partial<ResultRecord>, isWhole = false): Shown {
  return resultDocument({ ...record, ...facts }, { receiptId: undefined, isWhole }) as unknown as Shown
}

test('the input of a denied call is cut between characters, whatever stands at the cut', () => {
  for (let before = 240; before <= 260; before += 1) {
    const denied = [{ tool: 'Bash', input: `${'x'.repeat(before)}😀😀😀` }]

    const input = documentOf({ denied }).details.denied[0]?.input ?? ''

    expect(input.isWellFormed()).toBe(true)
    expect(Buffer.byteLength(input)).toBeLessThanOrEqual(256)
  }
})

test('what stands beside the text of a result is bounded in a reply, and whole where it is read again', () => {
  const longest: Partial<ResultRecord> = {
    denied: Array.from({ length: 64 }, () => ({ tool: 'Bash', input: '"'.repeat(2_048) })),
    declines: Array.from({ length: 900 }, (_, no) => ({
      peerId: `peer${no}`,
      machine: `vm${no}`,
      reason: 'dir_busy',
      message: 'm'.repeat(500),
      isPermanent: false,
    })),
    messages: Array.from({ length: 1_000 }, (_, no) => ({ messageId: `msg_${no}`, state: 'taken' })),
    details: Object.fromEntries([
      ['note', 'ü'.repeat(2_000)],
      ...Array.from({ length: 31 }, (_, no) => [`d${no}`, 'x'.repeat(4_096)]),
    ]),
  }

  const shown = documentOf(longest)
  const whole = documentOf(longest, true)

  expect(jsonBytes(shown)).toBeLessThan(40_000)
  expect(shown).toMatchObject({ messages_count: 1_000, details: { declines_count: 900, denied_count: 64 } })
  expect(shown.details.note).toBe('ü'.repeat(256))
  expect(whole.messages).toHaveLength(1_000)
  expect(whole.details.declines).toHaveLength(900)
  expect(whole.messages_count).toBeUndefined()
  expect(whole.details.note).toBe('ü'.repeat(2_000))
})

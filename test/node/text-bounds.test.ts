import { expect, test } from 'vitest'
import { type AttemptResult, noUsage } from '../../src/core/model.ts'
import { boundResult } from '../../src/node/text-bounds.ts'
import { encodeWork } from '../../src/wire/work-codec.ts'

const ref = { agentId: 'agt_1', taskId: 'tsk_1', attemptId: 'att_1', epoch: 1 }
const result: AttemptResult = {
  outcome: 'completed',
  text: 'done',
  denied: [],
  usage: { ...noUsage, inputTokens: 7, durationMs: -4_000, outputTokens: 1e300 },
  messages: [],
  details: {},
}

test('a result whose program counted wrongly can still be sent', () => {
  const bounded = boundResult(result)

  expect(() => encodeWork({ type: 'ended', ref, result: bounded })).not.toThrow()
  expect(bounded).toMatchObject({ text: 'done', usage: { inputTokens: 7, durationMs: 0 } })
})

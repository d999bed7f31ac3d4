import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type ScriptedModel, startModel } from '../fixtures/model/server.ts'
import { play, recording, transcript } from '../fixtures/scenarios/play.ts'
import { sharedScenarios } from '../fixtures/scenarios/shared.ts'

let model: ScriptedModel

beforeAll(async () => {
  model = await startModel()
})

afterAll(async () => {
  await model.close()
})

// The scripted agent is held to the same recordings by test/cli/demo/recordings.test.ts, in every run of the tests.
// After a change of version: `npm run test:claude -- -u`, and read the difference.
describe('the real program still says what was recorded', () => {
  test.each(sharedScenarios)('$name', async (shared) => {
    const said = await play(shared, { kind: 'real', binary: inject('claudeBinary'), model })

    await expect(transcript(said)).toMatchFileSnapshot(recording(shared))
  })
})

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type ScriptedModel, startModel } from '../fixtures/model/server.ts'
import { play } from '../fixtures/scenarios/play.ts'
import { sharedScenarios } from '../fixtures/scenarios/shared.ts'

let model: ScriptedModel

beforeAll(async () => {
  model = await startModel()
})

afterAll(async () => {
  await model.close()
})

// What the scripted agent says is worth something only while the real program says the same.
describe('the real program and the scripted agent agree', () => {
  test.each(sharedScenarios)('$name', async (shared) => {
    const real = await play(shared, { kind: 'real', binary: inject('claudeBinary'), model })
    const scripted = await play(shared, { kind: 'scripted' })

    expect(scripted).toEqual(real)
  })
})

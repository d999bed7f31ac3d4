import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { play, recording, transcript } from '../../fixtures/scenarios/play.ts'
import { sharedScenarios } from '../../fixtures/scenarios/shared.ts'

// Recorded from the real program by test/claude/scenarios.test.ts; never written from here.
describe('the scripted agent says what the real program said', () => {
  test.each(sharedScenarios)('$name', async (shared) => {
    const said = await play(shared, { kind: 'scripted' })

    expect(transcript(said)).toBe(await readFile(recording(shared), 'utf8'))
  })
})

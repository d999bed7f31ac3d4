import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { Checkpoint } from './checkpoint.ts'
import { runSeed } from './run-seed.ts'
import { Tally } from './tally.ts'

const folder = mkdtempSync(join(tmpdir(), 'nfltr-checkpoint-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const name = { commit: 'abc', from: 1, scenario: undefined, keep: undefined }

describe('a long run that was ended', () => {
  test('goes on behind the last whole outcome and comes to the same', async () => {
    const path = join(folder, 'part of a line.jsonl')
    const outcomes = [await runSeed(1), await runSeed(2), await runSeed(3)]
    const whole = new Tally()
    for (const outcome of outcomes) whole.add(outcome)

    const killed = new Checkpoint(path, name)
    for (const outcome of outcomes.slice(0, 2)) killed.add(outcome)
    appendFileSync(path, '{"seed":3,"traceH')
    const resumed = new Checkpoint(path, name)
    const tally = new Tally()
    for (const outcome of [...resumed.outcomes, ...outcomes.slice(2)]) tally.add(outcome)

    expect(resumed.outcomes.map(({ seed }) => seed)).toEqual([1, 2])
    expect({ ...tally.summary(), seconds: 0 }).toEqual({ ...whole.summary(), seconds: 0 })
    expect(tally.blocks()).toEqual(whole.blocks())
    for (const outcome of outcomes.slice(2)) resumed.add(outcome)
    expect(new Checkpoint(path, name).outcomes).toHaveLength(3)
  })

  test('is not taken for one of another commit or another world', () => {
    const path = join(folder, 'other.jsonl')
    new Checkpoint(path, name)

    expect(() => new Checkpoint(path, { ...name, commit: 'def' })).toThrow(/another run/)
    expect(() => new Checkpoint(path, { ...name, scenario: 'store-lost' })).toThrow(/another run/)
  })
})

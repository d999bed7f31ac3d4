import { execFile } from 'node:child_process'
import { join } from 'node:path'
import process from 'node:process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { growthMaxBytes, runCampaign, targets } from './campaign.ts'
import { type Target, verdictOn } from './target.ts'

const run = promisify(execFile)

test('a thousand wrong inputs break nothing, are refused with a type, and leave nothing behind', async () => {
  const script = join(import.meta.dirname, 'run.ts')
  const { stdout } = await run(process.execPath, ['--expose-gc', script, '--n', '1000', '--seed', '1'], {
    maxBuffer: 10_000_000,
  })

  expect(stdout).toMatch(/^1000 inputs in \d+ s: 0 failed; grew by -?\d+ bytes$/m)
  for (const { kind } of targets) expect(stdout).toContain(`\n${kind} `)
}, 120_000)

const target = (attempt: () => unknown): Target => ({
  kind: 'planted',
  share: 1,
  open: async () => ({ try: () => verdictOn('the input', attempt), close: async () => undefined }),
})
const campaign = (attempt: () => unknown) =>
  runCampaign({ inputs: 50, seed: 1, targets: [target(attempt)], collectGarbage: () => undefined }, () => undefined)

test('a refusal without a type is a failure, with its input', async () => {
  const { failures } = await campaign(() => {
    throw new RangeError('Invalid time value')
  })

  expect(failures).toHaveLength(20)
  expect(failures[0]).toMatchObject({ kind: 'planted', number: 0, input: 'the input' })
  expect(failures[0]?.what).toContain('Invalid time value')
})

test('a rejection that nobody looks at is a failure', async () => {
  const { failures } = await campaign(() => {
    void Promise.reject(new Error('nobody looks'))
    return new Promise((resolve) => setImmediate(resolve))
  })

  expect(failures[0]?.what).toContain('nobody looks')
})

test('what is held after each input shows as growth', async () => {
  const held: string[][] = []
  const { grownBytes } = await campaign(() => held.push(Array.from({ length: 100_000 }, (_, index) => `${index}`)))

  expect(grownBytes).toBeGreaterThan(growthMaxBytes)
})

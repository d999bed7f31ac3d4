import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import process from 'node:process'
import { expect, test } from 'vitest'
import { isMet } from './figure.ts'
import { summary } from './statistics.ts'

function bench(...args: readonly string[]) {
  return spawnSync(process.execPath, [join(import.meta.dirname, 'main.ts'), ...args], { encoding: 'utf8' })
}

test('one figure is measured beside its raw probe, and told as one document', { timeout: 60_000 }, () => {
  const run = bench('--source', '--quick', '--json', '--only', 'initialize')

  expect(run.stderr).toBe('')
  const { results } = JSON.parse(run.stdout) as {
    results: { name: string; value: number; series: Record<string, { n: number; median: number; min: number }> }[]
  }
  expect(results.map(({ name }) => name)).toEqual(['initialize'])
  const [result] = results
  expect(result?.value).toBe(result?.series['initialized']?.median)
  // The adapter is a runtime with something to do.
  expect(result?.value).toBeGreaterThan(result?.series['bare runtime']?.min ?? Number.POSITIVE_INFINITY)
})

test('a figure that is none is refused by its name', () => {
  const run = bench('--only', 'no-such-figure')

  expect(run.status).not.toBe(0)
  expect(run.stderr).toContain('no-such-figure')
})

test('a floor is held in its own direction', () => {
  const result = { name: 'a', what: '', unit: 'x', series: {} }

  expect(isMet({ ...result, value: 4, floor: { kind: 'at_most', value: 4 } })).toBe(true)
  expect(isMet({ ...result, value: 4.1, floor: { kind: 'at_most', value: 4 } })).toBe(false)
  expect(isMet({ ...result, value: 0.4, floor: { kind: 'at_least', value: 0.5 } })).toBe(false)
  expect(isMet({ ...result, value: 9 })).toBe(true)
})

test('a summary tells the middle and the ends', () => {
  expect(summary([3, 1, 2, 10])).toEqual({ n: 4, median: 2.5, min: 1, p90: 10, max: 10 })
  expect(() => summary([])).toThrow('no sample')
})

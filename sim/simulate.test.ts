import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runSeeds } from './seeds.ts'
import { type Outcome, simulate } from './simulate.ts'

describe('the simulator', () => {
  test('gives the same history for the same seed, and another one for another seed', async () => {
    const [first, again, other] = [await simulate(7), await simulate(7), await simulate(8)]

    expect(again.traceHash).toBe(first.traceHash)
    expect(other.traceHash).not.toBe(first.traceHash)
    expect([first, other].flatMap(({ violations }) => violations)).toEqual([])
  })

  test('runs turns while things go wrong', async () => {
    const { counts } = await simulate(7)

    expect(counts.get('turn launched') ?? 0).toBeGreaterThan(0)
    expect([...counts.keys()].some((name) => name.startsWith('fault: '))).toBe(true)
  })

  test('gives the same histories in one thread and in two, in the order of the seeds', async () => {
    const hashes = async (workers: number): Promise<readonly string[]> => {
      const found: string[] = []
      const take = ({ seed, traceHash }: Outcome): boolean => found.push(`${seed} ${traceHash}`) < 5
      await runSeeds([3, 4, 5, 6, 7, 8], { workers, take })
      return found
    }

    const [one, two] = [await hashes(1), await hashes(2)]

    expect(one).toHaveLength(5)
    expect(two).toEqual(one)
  })

  test('has a row of the documentation for each planted bug', () => {
    const page = readFileSync(join(import.meta.dirname, '../docs/internals/testing.md'), 'utf8')
    const section = page.split(/^## /m).find((part) => part.startsWith('Planted bugs')) ?? ''
    const rows = [...section.matchAll(/^\| `([a-z-]+)` \|/gm)].map((match) => match[1])
    const patches = globSync('mutants/*.patch', { cwd: import.meta.dirname }).map((file) => basename(file, '.patch'))

    expect(rows).toEqual(patches.sort())
  })
})

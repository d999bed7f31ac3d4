import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { allChecks } from '../src/audit/all-checks.ts'
import type { Scenario } from './scenario.ts'
import { readScenario, scenarioNames } from './scenarios.ts'
import { runSeeds } from './seeds.ts'
import { shrink } from './shrink.ts'
import { type Outcome, simulate } from './simulate.ts'

/** A world of which a run takes little time. */
const small: Scenario = { nodes: 2, tasks: 6 }

describe('the simulator', () => {
  test('gives the same history for the same seed, and another one for another seed', async () => {
    const [first, again, other] = [
      await simulate(7, { scenario: small }),
      await simulate(7, { scenario: small }),
      await simulate(8, { scenario: small }),
    ]

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
      const take = ({ seed, traceHash }: Outcome): boolean => found.push(`${seed} ${traceHash}`) < 4
      await runSeeds([3, 4, 5, 6, 7], { workers, take, plan: { scenario: small } })
      return found
    }

    const [one, two] = [await hashes(1), await hashes(2)]

    expect(one).toHaveLength(4)
    expect(two).toEqual(one)
  }, 60_000)

  test('leaves out of a failure what it does not need', async () => {
    const scenario = { nodes: 1, tasks: 4, faults: { 'store put back': 1, crash: 1, 'slow disk': 1 } }
    const failed = await firstThatFails(scenario)

    const { kept, outcome } = await shrink(failed, { scenario, runsMax: 20 })

    const checkers = failed.violations.map(({ checker }) => checker)
    expect(outcome.violations.some(({ checker }) => checkers.includes(checker))).toBe(true)
    expect(kept.length).toBeLessThan(failed.planned.length)
    const again = await simulate(failed.seed, { scenario, kept: new Set(kept) })
    expect(again.traceHash).toBe(outcome.traceHash)
  }, 60_000)

  test('reads every scenario that is kept, and has a row of the documentation for each', () => {
    expect(scenarioNames().map(readScenario)).not.toEqual([])
    expect(rowsOf('Scenarios')).toEqual(scenarioNames())
  })

  test('has the matrix of bugs and checks in the documentation as it was run, and why each check stays', () => {
    const { checks } = JSON.parse(readFileSync(join(docs, 'reference/figures/mutants.json'), 'utf8')) as {
      readonly checks: readonly Readonly<{ check: string; finds: readonly string[]; alone: readonly string[] }>[]
    }
    const rows = [...sectionOf('Planted bugs').matchAll(/^\| ([a-z-]+) \| (\d+) \| ([^|]*) \| ([^|]*) \|$/gm)]

    expect(rows.map(([, ...cells]) => cells.slice(0, 3).map((cell) => cell.trim()))).toEqual(
      checks.map(({ check, finds, alone }) => [
        check,
        String(finds.length),
        alone.map((name) => `\`${name}\``).join(', '),
      ]),
    )
    expect(checks.filter(({ finds }) => finds.length === 0)).toEqual([])
    for (const [, check, , alone, why] of rows) expect(alone?.trim() || why?.trim(), check).toBeTruthy()
    expect(checks.map(({ check }) => check)).toEqual([...allChecks.map(({ name }) => name), 'no-bugs'].sort())
  })

  test('has a row of the documentation for each planted bug', () => {
    const patches = globSync('mutants/*.patch', { cwd: import.meta.dirname }).map((file) => basename(file, '.patch'))

    expect(rowsOf('Planted bugs')).toEqual(patches.sort())
  })
})

const docs = join(import.meta.dirname, '../docs')

function sectionOf(title: string): string {
  const page = readFileSync(join(docs, 'internals/testing.md'), 'utf8')
  return page.split(/^## /m).find((part) => part.startsWith(title)) ?? ''
}

/** The first column of a section's table. */
function rowsOf(title: string): readonly (string | undefined)[] {
  return [...sectionOf(title).matchAll(/^\| `([a-z-]+)` \|/gm)].map((match) => match[1])
}

/** A store that is put back breaks promises that the scenario does not excuse. */
async function firstThatFails(scenario: Scenario): Promise<Outcome> {
  for (let seed = 1; seed <= 20; seed++) {
    const outcome = await simulate(seed, { scenario })
    if (outcome.violations.length > 0) return outcome
  }
  throw new Error('no seed failed')
}

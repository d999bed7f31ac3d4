import { describe, expect, test } from 'vitest'
import { read } from '../../test/support/sources.ts'
import { cellMin, cellName, cells, isFatal, phases, planCampaign, processes, wholeCampaign } from './cells.ts'

const seeds = Array.from({ length: 50 }, (_, index) => index)

describe('the plan of a kill campaign', () => {
  test('draws every cell often enough, whatever the seed', () => {
    const thin = seeds.flatMap((seed) => {
      const drawn = planCampaign(wholeCampaign, seed).flatMap((trial) => (trial.kind === 'held' ? trial.kills : []))
      const counts = new Map<string, number>()
      for (const kill of drawn) counts.set(cellName(kill), (counts.get(cellName(kill)) ?? 0) + 1)
      return cells
        .map((cell) => `${cellName(cell)}: ${counts.get(cellName(cell)) ?? 0} with seed ${seed}`)
        .filter((line) => Number(/: (\d+)/.exec(line)?.[1]) < cellMin)
    })

    expect(thin).toEqual([])
  })

  test('follows from the seed alone, and differs from seed to seed', () => {
    expect(planCampaign(20, 7)).toEqual(planCampaign(20, 7))
    expect(planCampaign(20, 8)).not.toEqual(planCampaign(20, 7))
  })

  test('kills nothing that is no longer there', () => {
    const after = seeds.flatMap((seed) =>
      planCampaign(wholeCampaign, seed).flatMap((trial) => {
        if (trial.kind !== 'held') return []
        const [fatal, ...more] = trial.kills.filter(isFatal)
        const results = trial.kills.filter(
          ({ phase }) => fatal !== undefined && phases.indexOf(phase) > phases.indexOf(fatal.phase),
        )
        return [...more, ...results.filter(({ phase }) => phases.indexOf(phase) <= phases.indexOf('result'))]
      }),
    )

    expect(after).toEqual([])
  })

  test('knows the cells that the documentation lists', () => {
    const section = read('docs/internals/testing.md').split('\nCells that exist.')[1]?.split('\n## ')[0] ?? ''
    const rows = [...section.matchAll(/^\| `(\w+)` \|(.*)\|$/gm)].map(([, process = '', marks = '']) => ({
      process,
      phases: marks.split('|').flatMap((mark, index) => (mark.trim() === 'x' ? [phases[index]] : [])),
    }))

    expect(rows).toEqual(
      processes.map((process) => ({
        process,
        phases: cells.filter((cell) => cell.process === process).map(({ phase }) => phase),
      })),
    )
  })
})

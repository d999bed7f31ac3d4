import { expect, test } from 'vitest'
import { readScenario } from './scenarios.ts'
import { simulate } from './simulate.ts'

test.each([
  ['a turn is counted lost between the reading of results and of the history', 'audited-at-work', 12],
  ['a result comes late between the reading of agents and of the history', 'audited-at-work', 8],
  ['an agent that was not there yet has a receipt when receipts are read', 'audited-at-work', 20],
  ['a node whose store was lost has yet to find that a turn has ended', 'store-lost', 28],
])('an audit accuses nobody where %s', async (_, scenario, seed) => {
  const { violations, counts } = await simulate(seed, { scenario: readScenario(scenario) })

  expect(violations).toEqual([])
  expect(counts.get('audit at work')).toBeGreaterThan(10)
  expect(counts.get('audit: a node answered')).toBeGreaterThan(10)
})

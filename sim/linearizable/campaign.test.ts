import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { SeededRandom } from '../random.ts'
import { appendModel } from './appends.ts'
import { Campaign, type CampaignOptions, type Histories } from './campaign.ts'
import { checkHistory } from './checker.ts'
import { meanOverlap } from './operation.ts'
import { ownershipModel } from './ownership.ts'
import { levelTarget, memoryTarget, type Target } from './targets.ts'

/** The short form of `npm run linearizable`. */
const shape: CampaignOptions = {
  operations: 0,
  clients: 16,
  keysAtOnce: 3,
  operationsPerKey: 400,
  dropChance: 0.02,
  operationsPerCrash: 1_000,
}

async function campaign(target: Target, options: Partial<CampaignOptions>): Promise<Histories> {
  try {
    return await new Campaign(target, new SeededRandom(7, 'campaign'), { ...shape, ...options }).run()
  } finally {
    await target.close()
  }
}

function expectSound({ ownership, appends, crashes }: Histories): void {
  expect(checkHistory(ownershipModel, ownership)).toMatchObject({ verdict: 'linearizable' })
  expect(checkHistory(appendModel, appends)).toMatchObject({ verdict: 'linearizable' })
  expect(crashes).toBeGreaterThan(0)
  const all = [...ownership, ...appends]
  expect(all.filter((one) => one.return === Number.POSITIVE_INFINITY).length).toBeGreaterThan(all.length / 100)
}

describe('ownership and logs are linearizable under crashes and lost answers', () => {
  test('over the in-memory store', async () => {
    const histories = await campaign(await memoryTarget(new SeededRandom(7, 'memory')), { operations: 6_000 })

    expectSound(histories)
    expect(meanOverlap(histories.ownership)).toBeGreaterThan(2)
  })

  test('over the real store', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'nfltr-linearizable-'))
    try {
      expectSound(await campaign(await levelTarget(join(dir, 'store')), { operations: 1_000, operationsPerCrash: 300 }))
    } finally {
      rmSync(dir, { recursive: true, force: true })
    }
  }, 60_000)

  test('and one seed gives one history over the in-memory store, so that a long run can be checked again', async () => {
    const run = async (): Promise<Histories> =>
      await campaign(await memoryTarget(new SeededRandom(7, 'memory')), { operations: 2_000, operationsPerCrash: 500 })

    const once = await run()
    expect(once.crashes).toBeGreaterThan(0)
    expect(await run()).toEqual(once)
  })

  test('and a service that forgets what it answered is found out', async () => {
    const honest = await memoryTarget(new SeededRandom(7, 'memory'))
    let calls = 0
    let stale: Awaited<ReturnType<Target['call']>>
    const forgetful: Target = {
      ...honest,
      call: async (request) => {
        const answer = await honest.call(request)
        if (request.kind !== 'append') return answer
        calls += 1
        if (calls % 100 === 0) return stale
        if (calls % 100 === 50) stale = answer
        return answer
      },
    }
    const { appends } = await campaign(forgetful, { operations: 2_000, keysAtOnce: 1, operationsPerCrash: 10_000 })

    expect(checkHistory(appendModel, appends).verdict).toBe('violated')
  })
})

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { runFlips } from './flips.ts'
import { runKills } from './kills.ts'
import { buildSyncLog, hasCompiler } from './power.ts'

let root: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nfltr-campaign-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

/** `npm run store:campaign` has the long forms. */
describe('the real store', () => {
  test('loses nothing acknowledged and tears nothing when it is killed while it writes, and raises no alarm', async () => {
    const report = await runKills(root, { rounds: 6, seed: 7 })

    expect(report).toMatchObject({ lost: 0, torn: 0, falseAlarms: 0, failures: [] })
    expect(report.acknowledged).toBeGreaterThan(60)
  }, 120_000)

  test('nor when the power goes, and a disk that lies about its syncs is found out', async ({ skip }) => {
    if (!hasCompiler()) skip('a power cut is emulated by a library that a C compiler named cc builds')
    const shim = buildSyncLog(root)

    const honest = await runKills(root, { rounds: 4, seed: 8, powerCut: { shim } })
    const lying = await runKills(root, { rounds: 1, seed: 9, powerCut: { shim, isLying: true } })

    expect(honest).toMatchObject({ lost: 0, torn: 0, falseAlarms: 0, failures: [] })
    expect(lying.lost + lying.falseAlarms).toBeGreaterThan(0)
  }, 120_000)

  test('serves no wrong value with one bit flipped, says so, and is whole after a repair', async () => {
    const report = await runFlips(join(root, 'store'), { records: 600, trials: 20, seed: 3 })

    expect(report.failures).toEqual([])
    expect(report.found.refused + report.found.read + report.found.background).toBeGreaterThan(8)
    expect(report.repaired.lossy).toBe(0)
  }, 120_000)
})

/**
 * `npm run store:campaign -- kill --n 500`: treats the real store badly and holds it to its promises. `kill`: kill -9 while it
 * writes; `power`: and the machine with it, so that what was not synced is cut off; `flip`: one flipped bit anywhere. `--seed S`
 * gives other moments and other bits; `--figures` writes docs/reference/figures/store-KIND.json. See docs/internals/testing.md.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { originOf, writeFigures } from '../../../sim/figures.ts'
import { runFlips } from './flips.ts'
import { runKills } from './kills.ts'
import { buildSyncLog } from './power.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    n: { type: 'string' },
    seed: { type: 'string', default: '1' },
    records: { type: 'string', default: '5000' },
    figures: { type: 'boolean', default: false },
  },
})
const kinds = { kill: 500, power: 300, flip: 200 } as const
const kind = positionals[0] ?? ''
if (!(kind in kinds)) throw new TypeError(`name one of ${Object.keys(kinds).join(', ')}`)
const count = Number(values.n ?? kinds[kind as keyof typeof kinds])
const seed = Number(values.seed)
const folder = mkdtempSync(join(tmpdir(), `nfltr-store-${kind}-`))
const origin = originOf()
const started = performance.now()

async function run(): Promise<{ readonly failures: readonly string[] }> {
  if (kind === 'flip')
    return await runFlips(join(folder, 'store'), { records: Number(values.records), trials: count, seed })
  if (kind === 'kill') return await runKills(folder, { rounds: count, seed })
  return await runKills(folder, { rounds: count, seed, powerCut: { shim: buildSyncLog(folder) } })
}

try {
  const { failures, ...counts } = await run()
  const seconds = Math.round((performance.now() - started) / 100) / 10
  const figures = { seed, seconds, failed: failures.length, counts }
  process.stdout.write(`${JSON.stringify({ ...origin, ...figures }, undefined, 2)}\n`)
  for (const failure of failures.slice(0, 50)) process.stdout.write(`WRONG: ${failure}\n`)
  if (values.figures) writeFigures(`store-${kind}`, origin, figures)
  process.exitCode = failures.length === 0 ? 0 : 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}

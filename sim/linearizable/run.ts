/**
 * `npm run linearizable`: clients that work on the same tasks at once, against the production decisions over the in-memory
 * and the real store, and the checker on what they saw. `--store memory|level` (both where none is given), `--operations N`,
 * `--seed N`, `--json`; `--figures` writes docs/reference/figures/linearizable.json.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { originOf, writeFigures } from '../figures.ts'
import { SeededRandom } from '../random.ts'
import { appendModel } from './appends.ts'
import { Campaign, type Histories } from './campaign.ts'
import { checkHistory, type Verdict } from './checker.ts'
import { type Model, meanOverlap, type Operation } from './operation.ts'
import { ownershipModel } from './ownership.ts'
import { levelTarget, memoryTarget, type Target } from './targets.ts'

/** Half of the operations are about ownership: as many of them as the promise names, over the in-memory store. */
const defaults = { memory: 1_260_000, level: 60_000 } as const
const operationsPerCrash = { memory: 20_000, level: 4_000 } as const

interface Judged {
  readonly operations: number
  readonly keys: number
  readonly open: number
  readonly mean_overlap: number
  readonly verdict: Verdict['verdict']
  readonly key?: string
  readonly steps: number
  readonly check_seconds: number
}

interface Report {
  readonly store: 'memory' | 'level'
  readonly seed: number
  readonly clients: number
  readonly crashes: number
  readonly run_seconds: number
  readonly ownership: Judged
  readonly appends: Judged
}

async function runOne(store: 'memory' | 'level', options: { operations: number; seed: number }): Promise<Report> {
  const random = new SeededRandom(options.seed, `linearizable/${store}`)
  const dir = mkdtempSync(join(tmpdir(), 'nfltr-linearizable-'))
  const startMs = performance.now()
  const clients = 16
  let target: Target | undefined
  let histories: Histories
  try {
    target = store === 'memory' ? await memoryTarget(random) : await levelTarget(join(dir, 'store'))
    const shape = { clients, keysAtOnce: 3, operationsPerKey: 600, dropChance: 0.014 }
    const crashes = { operationsPerCrash: operationsPerCrash[store] }
    histories = await new Campaign(target, random, { operations: options.operations, ...shape, ...crashes }).run()
  } finally {
    await target?.close()
    rmSync(dir, { recursive: true, force: true })
  }
  return {
    store,
    seed: options.seed,
    clients,
    crashes: histories.crashes,
    run_seconds: seconds(startMs),
    ownership: judge(ownershipModel, histories.ownership),
    appends: judge(appendModel, histories.appends),
  }
}

function judge<State, Input, Output>(
  model: Model<State, Input, Output>,
  history: readonly Operation<Input, Output>[],
): Judged {
  const startMs = performance.now()
  const result = checkHistory(model, history)
  const checkSeconds = seconds(startMs)
  return {
    operations: history.length,
    keys: new Set(history.map(({ key }) => key)).size,
    open: history.filter((one) => one.return === Number.POSITIVE_INFINITY).length,
    mean_overlap: Number(meanOverlap(history).toFixed(2)),
    verdict: result.verdict,
    ...('key' in result ? { key: result.key } : {}),
    steps: result.steps,
    check_seconds: checkSeconds,
  }
}

function seconds(startMs: number): number {
  return Number(((performance.now() - startMs) / 1_000).toFixed(2))
}

function print(report: Report): void {
  const { store, seed, clients, crashes, run_seconds: ran } = report
  console.log(`${store}: ${clients} clients, ${crashes} crashes, seed ${seed}, ${ran} s`)
  for (const name of ['ownership', 'appends'] as const) {
    const one = report[name]
    const share = ((100 * one.open) / Math.max(1, one.operations)).toFixed(1)
    console.log(
      `  ${name}: ${one.operations} operations on ${one.keys} tasks, ${share} % open, mean overlap ${one.mean_overlap}: ${one.verdict}${one.key === undefined ? '' : ` (${one.key})`}, ${one.steps} steps in ${one.check_seconds} s`,
    )
  }
}

const { values } = parseArgs({
  options: {
    store: { type: 'string' },
    operations: { type: 'string' },
    seed: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    figures: { type: 'boolean', default: false },
  },
})
const origin = originOf()
const wanted = (['memory', 'level'] as const).filter((name) => values.store === undefined || values.store === name)
if (wanted.length === 0) throw new TypeError(`--store is memory or level, not ${values.store}`)
const reports: Report[] = []
for (const store of wanted) {
  const operations = Number(values.operations ?? defaults[store])
  const report = await runOne(store, { operations, seed: Number(values.seed) })
  reports.push(report)
  if (!values.json) print(report)
}
if (values.json) console.log(JSON.stringify({ reports }))
if (values.figures) writeFigures('linearizable', origin, { reports })
const isSound = reports.every(({ ownership, appends }) =>
  [ownership, appends].every(({ verdict }) => verdict === 'linearizable'),
)
if (!isSound) process.exitCode = 1

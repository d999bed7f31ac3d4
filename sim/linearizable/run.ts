/**
 * `npm run linearizable`: clients that work on the same tasks at once, against the production decisions over the in-memory
 * and the real store, and the checker on what they saw. `--store memory|level` (both where none is given); `--blocks N` one
 * after the other, over the real store `--level-blocks N`, each of `--operations N` under a seed of its own, from `--seed N` on;
 * `--json`; `--figures` writes docs/reference/figures/linearizable.json.
 */
import { createHash } from 'node:crypto'
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
const defaultBlocks = { memory: 22, level: 1 } as const
const defaultOperations = 60_000
const operationsPerCrash = { memory: 5_000, level: 2_000 } as const
const clients = 20
/** What is easier than this shows little: a share without an answer, and others under way at once. A short run says it by chance. */
const hardEnough = { openShare: 0.01, overlap: 3, ofOperations: 20_000 } as const

type StoreKind = keyof typeof defaultBlocks

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

interface Block {
  readonly crashes: number
  readonly ownership: Judged
  readonly appends: Judged
  readonly hash: string
}

interface Report {
  readonly store: StoreKind
  readonly seed: number
  readonly blocks: number
  readonly block_operations: number
  readonly clients: number
  readonly crashes: number
  readonly seconds: number
  readonly ownership: Judged
  readonly appends: Judged
  /** Of the histories of each block; over a real store they are never the same twice. */
  readonly block_hashes?: readonly string[]
}

async function runBlock(store: StoreKind, options: { operations: number; seed: number }): Promise<Block> {
  const random = new SeededRandom(options.seed, `linearizable/${store}`)
  const dir = mkdtempSync(join(tmpdir(), 'nfltr-linearizable-'))
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
    crashes: histories.crashes,
    ownership: judge(ownershipModel, histories.ownership),
    appends: judge(appendModel, histories.appends),
    hash: hashOf(histories),
  }
}

function hashOf(histories: Histories): string {
  return createHash('sha256').update(JSON.stringify(histories)).digest('hex').slice(0, 16)
}

async function runAll(
  store: StoreKind,
  options: { operations: number; blocks: number; seed: number },
): Promise<Report> {
  const { operations, seed } = options
  const startMs = performance.now()
  const blocks: Block[] = []
  for (let no = 0; no < options.blocks; no++) {
    blocks.push(await runBlock(store, { operations, seed: seed + no }))
    console.error(`${store}: block ${no + 1} of ${options.blocks} after ${seconds(startMs)} s`)
  }
  return {
    store,
    seed,
    blocks: blocks.length,
    block_operations: operations,
    clients,
    crashes: blocks.reduce((sum, block) => sum + block.crashes, 0),
    seconds: seconds(startMs),
    ownership: summed(blocks.map(({ ownership }) => ownership)),
    appends: summed(blocks.map(({ appends }) => appends)),
    ...(store === 'memory' ? { block_hashes: blocks.map(({ hash }) => hash) } : {}),
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
    mean_overlap: meanOverlap(history),
    verdict: result.verdict,
    ...('key' in result ? { key: result.key } : {}),
    steps: result.steps,
    check_seconds: checkSeconds,
  }
}

/** Of several blocks; the worst verdict counts. */
function summed(all: readonly Judged[]): Judged {
  const sum = (of: (one: Judged) => number): number => all.reduce((total, one) => total + of(one), 0)
  const operations = sum((one) => one.operations)
  const worst =
    all.find(({ verdict }) => verdict === 'violated') ?? all.find(({ verdict }) => verdict === 'undecided') ?? all[0]
  return {
    operations,
    keys: sum(({ keys }) => keys),
    open: sum(({ open }) => open),
    mean_overlap: rounded(sum((one) => one.mean_overlap * one.operations) / Math.max(1, operations)),
    verdict: worst?.verdict ?? 'undecided',
    ...(worst?.key === undefined ? {} : { key: worst.key }),
    steps: sum(({ steps }) => steps),
    check_seconds: rounded(sum((one) => one.check_seconds)),
  }
}

function seconds(startMs: number): number {
  return rounded((performance.now() - startMs) / 1_000)
}

function rounded(value: number): number {
  return Number(value.toFixed(2))
}

function print(report: Report): void {
  const { store, seed, blocks, crashes, seconds: ran } = report
  console.log(`${store}: ${clients} clients, ${blocks} blocks from seed ${seed} on, ${crashes} crashes, ${ran} s`)
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
    operations: { type: 'string', default: `${defaultOperations}` },
    blocks: { type: 'string', default: `${defaultBlocks.memory}` },
    'level-blocks': { type: 'string', default: `${defaultBlocks.level}` },
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
  const blocks = Number(store === 'memory' ? values.blocks : values['level-blocks'])
  const report = await runAll(store, { operations: Number(values.operations), blocks, seed: Number(values.seed) })
  reports.push(report)
  if (!values.json) print(report)
}
if (values.json) console.log(JSON.stringify({ reports }))
if (values.figures) writeFigures('linearizable', origin, { reports })
const all = reports.flatMap(({ ownership, appends }) => [ownership, appends])
const isSound = all.every(({ verdict }) => verdict === 'linearizable')
const isHard = all.every(
  ({ operations, open, mean_overlap: overlap }) =>
    operations < hardEnough.ofOperations ||
    (open >= operations * hardEnough.openShare && overlap >= hardEnough.overlap),
)
if (!isHard) console.error(`too easy to show anything: ${JSON.stringify(hardEnough)} is asked for`)
if (!isSound || !isHard) process.exitCode = 1

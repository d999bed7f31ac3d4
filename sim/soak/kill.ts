/**
 * `npm run soak:kill -- --n 60 --seed S`: kills node, keeper, hub, adapter and agent program of a running mesh with
 * signal 9, at every phase of an agent's life, and holds what comes to what was promised. All draws follow from the seed;
 * what the machine does in between does not. `--only N` runs one trial of the campaign, `--figures` writes
 * docs/reference/figures/soak-kill.json. See docs/internals/testing.md.
 */
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Origin, originOf, writeFigures } from '../figures.ts'
import {
  cellMin,
  cellName,
  cells,
  type Kill,
  phases,
  planCampaign,
  planTopUp,
  processes,
  type TrialPlan,
  wholeCampaign,
} from './cells.ts'
import { judge, type Verdict } from './judge.ts'
import { Mesh } from './mesh.ts'
import { Trial } from './trial.ts'

const trialBoundMs = 150_000
/** After so many trials the mesh is stopped, looked over, and made anew. */
const trialsPerMesh = 20
const temporaryRoot = tmpdir()

interface Options {
  readonly trials: number
  readonly seed: number
  readonly only: number | undefined
  readonly figures: boolean
}

interface Tally {
  run: number
  readonly kills: Map<string, number>
  readonly missed: Map<string, number>
  readonly outcomes: Map<string, number>
  readonly failed: { readonly number: number; readonly objections: readonly string[]; readonly folder: string }[]
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      n: { type: 'string', default: '60' },
      seed: { type: 'string', default: '1' },
      only: { type: 'string' },
      figures: { type: 'boolean', default: false },
    },
  })
  const whole = (name: string, text: string): number => {
    if (!/^\d{1,9}$/.test(text)) throw new TypeError(`--${name} takes a whole number`)
    return Number(text)
  }
  return {
    trials: whole('n', values.n),
    seed: whole('seed', values.seed),
    only: values.only === undefined ? undefined : whole('only', values.only),
    figures: values.figures,
  }
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}

async function runTrial(mesh: Mesh, plan: TrialPlan, tally: Tally): Promise<readonly string[]> {
  const started = performance.now()
  tally.run += 1
  const trial = new Trial(mesh, plan)
  let verdict: Verdict
  try {
    const work = trial.run().then(() => judge(mesh, trial))
    const bound = delay(trialBoundMs, undefined, { ref: false }).then(() => {
      throw new Error(`it took longer than ${trialBoundMs / 1_000} s`)
    })
    verdict = await Promise.race([work, bound])
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    verdict = { outcome: 'none', came: 'never', objections: [text] }
    trial.hands.thaw()
    writeFileSync(join(mesh.folder, 'what-was.json'), JSON.stringify(await trial.whatIs(), undefined, 2))
  }
  const { killed, missed } = trial.hands
  for (const kill of killed) count(tally.kills, cellName(kill))
  for (const kill of missed) count(tally.missed, cellName(kill))
  count(tally.outcomes, `${verdict.outcome}, ${verdict.came}`)
  const names = killed.map(cellName).join(', ') || 'nothing'
  const seconds = ((performance.now() - started) / 1_000).toFixed(1)
  console.log(`trial ${plan.number} (${plan.kind}): killed ${names}: ${verdict.outcome}, ${verdict.came}; ${seconds} s`)
  for (const objection of verdict.objections) console.log(`  WRONG: ${objection}`)
  return verdict.objections
}

/** Trials beyond the planned ones that a campaign may take to fill its cells. */
const topUpMax = 12

/** Cells that were hit too seldom. A part of a campaign fills none. */
function thinCells(options: Options, tally: Tally): readonly Kill[] {
  if (options.only !== undefined || options.trials < wholeCampaign) return []
  return cells.filter((cell) => (tally.kills.get(cellName(cell)) ?? 0) < cellMin)
}

/** The planned trials, and then, as long as cells are thin, one for the first of them. */
function* withTopUp(plans: readonly TrialPlan[], options: Options, tally: Tally): Generator<TrialPlan, void> {
  yield* plans
  for (let extra = 1; extra <= topUpMax; extra++) {
    const [cell] = thinCells(options, tally)
    if (cell === undefined) return
    yield planTopUp(cell, { number: options.trials + extra, seed: options.seed })
  }
}

/** A mesh that failed is kept to be looked at, and the next trial gets another one. */
async function runCampaign(options: Options, tally: Tally): Promise<void> {
  const plans = planCampaign(options.trials, options.seed).filter(
    ({ number }) => options.only === undefined || number === options.only,
  )
  let mesh: Mesh | undefined
  let onMesh: number[] = []
  const fail = (number: number, objections: readonly string[], folder: string): void => {
    tally.failed.push({ number, objections, folder })
    const again = `npm run soak:kill -- --n ${options.trials} --seed ${options.seed} --only ${number}`
    console.log(`  kept: ${folder}; again with: ${again}`)
  }
  const retire = async (): Promise<void> => {
    if (mesh === undefined) return
    const old = mesh
    mesh = undefined
    const left = await old.stop().catch((error: unknown) => [`the mesh did not stop: ${String(error)}`])
    for (const what of left) console.log(`  WRONG: left behind by trials ${onMesh[0]} to ${onMesh.at(-1)}: ${what}`)
    if (left.length > 0) fail(onMesh.at(-1) ?? 0, left, old.folder)
    old.dispose({ keepsFolder: left.length > 0 })
    onMesh = []
  }
  for (const plan of withTopUp(plans, options, tally)) {
    mesh ??= await Mesh.start(temporaryRoot)
    onMesh.push(plan.number)
    const objections = await runTrial(mesh, plan, tally)
    if (objections.length > 0) {
      fail(plan.number, objections, mesh.folder)
      mesh.dispose({ keepsFolder: true })
      mesh = undefined
      onMesh = []
    } else if (onMesh.length === trialsPerMesh) await retire()
  }
  await retire()
}

function print(tally: Tally, seconds: number): void {
  const width = 10
  const row = (name: string, cellsOfRow: readonly string[]): string =>
    name.padEnd(width) + cellsOfRow.map((text) => text.padStart(width)).join('')
  console.log(`\n${row('', [...phases])}`)
  for (const process of processes) {
    const numbers = phases.map((phase) => {
      const number = tally.kills.get(cellName({ process, phase }))
      const exists = cells.some((cell) => cell.process === process && cell.phase === phase)
      return number === undefined ? (exists ? '0' : '-') : String(number)
    })
    console.log(row(process, numbers))
  }
  const sum = (counts: ReadonlyMap<string, number>): number =>
    [...counts.values()].reduce((total, one) => total + one, 0)
  console.log(`\n${sum(tally.kills)} kills in ${seconds} s; ${sum(tally.missed)} found nothing to kill`)
  for (const [name, times] of [...tally.outcomes].sort()) console.log(`  ${String(times).padStart(5)} ${name}`)
}

function writeDown(options: Options, tally: Tally, origin: Origin): void {
  const sorted = (counts: ReadonlyMap<string, number>): Record<string, number> => Object.fromEntries([...counts].sort())
  writeFigures('soak-kill', origin, {
    seed: options.seed,
    trials: tally.run,
    failed: tally.failed.length,
    kills: sorted(tally.kills),
    missed: sorted(tally.missed),
    outcomes: sorted(tally.outcomes),
  })
}

async function main(): Promise<void> {
  const options = readOptions()
  const tally: Tally = { run: 0, kills: new Map(), missed: new Map(), outcomes: new Map(), failed: [] }
  const origin = originOf()
  await runCampaign(options, tally)
  const seconds = Math.round((Date.now() - Date.parse(origin.started_at)) / 1_000)
  print(tally, seconds)
  const thin = thinCells(options, tally)
  for (const cell of thin) console.log(`fewer than ${cellMin} kills: ${cellName(cell)}`)
  if (options.figures) writeDown(options, tally, origin)
  console.log(`${tally.run - tally.failed.length} passed, ${tally.failed.length} failed`)
  process.exit(tally.failed.length > 0 || thin.length > 0 ? 1 : 0)
}

await main()

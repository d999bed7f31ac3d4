/**
 * `npm run growth`: much work in a world in which nothing goes wrong, and what it costs as it grows: `--nodes N`, `--tasks N`
 * in all; `--meshes N` hubs that share them, `--in-flight N` agents of each; `--workers N` threads, one for each processor where
 * nothing is said; `--json` prints one document; `--figures` writes docs/reference/figures/growth.json.
 */
import { availableParallelism } from 'node:os'
import { memoryUsage } from 'node:process'
import { parseArgs } from 'node:util'
import { originOf, writeFigures } from './figures.ts'
import type { GrowthReading } from './growing-meshes.ts'
import { grow } from './growth.ts'

interface Measured extends GrowthReading {
  /** Since the run began. */
  readonly seconds: number
  /** Of this part of the run. */
  readonly eventsPerSecond: number
  readonly msPerTask: number
  readonly rssMiB: number
}

const startMs = performance.now()
const { values } = parseArgs({
  options: {
    nodes: { type: 'string', default: '1000' },
    tasks: { type: 'string', default: '10000' },
    meshes: { type: 'string' },
    'in-flight': { type: 'string', default: '200' },
    workers: { type: 'string', default: String(availableParallelism()) },
    json: { type: 'boolean', default: false },
    figures: { type: 'boolean', default: false },
  },
})
const nodes = Number(values.nodes)
const plan = {
  nodes,
  tasks: Number(values.tasks),
  meshes: values.meshes === undefined ? Math.ceil(nodes / 1_000) : Number(values.meshes),
  inFlight: Number(values['in-flight']),
  workers: Number(values.workers),
}
for (const [name, value] of Object.entries(plan)) {
  if (!Number.isSafeInteger(value) || value < 1) throw new TypeError(`--${name} takes a whole number above 0`)
}

const origin = values.figures ? originOf() : undefined
const measured: Measured[] = []
const measure = (reading: GrowthReading): void => {
  const before = measured.at(-1) ?? { tasks: 0, events: 0, seconds: 0 }
  const seconds = (performance.now() - startMs) / 1_000
  const spent = seconds - before.seconds
  measured.push({
    ...reading,
    virtualMs: Math.round(reading.virtualMs),
    seconds: rounded(seconds),
    eventsPerSecond: Math.round((reading.events - before.events) / spent),
    msPerTask: rounded((1_000 * spent) / (reading.tasks - before.tasks)),
    rssMiB: Math.round(memoryUsage.rss() / 1024 / 1024),
  })
  if (!values.json) console.log(lineOf(measured.at(-1)))
}
const { wrong, ...total } = await grow(plan, measure)
const seconds = rounded((performance.now() - startMs) / 1_000)
const summary = {
  nodes: plan.nodes,
  tasks: total.tasks,
  meshes: plan.meshes,
  in_flight: plan.inFlight,
  workers: plan.workers,
  events: total.events,
  events_per_second: Math.round(total.events / seconds),
  virtual_seconds: Math.round(total.virtualMs / 1_000),
  wrong: wrong.length,
  readings: measured.map((one) => ({
    tasks: one.tasks,
    seconds: one.seconds,
    events_per_second: one.eventsPerSecond,
    ms_per_task: one.msPerTask,
    rss_mib: one.rssMiB,
  })),
}
if (values.json) console.log(JSON.stringify(summary))
else {
  for (const what of wrong.slice(0, 20)) console.log(`wrong: ${what}`)
  console.log(`${summary.events} events in ${seconds} s; ${total.tasks} tasks read once, ${wrong.length} wrong`)
}
if (origin !== undefined) writeFigures('growth', origin, { ...summary, seconds })
if (wrong.length > 0) process.exitCode = 1

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}

function lineOf(one: Measured | undefined): string {
  if (one === undefined) return ''
  const { tasks, seconds: atSeconds, eventsPerSecond, msPerTask, rssMiB } = one
  return `${String(tasks).padStart(8)} tasks after ${atSeconds} s: ${eventsPerSecond} events/s, ${msPerTask} ms a task, ${rssMiB} MiB`
}

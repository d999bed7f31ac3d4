import { Worker } from 'node:worker_threads'
import type { MeshPlan } from './growing-mesh.ts'
import { type GrowthOutcome, type GrowthReading, growMeshes } from './growing-meshes.ts'

/** How much is done, in all. */
export interface GrowthPlan {
  /** Meshes, each with one hub and its share of nodes and tasks: one mesh takes at most a thousand members. */
  readonly meshes: number
  readonly nodes: number
  readonly tasks: number
  /** Agents that one hub has asked for and whose results it has not read. */
  readonly inFlight: number
  /** Threads that share the meshes; with one, everything is in this one. */
  readonly workers: number
}

/** What a thread says of its meshes. */
export type WorkerWord =
  | { readonly type: 'reading'; readonly reading: GrowthReading }
  | { readonly type: 'outcome'; readonly outcome: GrowthOutcome }

/** Readings of a run, at most. */
const readings = 20

/**
 * Worlds in which nothing goes wrong and much is done: whether the cost of a task stays the same, however many there were.
 * Every task is one agent that answers once; each result is counted, and its text is compared with what was asked. The outcome
 * depends on the plan alone, not on the number of threads.
 *
 * @param onReading - is told up to twenty times how far it is, each time a twentieth further
 */
export async function grow(plan: GrowthPlan, onReading: (reading: GrowthReading) => void): Promise<GrowthOutcome> {
  const share = { nodes: Math.ceil(plan.nodes / plan.meshes), tasks: Math.ceil(plan.tasks / plan.meshes) }
  const meshes = Array.from({ length: plan.meshes }, (_, index): MeshPlan => {
    return { name: `m${index}`, ...share, inFlight: plan.inFlight }
  })
  const count = Math.min(plan.workers, plan.meshes)
  const groups = Array.from({ length: count }, (_, group) => meshes.filter((_mesh, index) => index % count === group))
  const step = (share.tasks * plan.meshes) / readings
  const latest = new Map<number, GrowthReading>()
  let told = 0
  const take = (group: number, reading: GrowthReading): void => {
    latest.set(group, reading)
    const all = together([...latest.values()])
    if (Math.floor(all.tasks / step) === told) return
    told = Math.floor(all.tasks / step)
    onReading(all)
  }
  const run = count === 1 ? growMeshes : growInWorker
  const outcomes = await Promise.all(groups.map((group, index) => run(group, (reading) => take(index, reading))))
  return { ...together(outcomes), wrong: outcomes.flatMap(({ wrong }) => wrong) }
}

function together(parts: readonly GrowthReading[]): GrowthReading {
  return {
    tasks: parts.reduce((sum, { tasks }) => sum + tasks, 0),
    events: parts.reduce((sum, { events }) => sum + events, 0),
    virtualMs: Math.max(...parts.map(({ virtualMs }) => virtualMs)),
  }
}

function growInWorker(
  meshes: readonly MeshPlan[],
  onReading: (reading: GrowthReading) => void,
): Promise<GrowthOutcome> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('growth-worker.ts', import.meta.url), { workerData: meshes })
    worker.on('error', reject)
    worker.on('exit', () => reject(new Error(`the thread of ${meshes.map(({ name }) => name).join(', ')} ended early`)))
    worker.on('message', (word: WorkerWord) => {
      if (word.type === 'reading') onReading(word.reading)
      else resolve(word.outcome)
    })
  })
}

import { Worker } from 'node:worker_threads'
import { runSeed } from './run-seed.ts'
import type { Scenario } from './scenario.ts'
import type { Outcome } from './simulate.ts'

/** Seeds that a worker is given at a time. */
const chunkSeeds = 4

/** How each seed is run. */
export interface SeedPlan {
  readonly scenario?: Scenario
  readonly kept?: ReadonlySet<string>
}

export interface SeedsOptions {
  readonly plan: SeedPlan
  /** Threads; with one, everything runs in this one. */
  readonly workers: number
  /** Is told of every outcome, in the order of the seeds whoever ran them. @returns false where no more are wanted */
  readonly take: (outcome: Outcome) => boolean
}

/** Runs seeds. What is told depends on the seeds alone, not on the number of workers. */
export async function runSeeds(seeds: readonly number[], options: SeedsOptions): Promise<void> {
  if (options.workers > 1 && seeds.length > 1) return inWorkers(seeds, options)
  for (const seed of seeds) if (!options.take(await runSeed(seed, options.plan))) return
}

async function inWorkers(seeds: readonly number[], { workers: count, take, plan }: SeedsOptions): Promise<void> {
  const done = new Map<number, Outcome>()
  let [next, told, isOver] = [0, 0, false]
  const tell = (): void => {
    for (let outcome = done.get(told); outcome !== undefined && !isOver; outcome = done.get(told)) {
      done.delete(told++)
      isOver = !take(outcome)
    }
  }
  const runOne = async (worker: Worker): Promise<void> => {
    while (!isOver && next < seeds.length) {
      const first = next
      const chunk = seeds.slice(first, first + chunkSeeds)
      next += chunk.length
      for (const [index, outcome] of (await askWorker(worker, chunk)).entries()) done.set(first + index, outcome)
      tell()
    }
  }
  const workers = Array.from(
    { length: count },
    () => new Worker(new URL('seed-worker.ts', import.meta.url), { workerData: plan }),
  )
  try {
    await Promise.all(workers.map(runOne))
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()))
  }
}

function askWorker(worker: Worker, chunk: readonly number[]): Promise<readonly Outcome[]> {
  return new Promise((resolve, reject) => {
    const ended = (): void => reject(new Error(`the worker that ran the seeds ${chunk.join(', ')} ended`))
    worker.once('error', reject)
    worker.once('exit', ended)
    worker.once('message', (outcomes: readonly Outcome[]) => {
      worker.off('error', reject)
      worker.off('exit', ended)
      resolve(outcomes)
    })
    worker.postMessage(chunk)
  })
}

/** A thread that runs the seeds that it is given, a few at a time. `seeds.ts` starts it. */
import { parentPort, workerData } from 'node:worker_threads'
import { runSeed } from './run-seed.ts'
import type { SeedPlan } from './seeds.ts'
import type { Outcome } from './simulate.ts'

const port = parentPort
const plan = workerData as SeedPlan
if (port === null) throw new Error('seed-worker.ts is a thread of sim/run.ts')

port.on('message', async (seeds: readonly number[]) => {
  const outcomes: Outcome[] = []
  for (const seed of seeds) {
    const outcome = await runSeed(seed, plan)
    // What went before is only looked at where something failed.
    outcomes.push(outcome.violations.length === 0 ? { ...outcome, lastTrace: [], planned: [] } : outcome)
  }
  port.postMessage(outcomes)
})

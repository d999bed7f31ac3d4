/** A thread that runs the seeds that it is given, a few at a time. `seeds.ts` starts it. */
import { parentPort } from 'node:worker_threads'
import { runSeed } from './run-seed.ts'
import type { Outcome } from './simulate.ts'

const port = parentPort
if (port === null) throw new Error('seed-worker.ts is a thread of sim/run.ts')

port.on('message', async (seeds: readonly number[]) => {
  const outcomes: Outcome[] = []
  for (const seed of seeds) {
    const outcome = await runSeed(seed)
    // What went before is only looked at where something failed.
    outcomes.push(outcome.violations.length === 0 ? { ...outcome, lastTrace: [] } : outcome)
  }
  port.postMessage(outcomes)
})

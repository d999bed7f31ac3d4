import process from 'node:process'
import { newMachine } from '../../../test/e2e/machine.ts'
import { Session } from '../../soak/session.ts'
import type { BenchOptions, Figure, Result } from '../figure.ts'
import { bareStartMs } from '../probes.ts'
import { summary } from '../statistics.ts'

/** How long Claude Code waits for the adapter at the start of a session. */
export const adapter: Figure = {
  name: 'initialize',
  async measure(options: BenchOptions): Promise<readonly Result[]> {
    process.env['TMPDIR'] = options.folder
    const machine = await newMachine({ program: [options.main] })
    try {
      const initialized: number[] = []
      const bare: number[] = []
      const rounds = options.isQuick ? 1 : options.rounds
      for (let round = options.isQuick ? 0 : -1; round < rounds; round += 1) {
        const startedMs = performance.now()
        const session = await Session.open(machine)
        const tookMs = performance.now() - startedMs
        await session.close()
        const bareMs = await bareStartMs()
        if (round < 0) continue
        initialized.push(tookMs)
        bare.push(bareMs)
      }
      const series = { initialized: summary(initialized), 'bare runtime': summary(bare) }
      return [
        {
          name: 'initialize',
          what: "start of the adapter to its answer to the client's initialize",
          unit: 'ms',
          value: series.initialized.median,
          floor: { kind: 'at_most', value: 500 },
          series,
        },
      ]
    } finally {
      await machine[Symbol.asyncDispose]()
    }
  },
}

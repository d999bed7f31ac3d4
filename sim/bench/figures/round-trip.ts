import { encodeFrame } from '../../../src/wire/session-codec.ts'
import { Bed } from '../bed.ts'
import type { BenchOptions, Figure, Result } from '../figure.ts'
import { playHub } from '../players.ts'
import { EchoProbe } from '../probes.ts'
import { summary } from '../statistics.ts'

/** In turns of this many, so that what disturbs one series disturbs the other. */
const block = 50

/** An empty command to a real node and back, against a raw TCP round trip of the same size. */
export const roundTrip: Figure = {
  name: 'round-trip',
  async measure(options: BenchOptions): Promise<readonly Result[]> {
    const bed = await Bed.start(options)
    const echo = await EchoProbe.start()
    try {
      const status = await bed.nodeControl()?.status()
      const hub = await playHub(bed, String(status?.['peer_id']))
      const bytes = encodeFrame({ type: 'control', message: { type: 'probe', nonce: 1_000 } }).length
      const command: number[] = []
      const tcp: number[] = []
      const blocks = options.isQuick ? 4 : 6 * options.rounds
      for (let turn = -2; turn < blocks; turn += 1) {
        for (let n = 0; n < block; n += 1) {
          const tookMs = await hub.probeMs()
          if (turn >= 0) command.push(tookMs)
        }
        for (let n = 0; n < block; n += 1) {
          const tookMs = await echo.roundTripMs(bytes)
          if (turn >= 0) tcp.push(tookMs)
        }
      }
      await hub.end()
      const series = { command: summary(command), tcp: summary(tcp) }
      return [
        {
          name: 'round-trip',
          what: `empty command hub to node to hub (${bytes} bytes) / raw TCP round trip of that size, medians`,
          unit: 'x',
          value: series.command.median / series.tcp.median,
          floor: { kind: 'at_most', value: 4 },
          series,
        },
      ]
    } finally {
      echo.end()
      await bed.end()
    }
  },
}

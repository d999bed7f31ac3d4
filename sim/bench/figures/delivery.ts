import { Bed, sessionKey } from '../bed.ts'
import type { BenchOptions, Figure, Result } from '../figure.ts'
import { DiskProbe } from '../probes.ts'
import { sharedNowMs, summary } from '../statistics.ts'

/** About what a small result takes in the log of a store. */
const recordBytes = 512
const probesPerRound = 8

/** From the node's decision that a turn ended to the reply that carries its result, with real keepers and programs. */
export const delivery: Figure = {
  name: 'delivery',
  async measure(options: BenchOptions): Promise<readonly Result[]> {
    const bed = await Bed.start(options, { marks: true })
    const disk = new DiskProbe(options.folder)
    try {
      const hub = await bed.holdHub()
      const offered: number[] = []
      const stored: number[] = []
      const raw: number[] = []
      const rounds = 2 * options.rounds
      for (let round = -2; round < rounds; round += 1) {
        const spawnKey = `bench-spawn-${round}`
        const spawn = { tool: 'spawn_agent', args: { brief: 'say done' }, callKey: spawnKey, sessionKey } as const
        const { agent_id: agentId } = JSON.parse((await hub.client.call(spawn)).body) as { agent_id: string }
        await hub.client.confirm(spawnKey)
        const callKey = `bench-call-${round}`
        const args = { agent_ids: [agentId], mode: 'any' }
        await hub.client.call({ tool: 'wait_for_agents', args, callKey, sessionKey })
        const repliedMs = sharedNowMs()
        await hub.client.confirm(callKey)
        const marks = bed.marks()
        const given = marks.findLast(({ key, what }) => what === 'given' && key.startsWith('node/result/'))
        const offer = marks.find(
          ({ key, what, atMs }) => what === 'synced' && key.startsWith('hub/offer/') && atMs > (given?.atMs ?? 0),
        )
        if (given === undefined || offer === undefined) throw new Error('hub or node noted no record')
        const probes = Array.from({ length: probesPerRound }, () => disk.appendMs(recordBytes))
        if (round < 0) continue
        offered.push(repliedMs - given.atMs)
        stored.push(offer.atMs - given.atMs)
        raw.push(...probes)
      }
      const series = { offered: summary(offered), stored: summary(stored), append: summary(raw) }
      return [
        {
          name: 'delivery',
          what: 'result at the node to the reply of the hub that offers it / raw append and fdatasync, medians',
          unit: 'x',
          value: series.offered.median / series.append.median,
          floor: { kind: 'at_most', value: 6 },
          series,
        },
      ]
    } finally {
      disk.end()
      await bed.end()
    }
  },
}

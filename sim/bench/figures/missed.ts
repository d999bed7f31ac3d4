import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { until } from '../../soak/until.ts'
import { Bed } from '../bed.ts'
import type { BenchOptions, Figure, Result } from '../figure.ts'
import { sharedNowMs, summary } from '../statistics.ts'

/** A turn ends while its hub is dead; the session's next call starts the hub again and gets the result. */
export const missed: Figure = {
  name: 'missed',
  async measure(options: BenchOptions): Promise<readonly Result[]> {
    const bed = await Bed.start(options)
    try {
      const session = await bed.openSession()
      await session.tool('list_nodes', {})
      const got: number[] = []
      const { rounds } = options
      for (let round = -1; round < rounds; round += 1) {
        const go = join(bed.folder, `go-${round + 1}`)
        const brief = `wait ${round}`
        bed.play({ [brief]: [{ say: 'waiting' }, { wait_for_file: go }, { say: 'over' }] })
        const { agent_id: agentId } = await session.tool('spawn_agent', { brief })
        const hub = await until('the hub answers', () => bed.hub())
        const stateOf = async (): Promise<unknown> => (await hub.client.showAgent(String(agentId)))['state']
        await until('the agent runs', async () => ((await stateOf()) === 'running' ? true : undefined))
        process.kill(hub.pid, 'SIGKILL')
        writeFileSync(go, '')
        const control = bed.nodeControl()
        await until('the node has the end', async () => {
          const status = await control?.status()
          return (status?.['agents'] as readonly unknown[] | undefined)?.length === 0 ? true : undefined
        })
        const startedMs = sharedNowMs()
        const reply = await session.tool('wait_for_agents', { agent_ids: [agentId] })
        const tookMs = sharedNowMs() - startedMs
        if ((reply['results'] as readonly unknown[]).length !== 1) throw new Error('the result did not come')
        if (round >= 0) got.push(tookMs)
      }
      const series = { result: summary(got) }
      return [
        {
          name: 'missed',
          what: "a call after the hub's kill -9 to the result of a turn that ended meanwhile, the hub's start with it",
          unit: 'ms',
          value: series.result.median,
          floor: { kind: 'at_most', value: 1_000 },
          series,
        },
      ]
    } finally {
      await bed.end()
    }
  },
}

import { until } from '../../soak/until.ts'
import { Bed, sessionKey } from '../bed.ts'
import type { BenchOptions, Figure, Result } from '../figure.ts'
import { bareStartMs } from '../probes.ts'
import { sharedNowMs, summary } from '../statistics.ts'

/** Attempts that ended here and are kept, as they are for a week: a restart looks at them. */
const keptAttempts = 24

/** From the start of a node whose last run was killed to the moment the hub lists it as online. */
export const restart: Figure = {
  name: 'restart',
  async measure(options: BenchOptions): Promise<readonly Result[]> {
    const bed = await Bed.start(options)
    try {
      const session = await bed.openSession()
      await session.tool('list_nodes', {})
      const hub = await until('the hub answers', () => bed.hub())
      const agents = await Promise.all(
        Array.from({ length: options.isQuick ? 2 : keptAttempts }, () =>
          session.tool('spawn_agent', { brief: 'done' }),
        ),
      )
      const ids = agents.map(({ agent_id }) => agent_id)
      await session.tool('wait_for_agents', { agent_ids: ids, mode: 'all', max_bytes: 200_000 })
      const state = async (): Promise<unknown> => {
        const callKey = `bench-call-${Math.random()}`
        const { body } = await hub.client.call({ tool: 'list_nodes', args: {}, callKey, sessionKey })
        const { nodes } = JSON.parse(body) as { nodes: readonly { name: string; state: string }[] }
        return nodes.find(({ name }) => name === 'worker')?.state
      }
      const listed: number[] = []
      const ready: number[] = []
      const bare: number[] = []
      const { rounds } = options
      for (let round = -1; round < rounds; round += 1) {
        bed.node.kill('SIGKILL')
        await bed.node.finished
        await until('the hub sees it gone', async () => ((await state()) === 'online' ? undefined : true))
        const startedMs = sharedNowMs()
        const node = bed.startNode()
        const isReady = node.event('ready').then(() => sharedNowMs() - startedMs)
        await until('the node is listed', async () => ((await state()) === 'online' ? true : undefined))
        const listedMs = sharedNowMs() - startedMs
        const readyMs = await isReady
        const bareMs = await bareStartMs()
        if (round < 0) continue
        listed.push(listedMs)
        ready.push(readyMs)
        bare.push(bareMs)
      }
      const series = { listed: summary(listed), ready: summary(ready), 'bare runtime': summary(bare) }
      return [
        {
          name: 'restart',
          what: `start of a node that was killed, with ${ids.length} ended attempts kept, to listed as online by its hub`,
          unit: 'ms',
          value: series.listed.median,
          floor: { kind: 'at_most', value: 350 },
          series,
        },
      ]
    } finally {
      await bed.end()
    }
  },
}

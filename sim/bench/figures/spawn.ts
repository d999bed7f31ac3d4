import { join } from 'node:path'
import { until } from '../../soak/until.ts'
import { Bed } from '../bed.ts'
import type { BenchOptions, Figure, Result } from '../figure.ts'
import { firstLineMs } from '../probes.ts'
import { SshServer } from '../ssh.ts'
import { sharedNowMs, summary } from '../statistics.ts'

/** What the node starts the program with in streaming mode, as far as the script looks at it. */
const streaming = ['-p', '--input-format', 'stream-json', '--output-format', 'stream-json', '--verbose']
const message = `${JSON.stringify({ type: 'user', message: { role: 'user', content: 'hello' } })}\n`

/** From the spawn to the agent's first line in the hub's log, against ssh that starts the same program. */
export const spawn: Figure = {
  name: 'spawn',
  async measure(options: BenchOptions): Promise<readonly Result[]> {
    const ssh = await SshServer.start(options.folder)
    const bed = await Bed.start(options, { marks: true })
    try {
      const session = await bed.openSession()
      await session.tool('list_nodes', {})
      const command = [bed.program, ...streaming]
      const spawned: number[] = []
      const viaSsh: number[] = []
      const bare: number[] = []
      const { rounds } = options
      for (let round = -1; round < rounds; round += 1) {
        const { tookMs, agentId } = await spawnMs(bed, session)
        await session.tool('wait_for_agents', { agent_ids: [agentId], mode: 'all' })
        const ssh1 = await ssh.firstLineMs(command, message)
        const bare1 = await firstLineMs(bed.program, streaming, { input: message })
        if (round < 0) continue
        spawned.push(tookMs)
        viaSsh.push(ssh1)
        bare.push(bare1)
      }
      const series = { spawn: summary(spawned), ssh: summary(viaSsh), program: summary(bare) }
      const own = series.spawn.median - series.program.median
      return [
        {
          name: 'spawn',
          what: "(spawn to the agent's first event at the hub - the program's own start) / ssh running the same program",
          unit: 'x',
          value: own / series.ssh.median,
          floor: { kind: 'at_most', value: 0.5 },
          series,
        },
      ]
    } finally {
      ssh.end()
      await bed.end()
    }
  },
}

/** From the call to the moment the first line of the agent's log is on the hub's disk. */
async function spawnMs(
  bed: Bed,
  session: Awaited<ReturnType<Bed['openSession']>>,
): Promise<{ readonly tookMs: number; readonly agentId: string }> {
  const startedMs = sharedNowMs()
  const { agent_id } = await session.tool('spawn_agent', { brief: 'say done' })
  const agentId = String(agent_id)
  const mark = await until('the first line of the log is at the hub', () =>
    bed.marks().find(({ key, what }) => what === 'synced' && key.startsWith(join('hub/event', agentId))),
  )
  return { tookMs: mark.atMs - startedMs, agentId }
}

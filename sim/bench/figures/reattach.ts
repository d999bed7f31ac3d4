import { rmSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { Session } from '../../soak/session.ts'
import { until, untilTrue } from '../../soak/until.ts'
import { Bed } from '../bed.ts'
import type { BenchOptions, Figure, Result } from '../figure.ts'
import { fillInbox } from '../filled-inbox.ts'
import { bareStartMs } from '../probes.ts'
import { summary } from '../statistics.ts'

const undelivered = 1_000

/** A session attaches to its hub, which keeps a large inbox: while the hub runs, and after it was killed. */
export const reattach: Figure = {
  name: 'reattach',
  async measure(options: BenchOptions): Promise<readonly Result[]> {
    const entries = options.isQuick ? 2_000 : 100_000
    const full = await Bed.start(options)
    const empty = await Bed.start(options)
    try {
      await fill(full, entries)
      const warm: number[] = []
      const cold: number[] = []
      const coldEmpty: number[] = []
      const bare: number[] = []
      const { rounds } = options
      for (let round = -1; round < rounds; round += 1) {
        const coldMs = await attachMs(full)
        const warmMs = await attachMs(full)
        await killHub(full)
        const emptyMs = await attachMs(empty)
        await killHub(empty)
        const bareMs = await bareStartMs()
        if (round < 0) continue
        warm.push(warmMs)
        cold.push(coldMs)
        coldEmpty.push(emptyMs)
        bare.push(bareMs)
      }
      const series = {
        'hub runs': summary(warm),
        'hub was killed': summary(cold),
        'hub was killed, empty inbox': summary(coldEmpty),
        'bare runtime': summary(bare),
      }
      const floor = { kind: 'at_most', value: 150 } as const
      return [
        {
          name: 'reattach',
          what: `a new session's first call to its answer, with ${entries} entries in the inbox of a running hub`,
          unit: 'ms',
          value: series['hub runs'].median,
          floor,
          series,
        },
        {
          name: 'reattach-cold',
          what: `the same where the hub was killed and is started by the call, with ${entries} entries`,
          unit: 'ms',
          value: series['hub was killed'].median,
          floor,
          series: {},
        },
        {
          name: 'reattach-entries',
          what: `what ${entries} entries add to that start, against an empty inbox`,
          unit: 'ms',
          value: series['hub was killed'].median - series['hub was killed, empty inbox'].median,
          series: {},
        },
      ]
    } finally {
      await full.end()
      await empty.end()
    }
  },
}

/** A session of its own; what counts is its first call, since the adapter looks for the hub with it. */
async function attachMs(bed: Bed): Promise<number> {
  const session = await Session.open(bed.owner)
  const startedMs = performance.now()
  await session.tool('wait_for_agents', { timeout_ms: 0, max_bytes: 4_096, agent_ids: [] }).catch(() => undefined)
  const tookMs = performance.now() - startedMs
  await session.close()
  await untilTrue('the hub is free', async () => (await (await bed.hub())?.client.status())?.state === 'free')
  return tookMs
}

async function killHub(bed: Bed): Promise<void> {
  const hub = await bed.hub()
  if (hub === undefined) return
  process.kill(hub.pid, 'SIGKILL')
  await untilTrue('the hub is gone', async () => (await bed.hub()) === undefined)
}

/** The hub ends, and its store is made anew with so many entries. */
async function fill(bed: Bed, entries: number): Promise<void> {
  const session = await Session.open(bed.owner)
  await session.tool('list_nodes', {})
  const { hubId } = await until('the hub answers', () => bed.hub())
  await session.close()
  await bed.owner.run(['hub', 'stop'])
  const status = await bed.nodeControl()?.status()
  const dir = join(bed.owner.home, 'hubs', hubId)
  rmSync(dir, { recursive: true, force: true })
  await fillInbox(dir, { entries, undelivered, peerId: String(status?.['peer_id']), machine: 'worker' })
}

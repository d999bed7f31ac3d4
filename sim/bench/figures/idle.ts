import { spawn } from 'node:child_process'
import process from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { processesTouching } from '../../soak/leftovers.ts'
import { until } from '../../soak/until.ts'
import { type Memory, memoryOf, processorMs, wakes } from '../accounting.ts'
import { Bed } from '../bed.ts'
import type { BenchOptions, Figure, Result } from '../figure.ts'
import { summary } from '../statistics.ts'

/** What starting leaves behind is over by then. */
const settleSeconds = 10

interface Usage extends Memory {
  readonly processorPercent: number
  readonly wakesPerSecond: number
}

const floors: Readonly<Record<string, { readonly percent?: number; readonly mib: number }>> = {
  node: { percent: 0.1, mib: 90 },
  hub: { percent: 0.1, mib: 90 },
  keeper: { mib: 60 },
  adapter: { mib: 100 },
}

/** What node, hub, adapter and keeper take while nothing happens. */
export const idle: Figure = {
  name: 'idle',
  async measure(options: BenchOptions): Promise<readonly Result[]> {
    const quiet = await Bed.start(options)
    const working = await Bed.start(options)
    const bare = spawn(process.execPath, ['-e', 'setInterval(() => {}, 2 ** 30)'], { stdio: 'ignore' })
    try {
      const session = await quiet.openSession()
      await session.tool('list_nodes', {})
      const hub = await until('the hub answers', () => quiet.hub())
      const keeper = await hangingKeeper(working)
      const pids = { node: quiet.node.pid, hub: hub.pid, adapter: session.pid, keeper, 'bare runtime': bare.pid ?? -1 }
      const seconds = options.isQuick ? Math.min(options.idleSeconds, 5) : options.idleSeconds
      if (!options.isQuick) await delay(settleSeconds * 1_000)
      const usage = await usageOver(pids, seconds)
      return Object.entries(usage).flatMap(([name, used]) => resultsOf(name, used, seconds))
    } finally {
      bare.kill()
      await quiet.end()
      await working.end()
    }
  },
}

/** The keeper of an agent whose program says nothing more. */
async function hangingKeeper(bed: Bed): Promise<number> {
  const session = await bed.openSession()
  bed.play({ hang: [{ say: 'at it' }, { hang: true }] })
  const { agent_id: agentId } = await session.tool('spawn_agent', { brief: 'hang' })
  const hub = await until('the hub answers', () => bed.hub())
  await until('the agent runs', async () =>
    (await hub.client.showAgent(String(agentId)))['state'] === 'running' ? true : undefined,
  )
  const found = processesTouching(bed.folder).find(({ command }) => /keeper[/.]\S*(?:main)?\.?[jt]s/.test(command))
  if (found === undefined) throw new Error('no keeper was found')
  return found.pid
}

async function usageOver<Name extends string>(
  pids: Readonly<Record<Name, number>>,
  seconds: number,
): Promise<Readonly<Record<Name, Usage>>> {
  const entries = Object.entries(pids) as [Name, number][]
  const before = new Map(entries.map(([name, pid]) => [name, { ms: processorMs(pid), wakes: wakes(pid) }]))
  const startedMs = performance.now()
  await delay(seconds * 1_000)
  const spanMs = performance.now() - startedMs
  const usage = entries.map(([name, pid]): [Name, Usage] => {
    const first = before.get(name) ?? { ms: 0, wakes: 0 }
    return [
      name,
      {
        ...memoryOf(pid),
        processorPercent: ((processorMs(pid) - first.ms) / spanMs) * 100,
        wakesPerSecond: ((wakes(pid) - first.wakes) / spanMs) * 1_000,
      },
    ]
  })
  return Object.fromEntries(usage) as Record<Name, Usage>
}

function resultsOf(name: string, used: Usage, seconds: number): readonly Result[] {
  const floor = floors[name]
  const percent = floor?.percent
  return [
    {
      name: `idle-${name.replace(' ', '-')}-processor`,
      what: `processor time of an idle ${name} over ${seconds} s`,
      unit: '%',
      value: used.processorPercent,
      ...(percent === undefined ? {} : { floor: { kind: 'at_most', value: percent } as const }),
      series: { 'wakes per second': summary([used.wakesPerSecond]) },
    },
    {
      name: `idle-${name.replace(' ', '-')}-memory`,
      what: `resident memory of an idle ${name}`,
      unit: 'MiB',
      value: used.residentMib,
      ...(floor === undefined ? {} : { floor: { kind: 'at_most', value: floor.mib } as const }),
      series: { 'shared pages by share, MiB': summary([used.proportionalMib]) },
    },
  ]
}

import type { HubClient } from '../../../src/control/client.ts'
import { until } from '../../soak/until.ts'
import { Bed, sessionKey } from '../bed.ts'
import type { BenchOptions, Figure, Result } from '../figure.ts'
import { PlayedNode } from '../players.ts'
import { DiskProbe } from '../probes.ts'
import { RedisServer } from '../redis.ts'
import { sharedNowMs, summary } from '../statistics.ts'

const inFlight = 16
const text = 'a result of some words, '.repeat(8)

/** Results from a node to the replies of a real hub, sixteen on their way at a time, against Redis Streams. */
export const flow: Figure = {
  name: 'flow',
  async measure(options: BenchOptions): Promise<readonly Result[]> {
    const redis = await RedisServer.start(options.folder)
    const bed = await Bed.start(options)
    const disk = new DiskProbe(options.folder)
    try {
      const hub = await bed.holdHub()
      bed.node.kill('SIGTERM')
      await bed.node.finished
      const node = await PlayedNode.start(bed, hub.hubId)
      const results: number[] = []
      const streams: number[] = []
      const single: number[] = []
      const raw: number[] = []
      const { rounds } = options
      const perRound = options.isQuick ? 64 : 192
      for (let round = -1; round < rounds; round += 1) {
        await claims(hub.client, node, perRound + 16)
        const alone = await flowOnce(hub.client, node, { count: 16, window: 1 })
        const flowed = await flowOnce(hub.client, node, { count: perRound, window: inFlight })
        const streamed = await streamOnce(redis, perRound)
        const probes = Array.from({ length: 16 }, () => disk.appendMs(512))
        if (round < 0) continue
        results.push(flowed.perSecond)
        streams.push(streamed)
        single.push(...alone.latenciesMs)
        raw.push(...probes)
      }
      await node.close()
      const series = {
        'results per second': summary(results),
        'redis per second': summary(streams),
        'one at a time': summary(single),
        append: summary(raw),
      }
      return [
        {
          name: 'flow',
          what: `results per second with ${inFlight} on their way / Redis Streams with appendfsync always, ${inFlight} on their way`,
          unit: 'x',
          value: series['results per second'].median / series['redis per second'].median,
          floor: { kind: 'at_least', value: 0.5 },
          series,
        },
        {
          name: 'flow-alone',
          what: 'one result at a time, played node to reply / raw append and fdatasync, medians',
          unit: 'x',
          value: series['one at a time'].median / series.append.median,
          series: {},
        },
      ]
    } finally {
      disk.end()
      redis.end()
      await bed.end()
    }
  },
}

let calls = 0

function call(hub: HubClient, tool: 'spawn_agent' | 'wait_for_agents', args: Record<string, unknown>) {
  calls += 1
  const callKey = `bench-call-${calls}`
  return { callKey, reply: hub.call({ tool, args, callKey, sessionKey }) }
}

async function claims(hub: HubClient, node: PlayedNode, count: number): Promise<void> {
  for (let left = count; left > 0; left -= 16) {
    const spawned = Array.from({ length: Math.min(16, left) }, async () => {
      const { callKey, reply } = call(hub, 'spawn_agent', { brief: 'wait for the word' })
      await reply
      await hub.confirm(callKey)
    })
    await Promise.all(spawned)
  }
  await until(`${count} attempts are claimed`, () => (node.claimed >= count ? true : undefined))
}

/** Ends attempts, so many on their way at a time, until the replies of the hub have carried all of them. */
async function flowOnce(
  hub: HubClient,
  node: PlayedNode,
  { count, window }: { readonly count: number; readonly window: number },
): Promise<{ readonly perSecond: number; readonly latenciesMs: readonly number[] }> {
  const startedMs = sharedNowMs()
  const sentAtMs = new Map<string, number>()
  const latenciesMs: number[] = []
  const confirmed: Promise<void>[] = []
  let sent = 0
  const send = (): void => {
    sent += 1
    const { agentId } = node.end(text)
    sentAtMs.set(agentId, sharedNowMs())
  }
  while (sent < Math.min(window, count)) send()
  while (latenciesMs.length < count) {
    const { callKey, reply } = call(hub, 'wait_for_agents', { max_bytes: 200_000 })
    const { results } = JSON.parse((await reply).body) as { results: readonly { agent_id: string }[] }
    const nowMs = sharedNowMs()
    for (const { agent_id: agentId } of results) {
      const atMs = sentAtMs.get(agentId)
      if (atMs === undefined) continue
      latenciesMs.push(nowMs - atMs)
      if (sent < count) send()
    }
    // As an adapter does: the session's next call does not wait for it.
    confirmed.push(hub.confirm(callKey))
  }
  await Promise.all(confirmed)
  return { perSecond: (count * 1_000) / (sharedNowMs() - startedMs), latenciesMs }
}

/** The same through a stream: added by sixteen connections, read and acknowledged by a consumer of a group. */
async function streamOnce(redis: RedisServer, count: number): Promise<number> {
  const name = `results-${calls}`
  const reader = await redis.connect()
  await reader.call('XGROUP', 'CREATE', name, 'hub', '$', 'MKSTREAM')
  const writers = await Promise.all(Array.from({ length: inFlight }, () => redis.connect()))
  const startedMs = sharedNowMs()
  let sent = 0
  let read = 0
  const send = (): void => {
    const writer = writers[sent % inFlight]
    sent += 1
    void writer?.call('XADD', name, '*', 'text', text)
  }
  while (sent < Math.min(inFlight, count)) send()
  while (read < count) {
    const found = await reader.call(
      'XREADGROUP',
      'GROUP',
      'hub',
      'one',
      'COUNT',
      '16',
      'BLOCK',
      '5000',
      'STREAMS',
      name,
      '>',
    )
    const ids = idsOf(found)
    for (const _ of ids) if (sent < count) send()
    read += ids.length
    if (ids.length > 0) await reader.call('XACK', name, 'hub', ...ids)
  }
  const perSecond = (count * 1_000) / (sharedNowMs() - startedMs)
  for (const connection of [reader, ...writers]) connection.end()
  return perSecond
}

function idsOf(found: unknown): readonly string[] {
  const [stream] = Array.isArray(found) ? (found as readonly (readonly [string, readonly [string, unknown][]])[]) : []
  return (stream?.[1] ?? []).map(([id]) => id)
}

import { describe, expect, test } from 'vitest'
import type { ClockReadings } from '../../src/ports/liveness.ts'
import { settle } from '../contracts/manual-clock.ts'
import { completed, plainCard } from './support/scripted-node.ts'
import { TwinHub } from './support/twin-hub.ts'

async function running(more: Record<string, unknown> = {}, names: readonly string[] = ['vm1']) {
  const twin = await TwinHub.withNodes(...names.map((name) => ({ name })))
  const node = twin.node('vm1')
  const { agent_id } = await twin.spawn({ machine: 'vm1', ...more })
  await settle()
  const claim = node.claims[0]
  if (claim === undefined) throw new Error('no claim')
  return { twin, node, agent_id, claim }
}

const agentOf = async (twin: TwinHub) =>
  (await twin.ask<{ agents: Record<string, unknown>[] }>('list_agents', {})).agents[0]

describe('a hub that was not running', () => {
  const clocks: readonly (keyof ClockReadings)[] = ['monotonicMs', 'wallMs', 'uptimeMs']
  test.each(clocks)('believes no link until it has answered, as %s tells', async (name) => {
    const { twin, node } = await running()
    twin.peers.silence(node)
    twin.liveness.skip(name, 60_000)
    await twin.clock.advance(1_000)
    const asleep = await agentOf(twin)
    const spawned = twin.spawn({ machine: 'vm1' })
    await twin.clock.advance(3_000)

    expect(asleep).toMatchObject({ state: 'running', liveness: { state: 'unverifiable' } })
    expect(await spawned).toMatchObject({ state: 'queued' })
    expect(node.claims).toHaveLength(1)
  })

  test('is back to work as soon as its nodes have answered', async () => {
    const { twin, node } = await running()
    twin.liveness.skip('wallMs', 3_600_000)
    await twin.clock.advance(2_000)

    expect(await agentOf(twin)).toMatchObject({ state: 'running', liveness: { state: 'live' } })
    expect(await twin.spawn({ machine: 'vm1' })).toMatchObject({ state: 'starting' })
    await settle()
    expect(node.claims).toHaveLength(2)
  })

  test('begins every silence again, whole', async () => {
    const { twin, node } = await running({ lost_after_ms: 20_000 })
    twin.peers.disconnect(node)
    await twin.clock.advance(15_000)
    twin.liveness.skip('uptimeMs', 3_600_000)
    await twin.clock.advance(16_000)
    const before = await twin.wait({ timeout_ms: 0 })
    await twin.clock.advance(8_000)

    expect(before).toMatchObject({ results: [], still_running: [{ liveness: { state: 'unverifiable' } }] })
    expect((await twin.wait()).results).toMatchObject([{ outcome: 'node_lost', details: { ground: 'silent' } }])
  })

  test('counts no time against a spawn that waits for a machine', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 0 })
    await twin.spawn({ timeout_ms: 30_000 })
    twin.liveness.skip('monotonicMs', 3_600_000)
    await twin.clock.advance(40_000)
    const still = await twin.wait({ timeout_ms: 0 })

    expect(still).toMatchObject({ results: [], still_running: [{ state: 'queued' }] })
  })
})

describe('a silence that the hub cannot tell from its own', () => {
  test('does not count while another member is connected and does not answer', async () => {
    const { twin, node } = await running({ lost_after_ms: 20_000 }, ['vm1', 'vm2'])
    twin.peers.disconnect(node)
    twin.peers.silence(twin.node('vm2'))
    await twin.clock.advance(60_000)
    const still = await twin.wait({ timeout_ms: 0 })
    twin.peers.disconnect(twin.node('vm2'))
    twin.peers.connect(twin.node('vm2'))
    await twin.clock.advance(25_000)

    expect(still).toMatchObject({ results: [], still_running: [{ liveness: { state: 'unverifiable' } }] })
    expect((await twin.wait()).results).toMatchObject([{ outcome: 'node_lost' }])
  })

  test('does not count while no interface has a route, where there is no other member', async () => {
    const { twin, node } = await running({ lost_after_ms: 20_000 })
    twin.peers.disconnect(node)
    twin.liveness.isOnNetwork = false
    await twin.clock.advance(60_000)
    const still = await twin.wait({ timeout_ms: 0 })
    twin.liveness.isOnNetwork = true
    await twin.clock.advance(19_000)
    const almost = await twin.wait({ timeout_ms: 0 })
    await twin.clock.advance(3_000)

    expect(still.results).toEqual([])
    expect(almost.results).toEqual([])
    expect((await twin.wait()).results).toMatchObject([{ outcome: 'node_lost' }])
  })
})

describe('how long a node may be silent', () => {
  test('is what its owner said, where the spawn says nothing', async () => {
    const card = { ...plainCard, lostAfterMs: 30_000 }
    const twin = await TwinHub.withNodes({ name: 'vm1', card })
    const { agent_id } = await twin.spawn()
    await settle()
    twin.peers.disconnect(twin.node('vm1'))
    await twin.clock.advance(25_000)
    const before = await twin.wait({ timeout_ms: 0 })
    await twin.clock.advance(8_000)

    expect(await twin.hub.showAgent(agent_id)).toMatchObject({ lost_after_ms: 30_000 })
    expect(before.results).toEqual([])
    expect((await twin.wait()).results).toMatchObject([{ agent_id, outcome: 'node_lost' }])
  })

  test('is what the spawn says before that', async () => {
    const card = { ...plainCard, lostAfterMs: 30_000 }
    const twin = await TwinHub.withNodes({ name: 'vm1', card })
    const { agent_id } = await twin.spawn({ lost_after_ms: 60_000 })
    await settle()
    twin.peers.disconnect(twin.node('vm1'))
    await twin.clock.advance(50_000)
    const before = await twin.wait({ timeout_ms: 0 })
    await twin.clock.advance(12_000)

    expect(await twin.hub.showAgent(agent_id)).toMatchObject({ lost_after_ms: 60_000 })
    expect(before.results).toEqual([])
    expect((await twin.wait()).results).toHaveLength(1)
  })

  test('is over before a result that was on its way: it comes late, once', async () => {
    const { twin, node, agent_id, claim } = await running({ lost_after_ms: 10_000 })
    twin.peers.disconnect(node)
    await twin.clock.advance(12_000)
    await twin.wait()
    twin.peers.connect(node)
    await settle()
    const back = await agentOf(twin)
    await node.end(claim.ref, completed('after all'))
    await settle()

    expect(back).toMatchObject({ agent_id, outcome: 'node_lost' })
    expect((await twin.wait()).results).toMatchObject([{ agent_id, late: true, text: 'after all' }])
    expect((await twin.wait()).results).toEqual([])
  })
})

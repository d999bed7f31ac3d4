import { expect, test } from 'vitest'
import { settle } from '../contracts/manual-clock.ts'
import { completed } from './support/scripted-node.ts'
import { TwinHub } from './support/twin-hub.ts'

const agentOf = async (twin: TwinHub, agentId: string) => {
  const { agents } = await twin.ask<{ agents: Record<string, unknown>[] }>('list_agents', {})
  return agents.find((agent) => agent['agent_id'] === agentId)
}

/** A turn that was counted lost for its silence, and whose node is back with it. */
async function returned() {
  const twin = await TwinHub.withNodes({ name: 'vm1', slots: 1 })
  const node = twin.node('vm1')
  const { agent_id } = await twin.spawn({ lost_after_ms: 10_000 })
  await settle()
  const claim = node.claims[0]
  if (claim === undefined) throw new Error('no claim')
  twin.peers.disconnect(node)
  await twin.clock.advance(12_000)
  const lost = await twin.wait()
  const gone = await agentOf(twin, agent_id)
  twin.peers.connect(node)
  await settle()
  await twin.clock.advance(1_000)
  return { twin, node, agent_id, claim, lost, gone }
}

test('a turn that was counted lost and is back is listed as running, superseded, and holds its slot', async () => {
  const { twin, node, agent_id, lost, gone } = await returned()
  const spawned = await twin.spawn({ machine: 'vm1' })

  expect(lost.results).toMatchObject([{ agent_id, outcome: 'node_lost' }])
  expect(gone).toMatchObject({ state: 'closed', outcome: 'node_lost' })
  expect(await agentOf(twin, agent_id)).toMatchObject({
    state: 'running',
    superseded: true,
    outcome: 'node_lost',
    liveness: { state: 'live' },
  })
  expect(spawned).toMatchObject({ state: 'queued' })
  expect(node.claims).toHaveLength(1)
  expect((await twin.wait({ agent_ids: [agent_id] })).results).toEqual([])
})

test('it can be stopped, and what it ended with comes once, late', async () => {
  const { twin, node, agent_id, claim } = await returned()
  node.react = (message) => {
    if (message.type === 'stop') {
      void node.end(claim.ref, completed('half', { outcome: 'stopped', stopCommandId: message.commandId }))
    }
    return []
  }
  const stopped = await twin.ask('stop_agent', { agent_id })
  const late = await twin.wait()

  expect(stopped).toMatchObject({
    state: 'idle',
    evidence: { text: 'half' },
    receipt: { process_exited: true, exit_proof: 'cgroup_empty' },
  })
  expect(late.results).toMatchObject([{ agent_id, outcome: 'stopped', late: true, text: 'half' }])
  expect(await agentOf(twin, agent_id)).not.toHaveProperty('superseded')
  expect((await twin.wait()).results).toEqual([])
})

test('it is closed again when its node comes back without it', async () => {
  const { twin, node, agent_id } = await returned()
  twin.peers.disconnect(node)
  node.inventory.clear()
  twin.peers.connect(node)
  await settle()
  await twin.clock.advance(1_000)

  expect(await agentOf(twin, agent_id)).toMatchObject({ state: 'closed', outcome: 'node_lost' })
})

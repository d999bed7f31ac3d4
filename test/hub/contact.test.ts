import { describe, expect, test } from 'vitest'
import type { HistoryEvent } from '../../src/core/history.ts'
import { settle } from '../contracts/manual-clock.ts'
import { type Claim, completed, ScriptedNode } from './support/scripted-node.ts'
import { TwinHub } from './support/twin-hub.ts'

async function running(more: Record<string, unknown> = {}, names: readonly string[] = ['vm1']) {
  const twin = await TwinHub.withNodes(...names.map((name) => ({ name })))
  const node = twin.node('vm1')
  const { agent_id } = await twin.spawn({ machine: 'vm1', ...more })
  await settle()
  return { twin, node, agent_id, claim: claimOf(node) }
}

function claimOf(node: ScriptedNode, no = 0): Claim {
  const claim = node.claims[no]
  if (claim === undefined) throw new Error(`no claim ${no}`)
  return claim
}

const agentOf = async (twin: TwinHub) =>
  (await twin.ask<{ agents: Record<string, unknown>[] }>('list_agents', {})).agents[0]
const nodesOf = async (twin: TwinHub) => (await twin.ask<{ nodes: Record<string, unknown>[] }>('list_nodes', {})).nodes

async function resultsInHistory(twin: TwinHub): Promise<readonly HistoryEvent[]> {
  const events: HistoryEvent[] = []
  let from: string | undefined
  do {
    const page = await twin.hub.account(from)
    events.push(...page.lines.flatMap((line) => (line.part === 'history' ? [line.record.event] : [])))
    from = page.next
  } while (from !== undefined)
  return events.filter(({ type }) => type === 'result')
}

describe('a node that was revoked', () => {
  test('loses its agents at once, with the ground, and nothing more is sent to it', async () => {
    const { twin, node, agent_id } = await running({}, ['vm1', 'vm2'])
    twin.peers.silence(node)
    await twin.spawn({ machine: 'vm1' })
    const heard = node.heard.length

    twin.peers.revoke(node)
    await settle()
    const lost = await twin.wait({ agent_ids: [agent_id] })
    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)

    expect(lost.results).toMatchObject([
      { agent_id, outcome: 'node_lost', details: { ground: 'member_gone' }, machine: 'vm1' },
    ])
    expect(node.heard.length).toBe(heard)
    expect((await nodesOf(twin)).map(({ name }) => name)).toEqual(['vm2'])
  })

  test('is waited for by no spawn that was bound to it', async () => {
    const { twin, node } = await running({}, ['vm1', 'vm2'])
    twin.peers.disconnect(node)
    await twin.clock.advance(1_000)
    const queued = await twin.spawn({ machine: 'vm1' })
    const before = queued.state

    twin.peers.revoke(node)
    await settle()
    await twin.clock.advance(3_000)
    const { results } = await twin.wait({ mode: 'all', agent_ids: [queued.agent_id] })

    expect(before).toBe('queued')
    expect(results).toMatchObject([{ agent_id: queued.agent_id, outcome: 'rejected', reason: 'revoked' }])
  })

  test('and whose name another machine has then, fails a spawn that waited for it, and the other runs nothing', async () => {
    const { twin, node } = await running({}, ['vm1', 'vm2'])
    twin.peers.disconnect(node)
    await twin.clock.advance(1_000)
    const queued = await twin.spawn({ machine: 'vm1' })
    const successor = new ScriptedNode({ clock: twin.clock, name: 'vm1', peerId: 'another-machine' })

    twin.peers.revoke(node)
    await settle()
    await twin.clock.advance(200)
    twin.peers.connect(successor)
    await settle()
    await twin.clock.advance(3_000)
    const { results } = await twin.wait({ mode: 'all', agent_ids: [queued.agent_id] })

    expect(results).toMatchObject([{ outcome: 'rejected', reason: 'machine_changed' }])
    expect(successor.claims).toEqual([])
  })

  test('counts as gone also for a hub that starts after it was revoked', async () => {
    const { twin, node, agent_id } = await running()
    await twin.crash()
    twin.revoked.push(node)
    await twin.start()
    await twin.hold()
    const lost = await twin.wait()

    expect(lost.results).toMatchObject([{ agent_id, outcome: 'node_lost', details: { ground: 'member_gone' } }])
  })
})

describe('a node that is silent', () => {
  test('makes its agents unverifiable after 5 s, and nothing is decided', async () => {
    const { twin, node } = await running()
    twin.peers.disconnect(node)
    await twin.clock.advance(3_000)
    const before = await agentOf(twin)
    await twin.clock.advance(3_000)
    const after = await agentOf(twin)

    expect(before).toMatchObject({ state: 'running', liveness: { state: 'live' } })
    expect(after).toMatchObject({
      state: 'running',
      liveness: {
        state: 'unverifiable',
        evidence: expect.stringMatching(/^vm1 does not answer; it was last heard at 20/),
      },
    })
    expect((await nodesOf(twin))[0]).toMatchObject({ name: 'vm1', state: 'unverifiable', free_slots: 0 })
    expect((await twin.wait({ timeout_ms: 0 })).results).toEqual([])
  })

  test('loses its agents after lost_after_ms, and a late result comes once', async () => {
    const { twin, node, agent_id, claim } = await running({ lost_after_ms: 20_000 })
    twin.peers.disconnect(node)
    const waiting = twin.wait()
    await settle()
    await twin.clock.advance(21_000)
    const lost = await waiting

    await node.end(claim.ref, completed('at last'))
    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)
    const late = await twin.wait()

    expect(lost.results).toMatchObject([{ agent_id, outcome: 'node_lost', details: { ground: 'silent' }, text: '' }])
    expect(late.results).toMatchObject([{ agent_id, outcome: 'completed', text: 'at last', late: true }])
    expect(await agentOf(twin)).toMatchObject({ state: 'idle', outcome: 'completed' })
    expect((await twin.wait()).results).toEqual([])
    expect(await resultsInHistory(twin)).toMatchObject([
      { outcome: 'node_lost', ground: 'silent' },
      { outcome: 'completed', isLate: true },
    ])
  })

  test('never starts what was lost before it heard of it', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    const node = twin.node('vm1')
    twin.peers.silence(node)
    await twin.spawn({ lost_after_ms: 20_000 })
    twin.peers.disconnect(node)
    const waiting = twin.wait()
    await settle()
    await twin.clock.advance(30_000)
    const lost = await waiting

    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)

    expect(lost.results).toMatchObject([{ outcome: 'node_lost' }])
    expect(node.heard).toEqual([])
    expect(node.opens.length).toBeGreaterThan(1)
  })

  test('is not lost while the hub cannot prove its own link', async () => {
    const { twin, node } = await running({ lost_after_ms: 20_000 }, ['vm1', 'vm2'])
    twin.peers.disconnect(node)
    twin.peers.disconnect(twin.node('vm2'))

    await twin.clock.advance(60_000)
    const still = await twin.wait({ timeout_ms: 0 })
    twin.peers.connect(twin.node('vm2'))
    await twin.clock.advance(21_000)

    expect(still).toMatchObject({ results: [], still_running: [{ liveness: { state: 'unverifiable' } }] })
    expect((await twin.wait()).results).toMatchObject([{ outcome: 'node_lost' }])
  })

  test('is noticed on a link that says nothing, and nothing is placed there', async () => {
    const { twin, node } = await running()
    twin.peers.silence(node)
    await twin.clock.advance(20_000)

    const spawned = twin.spawn({ machine: 'vm1' })
    await settle()
    await twin.clock.advance(3_000)

    expect(await spawned).toMatchObject({ state: 'queued' })
    expect(node.claims).toHaveLength(1)
  })

  test('is probed first when its link was quiet, and used when it answers', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    await twin.clock.advance(12_000)

    expect(await twin.spawn({ timeout_ms: 0 })).toMatchObject({ state: 'starting', machine: 'vm1' })
  })

  test('gets what waited as soon as it answers again', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    const node = twin.node('vm1')
    await twin.clock.advance(12_000)
    twin.peers.silence(node)
    const spawned = twin.spawn()
    await settle()
    await twin.clock.advance(3_000)
    const before = await spawned

    twin.peers.hear(node)
    await twin.clock.advance(3_000)

    expect(before).toMatchObject({ state: 'queued' })
    expect(node.claims).toHaveLength(1)
  })

  test('counts from the start of a hub that finds work there', async () => {
    const { twin, node } = await running({ lost_after_ms: 20_000 })
    await twin.crash()
    const waiting = twin.start()
    await waiting
    twin.peers.disconnect(node)
    await twin.hold('session-2')

    const before = await agentOf(twin)
    await twin.clock.advance(25_000)

    expect(before).toMatchObject({ state: 'running' })
    expect((await twin.wait()).results).toMatchObject([{ outcome: 'node_lost' }])
  })
})

describe('a node that is back', () => {
  test('proves that a keeper is gone: lost at once', async () => {
    const { twin, node, claim } = await running()

    await node.say({ type: 'keeper_gone', ref: claim.ref, message: 'no keeper of it is there' })
    const reply = await twin.wait()

    expect(reply.results).toMatchObject([
      { outcome: 'node_lost', machine: 'vm1', details: { ground: 'keeper_gone', message: 'no keeper of it is there' } },
    ])
  })

  test('was rebooted since the claim', async () => {
    const { twin, node, claim } = await running()
    twin.peers.disconnect(node)
    node.bootId = 'boot-2'
    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)
    await node.say({ type: 'keeper_gone', ref: claim.ref, message: 'another boot' })

    expect((await twin.wait()).results).toMatchObject([{ outcome: 'node_lost', details: { ground: 'rebooted' } }])
    const { agents } = await twin.ask<{ agents: unknown[] }>('list_agents', {})
    expect(agents).toMatchObject([
      { liveness: { state: 'exited', evidence: 'its machine was started anew, and nothing of it runs' } },
    ])
  })

  test('and knows nothing of an attempt that it had claimed: lost at once', async () => {
    const { twin, node } = await running()
    twin.peers.disconnect(node)
    node.inventory.clear()
    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)

    expect((await twin.wait()).results).toMatchObject([{ outcome: 'node_lost', details: { ground: 'keeper_gone' } }])
  })

  test('keeps an attempt whose claim was only on its way when the session opened', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    const node = twin.node('vm1')
    twin.peers.silence(node)
    await twin.spawn()
    twin.peers.disconnect(node)
    await settle()
    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)

    expect(node.claims).toHaveLength(1)
    expect(await agentOf(twin)).toMatchObject({ state: 'running' })
  })

  test('keeps an attempt that it knows', async () => {
    const { twin, node } = await running()
    twin.peers.disconnect(node)
    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)

    expect(await agentOf(twin)).toMatchObject({ state: 'running', liveness: { state: 'live' } })
    expect((await twin.wait({ timeout_ms: 0 })).results).toEqual([])
  })

  test('speaks for its own attempts alone', async () => {
    const { twin, claim } = await running({}, ['vm1', 'vm2'])

    await twin
      .node('vm2')
      .say(
        { type: 'ended', ref: claim.ref, result: completed('forged') },
        { type: 'ended', ref: { ...claim.ref, agentId: 'agt_none' }, result: completed('unknown') },
        { type: 'unsupported', kind: 'claim' },
      )
    await settle()

    expect(await agentOf(twin)).toMatchObject({ state: 'running' })
    expect((await twin.wait({ timeout_ms: 0 })).results).toEqual([])
  })

  test('gets the fences of its attempts when a session opens', async () => {
    const { twin, node, claim } = await running()
    const before = twin.peers.opens.length
    twin.peers.disconnect(node)
    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)

    expect(twin.peers.opens.length).toBeGreaterThan(before)
    expect(node.opens.at(-1)).toMatchObject({
      hubId: 'hub_1',
      epoch: 1,
      fences: [{ attemptId: claim.ref.attemptId, epoch: 1 }],
    })
    expect(node.opens.at(-1)?.sessionNo).toBeGreaterThan(node.opens[0]?.sessionNo ?? 0)
  })
})

describe('list_nodes', () => {
  test('shows members by name, those that are away too', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm2', card: { labels: { zone: 'a' } } })
    twin.peers.addMember({
      machinePeerId: 'peer-vm1',
      name: 'vm1',
      roles: ['node'],
      addresses: [],
      issuedAtMs: 0,
      expiresAtMs: 2_000_000_000_000,
    })

    const listing = nodesOf(twin)
    await settle()
    await twin.clock.advance(3_000)
    const nodes = await listing
    const filtered = await twin.ask<{ nodes: { name: string }[] }>('list_nodes', { labels: { zone: 'a' } })

    expect(nodes).toMatchObject([
      { name: 'vm1', state: 'offline', free_slots: 0, membership_expires_at: '2033-05-18T03:33:20.000Z' },
      {
        name: 'vm2',
        state: 'online',
        free_slots: 2,
        max_agents: 2,
        labels: { zone: 'a' },
        allows: { all_tools: false, monitors: false, repos: [] },
        path: 'lan',
        os: 'linux',
      },
    ])
    expect(filtered.nodes.map((node) => node.name)).toEqual(['vm2'])
  })

  test('knows an absent machine by what it last said, for as long as it is a member', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', card: { capabilities: ['gpu'] } }, { name: 'vm2' })
    const [away, left] = twin.nodes.splice(0)
    if (away === undefined || left === undefined) throw new Error('no nodes')
    await twin.crash()
    twin.absent.push(away)
    await twin.start()
    await twin.hold()
    const listing = nodesOf(twin)
    await settle()
    await twin.clock.advance(3_000)

    expect(await listing).toMatchObject([{ name: 'vm1', state: 'offline', capabilities: ['gpu'] }])
    expect(twin.disk.keys().filter((key) => key.startsWith('hub/node/'))).toEqual([`hub/node/${away.peerId}`])
  })
})

describe('the epoch of a hub', () => {
  test('rises with every start', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    await twin.restart()

    expect(await twin.hub.status()).toMatchObject({ epoch: 2 })
    expect(twin.node('vm1').opens.map((open) => open.epoch)).toEqual([1, 2])
  })

  test('is raised above what a node has seen before the first command', async () => {
    const twin = await TwinHub.withNodes()
    const node = new ScriptedNode({ name: 'vm1', clock: twin.clock })
    node.highestEpochSeen = 41
    twin.peers.connect(node)
    await settle()

    expect(await twin.hub.status()).toMatchObject({ epoch: 42 })
    expect(node.opens.map((open) => open.epoch)).toEqual([42])
  })

  test('is never raised after a command: a hub that was replaced ends', async () => {
    const { twin } = await running()
    const ended = expect(twin.hub.run()).rejects.toMatchObject({ code: 'stale_epoch' })
    const other = new ScriptedNode({ name: 'vm2', clock: twin.clock })
    other.highestEpochSeen = 41
    twin.peers.connect(other)

    await ended
    expect(other.opens).toEqual([])
  })

  test('is above what a node had seen once a hub that was put back has started anew', async () => {
    const { twin } = await running()
    const ended = expect(twin.hub.run()).rejects.toMatchObject({ code: 'stale_epoch' })
    const other = new ScriptedNode({ name: 'vm2', clock: twin.clock })
    other.highestEpochSeen = 41
    twin.peers.connect(other)
    await ended
    await twin.crash()
    twin.nodes.push(other)
    await twin.start()
    await twin.clock.advance(1_000)

    expect((await twin.hub.status()).epoch).toBe(42)
    expect(other.opens).toMatchObject([{ epoch: 42 }])
  })
})

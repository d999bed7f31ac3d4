import { describe, expect, test } from 'vitest'
import type { NodeMessage } from '../../src/core/messages.ts'
import type { NodeCard } from '../../src/core/model.ts'
import { settle } from '../contracts/manual-clock.ts'
import { completed, ScriptedNode } from './support/scripted-node.ts'
import { TwinHub } from './support/twin-hub.ts'

type Declined = Extract<NodeMessage, { type: 'declined' }>

/** Lets a node decline every claim. */
function declining(node: ScriptedNode, how: Pick<Declined, 'reason' | 'isPermanent'>): void {
  node.react = (message) =>
    message.type === 'claim' ? [{ type: 'declined', ref: message.ref, message: `${node.name} said no`, ...how }] : []
}

describe('where a spawn goes', () => {
  test('to the machine that was named, else to the one with the most free slots', async () => {
    const twin = await TwinHub.withNodes({ name: 'small', slots: 1 }, { name: 'large', slots: 3 })

    const named = await twin.spawn({ machine: 'small' })
    await settle()
    const free = await twin.spawn()

    expect([named.machine, free.machine]).toEqual(['small', 'large'])
    expect(free.facts).toMatchObject({
      nodes_online: 2,
      free_slots: 2,
      agents_running: 2,
      queued: 0,
      matching_nodes: [
        { name: 'large', state: 'online', free_slots: 2 },
        { name: 'small', state: 'online', free_slots: 0 },
      ],
    })
  })

  test('nowhere else than a machine that is a member: the nearest names are told', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' }, { name: 'other' })

    await expect(twin.spawn({ machine: 'vm2' })).rejects.toMatchObject({
      code: 'invalid_argument',
      details: { argument: 'machine', nearest: ['vm1', 'other'] },
    })
  })

  test('to a machine with all labels and capabilities and the folder', async () => {
    const card: Partial<NodeCard> = {
      labels: { zone: 'a' },
      capabilities: ['gpu'],
      offers: [{ name: 'site', mode: 'rw' }],
    }
    const twin = await TwinHub.withNodes({ name: 'plain', slots: 9 }, { name: 'fit', card })

    const spawned = await twin.spawn({ labels: { zone: 'a' }, requires: ['gpu'], dir: 'site/sub' })
    await settle()

    expect(spawned.machine).toBe('fit')
    expect(twin.node('fit').claims[0]).toMatchObject({ dir: 'site/sub' })
  })

  test('carries what was set and nothing else', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 2 })

    await twin.spawn({ brief: 'plain' })
    await twin.spawn({
      brief: 'set',
      model: 'm',
      effort: 'e',
      max_budget_usd: 1.5,
      max_turns: 3,
      deadline_ms: 9,
      lost_after_ms: 7,
    })
    await settle()
    const [plain, set] = twin.node('vm1').claims

    expect(plain?.request).toEqual({ brief: 'plain' })
    expect(set).toMatchObject({
      request: { brief: 'set', model: 'm', effort: 'e', maxBudgetUsd: 1.5, maxTurns: 3, deadlineMs: 9 },
      lostAfterMs: 7,
    })
  })

  test('waits for a slot, and takes it when the agent before it ended', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 1 })
    const node = twin.node('vm1')
    await twin.spawn({ brief: 'first' })
    await settle()
    await node.tellCapacity({ free: 0, running: 1, queued: 0 })
    await settle()

    const second = await twin.spawn({ brief: 'second' })
    expect(second).toMatchObject({ state: 'queued', facts: { queued: 1, note: expect.stringContaining('free slot') } })
    const [claim] = node.claims
    if (claim === undefined) throw new Error('no claim came')
    await node.end(claim.ref, completed('done'))
    await node.tellCapacity({ free: 1, running: 0, queued: 0 })
    await settle(60)

    expect(node.claims.map((one) => one.request.brief)).toEqual(['first', 'second'])
  })

  test('waits for a machine that is away', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    const away = new ScriptedNode({ name: 'away', clock: twin.clock })
    twin.peers.join(away)

    const spawned = await twin.spawn({ machine: 'away' })
    expect(spawned).toMatchObject({ state: 'queued', facts: { note: expect.stringContaining('away') } })
    twin.peers.connect(away)
    await settle(60)
    await twin.clock.advance(1_000)

    expect(away.claims).toHaveLength(1)
    expect(twin.peers.wanted).toContain('peer-away')
  })

  test('takes a slot that only an offer on its way seemed to take, once the node has answered it', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 2 })
    const node = twin.node('vm1')
    node.react = () => []
    await twin.spawn({ machine: 'vm1' })
    await settle()
    // The slot is told as taken before the claim is answered: until then the offer counts against the other one too.
    await node.tellCapacity({ free: 1, running: 1, queued: 0 })
    await settle()

    const second = await twin.spawn({ machine: 'vm1' })
    expect(second.state).toBe('queued')
    const [first] = node.claims
    if (first === undefined) throw new Error('nothing was claimed')
    await node.say({ type: 'claimed', ref: first.ref })
    await settle()

    expect(node.claims.map(({ ref }) => ref.agentId)).toContain(second.agent_id)
  })

  test('survives a restart of the hub while it waits, with its brief', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 1 })
    await twin.node('vm1').tellCapacity({ free: 0, running: 0, queued: 0 })
    await settle()
    await twin.spawn({ brief: 'patience' })
    await twin.crash()
    twin.node('vm1').capacity = { free: 1, running: 0, queued: 0 }

    await twin.start()
    await settle(60)

    expect(twin.node('vm1').claims.map((claim) => claim.request.brief)).toEqual(['patience'])
  })

  test('is over after timeout_ms, for want of a machine', async () => {
    const twin = await TwinHub.withNodes()
    await twin.spawn({ timeout_ms: 60_000 })

    const waiting = twin.wait()
    await settle()
    await twin.clock.advance(60_000)
    const reply = await waiting

    expect(reply.results).toMatchObject([
      { outcome: 'rejected', reason: 'no_machine', text: '', usage: { cost_usd: 0 } },
    ])
    expect(twin.clock.nowMs()).toBeGreaterThanOrEqual(61_000)
  })

  test('now or never: timeout_ms 0 gives a rejected entry, not an error', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 1 })
    await twin.node('vm1').tellCapacity({ free: 0, running: 0, queued: 0 })
    await settle()

    const spawning = twin.spawn({ timeout_ms: 0 })
    await settle()
    await twin.clock.advance(3_000)
    const spawned = await spawning
    const reply = await twin.wait()

    expect(spawned.state).toBe('closed')
    expect(reply.results).toMatchObject([{ agent_id: spawned.agent_id, outcome: 'rejected', reason: 'no_machine' }])
  })

  test('now or never is placed where a slot is free', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })

    expect(await twin.spawn({ timeout_ms: 0 })).toMatchObject({ state: 'starting', machine: 'vm1' })
  })
})

describe('declines', () => {
  test('for the moment: another machine takes it', async () => {
    const twin = await TwinHub.withNodes({ name: 'busy', slots: 5 }, { name: 'free', slots: 1 })
    declining(twin.node('busy'), { reason: 'dir_busy', isPermanent: false })

    await twin.spawn()
    await settle(60)

    expect(twin.node('busy').claims).toHaveLength(1)
    expect(twin.node('free').claims).toHaveLength(1)
    expect(twin.node('free').claims[0]?.ref.epoch).toBe(2)
  })

  test('for the moment: the same machine is asked again, later and later, until the time is out', async () => {
    const twin = await TwinHub.withNodes({ name: 'busy' })
    declining(twin.node('busy'), { reason: 'dir_busy', isPermanent: false })
    await twin.spawn({ timeout_ms: 20_000 })

    const waiting = twin.wait()
    await settle()
    await twin.clock.advance(500)
    const early = twin.node('busy').claims.length
    await twin.clock.advance(20_000)
    const reply = await waiting

    expect(early).toBe(1)
    expect(twin.node('busy').claims.length).toBeGreaterThan(2)
    expect(twin.node('busy').claims.length).toBeLessThan(8)
    expect(reply.results).toMatchObject([
      {
        outcome: 'rejected',
        reason: 'dir_busy',
        details: { declines: [{ machine: 'busy', reason: 'dir_busy', message: 'busy said no' }] },
      },
    ])
  })

  test('for good: every match named, at once', async () => {
    const twin = await TwinHub.withNodes({ name: 'a' }, { name: 'b' })
    declining(twin.node('a'), { reason: 'not_logged_in', isPermanent: true })
    declining(twin.node('b'), { reason: 'claude_missing', isPermanent: true })
    await twin.spawn()

    const reply = await twin.wait()

    expect(reply.results).toMatchObject([
      {
        outcome: 'rejected',
        reason: 'declined',
        details: {
          declines: [
            { machine: 'a', reason: 'not_logged_in' },
            { machine: 'b', reason: 'claude_missing' },
          ],
        },
      },
    ])
  })

  test('for good, though the machine of the hub itself may be a node and never was one', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    twin.peers.addMember({
      machinePeerId: 'hub-machine',
      name: 'laptop',
      roles: ['owner', 'hub', 'node'],
      addresses: [],
      issuedAtMs: 0,
      expiresAtMs: Number.MAX_SAFE_INTEGER,
    })

    await twin.spawn({ dir: 'site' })
    const reply = await twin.wait()

    expect(reply.results).toMatchObject([{ outcome: 'rejected', reason: 'dir_not_offered' }])
  })

  test.each([
    ['a missing capability', { requires: ['gpu'] }, {}, 'declined'],
    ['a folder that is not offered', { dir: 'site' }, {}, 'dir_not_offered'],
    [
      'a machine without a credential',
      {},
      { unavailable: { reason: 'not_logged_in', message: 'no key' } },
      'not_logged_in',
    ],
  ] as const)('on the card: %s rejects at once', async (_, args, card, reason) => {
    const twin = await TwinHub.withNodes({ name: 'vm1', card })

    const spawned = await twin.spawn({ ...args })
    const reply = await twin.wait()

    expect(spawned.state).toBe('closed')
    expect(reply.results).toMatchObject([{ outcome: 'rejected', reason }])
    expect(reply.results[0]).not.toHaveProperty('machine')
    expect(twin.node('vm1').claims).toEqual([])
  })

  test('a name that changed hands while the spawn waited', async () => {
    const twin = await TwinHub.withNodes()
    const first = new ScriptedNode({ name: 'vm1', clock: twin.clock })
    twin.peers.join(first)
    await twin.spawn({ machine: 'vm1' })

    const [member] = twin.peers.members().filter((one) => one.machinePeerId === first.peerId)
    if (member === undefined) throw new Error('no member')
    twin.peers.addMember({ ...member, name: 'renamed' })
    const thief = new ScriptedNode({ name: 'vm1', clock: twin.clock, peerId: 'peer-thief' })
    twin.peers.connect(thief)
    await settle(60)
    const reply = await twin.wait()

    expect(reply.results).toMatchObject([{ outcome: 'rejected', reason: 'machine_changed' }])
    expect(thief.claims).toEqual([])
  })
})

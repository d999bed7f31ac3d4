import { describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import { limits } from '../../src/core/limits.ts'
import type { DriverProbe } from '../../src/ports/agent-driver.ts'
import type { MemberFacts } from '../../src/ports/peers.ts'
import { hubFacts } from '../contracts/memory-link.ts'
import { worker } from './programs.ts'
import { scriptedDriver } from './scripted-driver.ts'
import { SimulatedWorkspaces } from './simulated-workspaces.ts'
import { claim, ref, TestHub, World } from './world.ts'

/** What the node made of each claim, in order. */
function answers(world: World): readonly string[] {
  return world.hub.received.flatMap((message) => {
    if (message.type === 'claimed') return [`${message.ref.attemptId} claimed`]
    if (message.type !== 'declined') return []
    return [`${message.ref.attemptId} ${message.reason} ${message.isPermanent ? 'for good' : 'for now'}`]
  })
}

const agent = (name: string) => ({ ref: ref(name, { agentId: `agt_${name}` }) })

describe('what a node takes in', () => {
  test('is at most as many turns as it has slots, and again when one is free', async () => {
    const world = await World.open({ program: worker, settings: { maxAgents: 1 } })

    await world.hub.send(claim('a1', agent('a1')))
    await world.hub.send(claim('a2', agent('a2')))
    await world.run()
    await world.hub.send({ type: 'steer', commandId: 's', ref: agent('a1').ref, messageId: 'm', text: 'end' })
    await world.run()
    await world.hub.send(claim('a3', agent('a3')))
    await world.run()

    expect(answers(world)).toEqual(['att_a2 declined for now', 'att_a1 claimed', 'att_a3 claimed'])
    expect(world.machine.launches).toEqual(['att_a1', 'att_a3'])
    expect(world.hub.capacities.some(({ free }) => free === 0)).toBe(true)
  })

  test('may be asked for again after a decline, under another command', async () => {
    const world = await World.open({ program: worker, settings: { maxAgents: 1 } })

    await world.hub.send(claim('a1', agent('a1')))
    await world.hub.send(claim('a2', agent('a2')))
    await world.run()
    await world.hub.send({ type: 'steer', commandId: 's', ref: agent('a1').ref, messageId: 'm', text: 'end' })
    await world.run()
    await world.hub.send(claim('a2', { ...agent('a2'), commandId: 'claim-again' }))
    await world.run()

    expect(answers(world)).toEqual(['att_a2 declined for now', 'att_a1 claimed', 'att_a2 claimed'])
  })

  test('is nothing without an agent program or a credential, for good and with the reason', async () => {
    const absent = scriptedDriver({ probe: { type: 'absent', reason: 'claude_missing', message: 'Not installed.' } })
    const without = await World.open({ driver: absent })
    const keyless = await World.open({ settings: { credential: 'none' } })

    for (const world of [without, keyless]) {
      await world.hub.send(claim())
      await world.run()
    }

    expect(answers(without)).toEqual(['att_a1 claude_missing for good'])
    expect(answers(keyless)).toEqual(['att_a1 not_logged_in for good'])
    expect(without.hub.accepted).toMatchObject({
      capacity: { free: 0 },
      card: { unavailable: { reason: 'claude_missing' } },
    })
  })

  test('is nothing while the disk is almost full', async () => {
    const workspaces = new SimulatedWorkspaces()
    workspaces.free = 1024
    const world = await World.open({ program: worker, workspaces })

    await world.hub.send(claim())
    await world.run()
    workspaces.free = 1024 ** 3
    await world.hub.send(claim('a2'))
    await world.run()

    expect(answers(world)).toEqual(['att_a1 disk_full for now', 'att_a2 claimed'])
  })

  test('names what the driver found wrong, and gives the slot back', async () => {
    let isClean = false
    const driver = scriptedDriver({
      prepare: async () => {
        if (isClean) return
        throw new NfltrError('launch_failed', 'Settings would be honoured.', { details: { reason: 'unclean_config' } })
      },
    })
    const world = await World.open({ program: worker, driver, settings: { maxAgents: 1 } })

    await world.hub.send(claim())
    await world.run()
    isClean = true
    await world.hub.send(claim('a2'))
    await world.run()

    expect(answers(world)).toEqual(['att_a1 unclean_config for good', 'att_a2 claimed'])
  })

  test('is nothing new while it is about to stop, though turns that run go on', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim('a1', agent('a1')))
    await world.run()
    world.node?.drain()
    await world.hub.send(claim('a2', agent('a2')))
    await world.hub.send({ type: 'steer', commandId: 's', ref: agent('a1').ref, messageId: 'm', text: 'end' })
    await world.run()

    expect(answers(world)).toEqual(['att_a1 claimed', 'att_a2 declined for now'])
    expect(world.hub.of('ended')[0]?.result.outcome).toBe('completed')
  })

  test('never works in a folder that another running agent may write to', async () => {
    const workspaces = new SimulatedWorkspaces({ code: '/code' })
    const world = await World.open({ program: worker, workspaces, settings: { maxAgents: 4 } })

    await world.hub.send(claim('a1', { ...agent('a1'), dir: 'code/app' }))
    await world.run()
    await world.hub.send(claim('a2', { ...agent('a2'), dir: 'code/app/src' }))
    await world.hub.send(claim('a3', { ...agent('a3'), dir: 'code' }))
    await world.hub.send(claim('a4', { ...agent('a4'), dir: 'code/other' }))
    await world.hub.send(claim('a5', { ...agent('a5'), dir: 'elsewhere' }))
    await world.run()
    await world.restart()
    await world.hub.send(claim('a6', { ...agent('a6'), dir: 'code/app' }))
    await world.run()

    expect(answers(world).toSorted()).toEqual([
      'att_a1 claimed',
      'att_a2 dir_busy for now',
      'att_a3 dir_busy for now',
      'att_a4 claimed',
      'att_a5 dir_not_offered for good',
      'att_a6 dir_busy for now',
    ])
  })

  test('never gives one folder to two claims that come in one breath', async () => {
    const workspaces = new SimulatedWorkspaces({ code: '/code' })
    const world = await World.open({ program: worker, workspaces })

    await Promise.all(['a1', 'a2'].map((name) => world.hub.send(claim(name, { ...agent(name), dir: 'code' }))))
    await world.run()

    expect(world.machine.launches).toHaveLength(1)
    expect(answers(world).toSorted()).toEqual(['att_a1 claimed', 'att_a2 dir_busy for now'])
  })
})

describe('a hub that was revoked', () => {
  const revoked = (): MemberFacts => ({
    machinePeerId: hubFacts.machinePeerId,
    name: hubFacts.name,
    roles: ['hub'],
    addresses: [],
    issuedAtMs: 0,
    expiresAtMs: 2_000_000_000_000,
    revokedAtMs: 1,
  })

  test('has its turns stopped, and their results stay here', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim('a1', agent('a1')))
    await world.run()

    world.setMembers([revoked()])
    await world.run(20_000)

    expect(world.machine.launches).toEqual(['att_a1'])
    const status = await world.node?.status()
    expect(status).toMatchObject({ agents: [], running: 0 })
    const kept: string[] = []
    for await (const { key } of world.store.scan('node/result/')) kept.push(key)
    expect(kept).toHaveLength(1)
  })

  test('has them stopped also by a node that learnt of it while its agents ran alone', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim('a1', agent('a1')))
    await world.run()

    world.kill()
    world.members = [revoked()]
    await world.startNode()
    await world.run(20_000)

    expect(await world.node?.status()).toMatchObject({ agents: [], running: 0 })
    expect(world.machine.launches).toEqual(['att_a1'])
  })

  test('is not stopped for what another member did', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim('a1', agent('a1')))
    await world.run()

    world.setMembers([{ ...revoked(), machinePeerId: 'another-machine' }])
    await world.run(5_000)

    expect(await world.node?.status()).toMatchObject({ running: 1 })
  })
})

describe('a node that its owner gave to the hubs of one machine', () => {
  test('takes work from those alone, and shows the others no slots', async () => {
    const world = await World.open({ program: worker, settings: { allowHubs: ['elsewhere'] } })

    await world.hub.send(claim('a1', agent('a1')))
    await world.run()

    expect(answers(world)).toEqual(['att_a1 declined for good'])
    expect(world.machine.launches).toEqual([])
    expect(world.hub.accepted).toMatchObject({ capacity: { free: 0 }, card: { unavailable: { reason: 'declined' } } })
  })

  test('serves the machine that was named', async () => {
    const world = await World.open({ program: worker, settings: { allowHubs: ['elsewhere', hubFacts.name] } })

    await world.hub.send(claim('a1', agent('a1')))
    await world.run()

    expect(answers(world)).toEqual(['att_a1 claimed'])
    expect(world.hub.accepted?.card).not.toHaveProperty('unavailable')
  })
})

describe('a continuation', () => {
  const toEnd = { request: { brief: 'please end' } }

  test('works in the same session and the same folders', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim('a1', toEnd))
    await world.run()
    const sessionId = world.hub.of('started')[0]?.sessionId ?? ''
    await world.restart()
    await world.hub.send(claim('a2', { ...toEnd, turn: 2, resumeSessionId: sessionId }))
    await world.run()

    const [first, second] = ['att_a1', 'att_a2'].map((id) => world.machine.attempts.get(id)?.launch)
    expect(second?.args).toEqual([sessionId])
    expect(second?.cwd).toBe(first?.cwd)
    expect(world.hub.of('ended')).toHaveLength(2)
  })

  test('of a session that is not here is refused for good', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim('a1', { resumeSessionId: 'elsewhere' }))
    await world.run()

    expect(answers(world)).toEqual(['att_a1 session_missing for good'])
  })

  test('waits while the turn before it still runs', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim('a1'))
    await world.run()
    const sessionId = world.hub.of('started')[0]?.sessionId ?? ''
    await world.hub.send(claim('a2', { turn: 2, resumeSessionId: sessionId }))
    await world.run()

    expect(answers(world)).toEqual(['att_a1 claimed', 'att_a2 dir_busy for now'])
  })

  test('is still possible after a new session of its agent was declined', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim('a1', toEnd))
    await world.run()
    const sessionId = world.hub.of('started')[0]?.sessionId ?? ''

    await world.hub.send(claim('a2', { ...toEnd, dir: 'elsewhere' }))
    await world.run()
    await world.hub.send(claim('a3', { ...toEnd, turn: 2, resumeSessionId: sessionId }))
    await world.run()

    expect(answers(world)).toEqual(['att_a1 claimed', 'att_a2 dir_not_offered for good', 'att_a3 claimed'])
  })

  test('that begins a new session gets new folders, and its log lines are counted on', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim('a1', toEnd))
    await world.run()
    await world.hub.send(claim('a2', toEnd))
    await world.run()

    const [first, second] = ['att_a1', 'att_a2'].map((id) => world.machine.attempts.get(id)?.launch)
    expect(second?.cwd).not.toBe(first?.cwd)
    expect(second?.args).not.toEqual(first?.args)
    expect(world.hub.seqs()).toEqual([1, 2])
  })
})

describe('whom a node obeys', () => {
  const other = { ...hubFacts, hubId: 'hub_2', machinePeerId: 'other-machine', name: 'desktop' }

  test('is for each attempt the hub that claimed it, and nobody else', async () => {
    const world = await World.open({ program: worker })
    const stranger = await TestHub.open(other)
    await world.hub.send(claim())
    await world.run()

    await world.connect(stranger)
    await stranger.send({ type: 'stop', commandId: 'stop-x', ref: ref() })
    await stranger.send({ type: 'steer', commandId: 's', ref: ref(), messageId: 'm', text: 'end' })
    await stranger.send(claim('a1', { commandId: 'claim-x' }))
    await stranger.send(claim('a2', { commandId: 'claim-y' }))
    await world.run()

    expect(stranger.received).toMatchObject([
      { type: 'declined', ref: { attemptId: 'att_a1' }, isPermanent: true },
      { type: 'declined', ref: { attemptId: 'att_a2' }, isPermanent: true },
    ])
    expect(world.hub.of('ended')).toEqual([])
    expect(world.machine.inputs('att_a1')).toHaveLength(1)
  })

  test('is no hub of another epoch than the highest', async () => {
    const world = await World.open({ program: worker })
    world.hub.epoch = 5
    await world.connect()
    await world.restart()

    world.hub.epoch = 4
    await world.connect()

    expect(world.hub.refusal).toMatchObject({ code: 'stale_epoch' })
    expect(world.node?.highestEpoch('hub_1')).toBe(5)
    expect(world.node?.highestEpoch('hub_9')).toBeUndefined()
  })

  test.each([
    ['a node', { ...hubFacts, kind: 'node' as const }],
    ['a hub without the role', { ...hubFacts, roles: ['node' as const] }],
    ['a hub that speaks for another', { ...hubFacts, hubId: 'hub_7' }],
    ['another machine with the same hub id', { ...hubFacts, machinePeerId: 'thief' }],
  ])('is not %s', async (_, facts) => {
    const world = await World.open({ program: worker })
    const pretender = await TestHub.open(hubFacts)

    await world.connect(pretender, facts)

    expect(pretender.accepted).toBeUndefined()
    expect(pretender.refusal).toBeInstanceOf(NfltrError)
  })

  test('is no command below a fence that the session opened with', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim('a1'))
    await world.run()
    world.hub.fences = [
      { attemptId: 'att_a1', epoch: 2 },
      { attemptId: 'att_a2', epoch: 3 },
    ]
    await world.restart()

    await world.hub.send({ type: 'stop', commandId: 'old', ref: ref('a1') })
    await world.hub.send(claim('a2', { ref: ref('a2', { agentId: 'agt_2', epoch: 2 }) }))
    await world.run()
    expect(world.machine.launches).toEqual(['att_a1'])
    expect(world.hub.of('ended')).toEqual([])
    await world.hub.send({ type: 'stop', commandId: 'new', ref: ref('a1', { epoch: 2 }) })
    await world.run()

    expect(world.hub.of('ended')).toMatchObject([{ ref: { epoch: 1 }, result: { stopCommandId: 'new' } }])
  })

  test('is nothing whose ids could name a folder or a key', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim('a1', { ref: { ...ref(), attemptId: '../../etc' } }))
    await world.hub.send({ type: 'stop', commandId: 's', ref: { ...ref(), attemptId: 'ü' } })
    await world.hub.send(claim('a2'))
    await world.run()

    expect(answers(world)).toEqual(['../../etc declined for good', 'att_a2 claimed'])
  })
})

describe('what a node says of itself', () => {
  test('is its work in its status, and in the session’s opening', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim())
    await world.run()
    await world.connect()

    expect(world.hub.accepted).toMatchObject({
      bootId: 'boot-1',
      inventory: [{ attemptId: 'att_a1', state: 'running', keeper: 'live' }],
      capacity: { free: 1, running: 1, queued: 0 },
    })
    expect(await world.node?.status()).toMatchObject({
      schema: 1,
      free: 1,
      running: 1,
      agents: [{ attempt_id: 'att_a1', state: 'running' }],
      hubs: [{ hub_id: 'hub_1', connected: true }],
    })
  })

  test('changes once the agent program can be started, without a restart, and its hubs are told', async () => {
    let found: DriverProbe = { type: 'absent', reason: 'claude_missing', message: 'It was killed.' }
    let looks = 0
    const probe = async (): Promise<DriverProbe> => {
      looks += 1
      return found
    }
    const world = await World.open({ driver: { ...scriptedDriver(), probe } })
    await world.run(20_000)
    const before = world.hub.capacities.length

    found = { type: 'present', program: '/opt/program', version: '2.0.0' }
    await world.run(60_000)
    const looksOnceFound = looks
    await world.run(120_000)

    expect(world.node?.card).toMatchObject({ claudeVersion: '2.0.0' })
    expect(world.node?.card.unavailable).toBeUndefined()
    expect(world.hub.capacities.slice(before)).toMatchObject([{ free: 2 }])
    expect(looks).toBe(looksOnceFound)
  })
})

describe('what a node cannot say to a hub, since it is over a bound of the wire,', () => {
  test('is noted once and shown in its status', async () => {
    const labels = Object.fromEntries(Array.from({ length: limits.labelsMax + 1 }, (_, index) => [`l${index}`, 'x']))
    const world = await World.open()
    world.settings = { ...world.settings, labels }

    await world.restart().catch(() => undefined)

    expect(world.notes).toEqual([
      { event: 'message_unsendable', fields: { kind: 'accept', error: expect.any(String) } },
    ])
    expect(await world.node?.status()).toMatchObject({ unsendable: [{ kind: 'accept' }] })
  })
})

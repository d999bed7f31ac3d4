import { describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import type { MemoryDisk } from '../../src/store/memory-disk.ts'
import { settle } from '../contracts/manual-clock.ts'
import { stubborn, worker } from './programs.ts'
import { claim, ref, World } from './world.ts'

const toEnd = { request: { brief: 'please end' } }
const steer = (text: string) =>
  ({ type: 'steer', commandId: `steer-${text}`, ref: ref(), messageId: `m-${text}`, text }) as const

/** The store is as it was before: what the node wrote since is gone. */
function forgetSince(disk: MemoryDisk, before: ReadonlySet<string>): void {
  const since = disk.keys('node/').filter((key) => key.startsWith('node/') && !before.has(key))
  disk.apply(since.map((key) => ({ type: 'delete', key })))
}

describe('a node that starts again', () => {
  test('takes a running turn over and follows it to its end', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim())
    await world.run()

    await world.restart()
    await world.hub.send(steer('end'))
    await world.run()

    expect(world.machine.launches).toEqual(['att_a1'])
    expect(world.hub.of('ended')[0]?.result).toMatchObject({ outcome: 'completed', text: 'all done' })
    expect(world.hub.of('started')).toHaveLength(1)
    expect(world.hub.seqs()).toEqual([1, 2, 3])
  })

  test('finds the end of a turn that ended while it was away', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim())
    await world.run()

    world.kill()
    world.machine.emit('att_a1', 'text while away')
    world.machine.exit('att_a1', 1)
    await world.startNode()
    await world.connect()
    await world.run()

    expect(world.hub.of('ended')).toMatchObject([{ result: { outcome: 'failed', text: 'while away' } }])
    expect(world.hub.seqs()).toEqual([1, 2])
    expect(world.machine.swept).toEqual([])
  })

  test('removes the temporary folder of a turn whose end was its last decision', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim('a1', toEnd))
    await world.run()
    // The folder stands as if the node had died between the decision and the removal.
    world.workspaces.discarded.length = 0

    await world.restart()

    expect(world.workspaces.discarded).toEqual(['att_a1'])
  })

  test('says that a keeper is gone once it has proven that nothing runs', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim())
    await world.run()

    world.kill()
    world.machine.killKeeper('att_a1')
    await world.startNode()
    await world.connect()
    await world.run()

    expect(world.machine.swept).toEqual(['att_a1'])
    expect(world.hub.of('keeper_gone')).toMatchObject([{ ref: ref() }])
    expect(world.hub.of('ended')).toEqual([])
    expect(world.node?.card.maxAgents).toBe(2)
    expect(await world.node?.status()).toMatchObject({ free: 2 })
  })

  test('gives the whole answer where a keeper died after its program had answered', async () => {
    const world = await World.open({
      program: () => ({ started: (io) => io.line('session s'), input: (io) => io.line('result all done') }),
    })
    await world.hub.send(claim())
    await world.run()

    world.kill()
    world.machine.killKeeper('att_a1')
    await world.startNode()
    await world.connect()
    await world.run()

    expect(world.hub.of('ended')).toMatchObject([{ result: { outcome: 'completed', text: 'all done' } }])
    expect(world.hub.of('keeper_gone')).toEqual([])
  })

  test('carries on with a stop that it was given before', async () => {
    const world = await World.open({ program: stubborn })
    await world.hub.send(claim())
    await world.run()
    await world.hub.send({ type: 'stop', commandId: 'stop-1', ref: ref() })
    await settle()

    await world.restart()
    await world.run(11_000)

    expect(world.hub.of('ended')).toMatchObject([{ result: { outcome: 'stopped', stopCommandId: 'stop-1' } }])
    const stops = world.hub.of('task_events').flatMap(({ events }) => events.filter(({ type }) => type === 'state'))
    expect(stops).toHaveLength(1)
  })

  test('knows a turn again that its store forgot, counts it, and tells its hub what became of it', async () => {
    const world = await World.open({ program: worker, settings: { maxAgents: 1 } })
    const { disk } = world.store
    const before = new Set(disk.keys(''))
    await world.hub.send(claim())
    await world.run()

    world.kill()
    forgetSince(disk, before)
    await world.startNode()
    expect(await world.node?.status()).toMatchObject({ orphans: [], running: 1, free: 0 })
    await world.connect()
    await world.hub.send(claim('a2'))
    await world.hub.send(claim('a1', { commandId: 'claim-again' }))
    await world.run()
    world.machine.exit('att_a1')
    await world.run()

    expect(world.machine.launches).toEqual(['att_a1'])
    expect(world.hub.of('declined')).toMatchObject([{ ref: { attemptId: 'att_a2' } }])
    expect(world.hub.of('inventory')).toMatchObject([{ attempts: [{ ref: ref(), state: 'running' }], orphans: [] }])
    expect(world.hub.of('ended')).toMatchObject([{ ref: ref() }])
  })

  test('names a forgotten turn of which nothing runs any more as ended, though its journal is still to be read', async () => {
    const world = await World.open({ program: worker })
    const { disk } = world.store
    const before = new Set(disk.keys(''))
    await world.hub.send(claim())
    await world.run()
    await world.hub.send({ type: 'steer', commandId: 's', ref: ref(), messageId: 'm1', text: 'end' })
    await world.run()
    expect(world.hub.of('ended')).toHaveLength(1)

    world.kill()
    forgetSince(disk, before)
    await world.startNode()
    await world.connect()
    await world.run()

    expect(world.hub.of('inventory')).toMatchObject([{ attempts: [{ ref: ref(), state: 'ended' }] }])
    expect(world.hub.of('ended')).toHaveLength(2)
  })

  test('never runs a turn again that its store forgot and whose folder does not tell whose it is', async () => {
    const world = await World.open({ program: worker })
    const { disk } = world.store
    const before = new Set(disk.keys(''))
    await world.hub.send(claim())
    await world.run()

    world.kill()
    forgetSince(disk, before)
    world.machine.loseMemo('att_a1')
    await world.startNode()
    expect(await world.node?.status()).toMatchObject({ orphans: ['att_a1'], running: 0 })
    await world.connect()
    await world.hub.send(claim('a1', { commandId: 'claim-again' }))
    await world.run()

    expect(world.machine.launches).toEqual(['att_a1'])
    expect(await world.node?.status()).toMatchObject({ running: 1 })
  })

  test('rejects a turn whose keeper died before it had started anything, since nothing ran', async () => {
    const world = await World.open({ program: worker })
    world.machine.launchInstead = (attemptId) => {
      world.machine.leaveUnlaunched(attemptId)
      return new Promise(() => undefined)
    }
    await world.hub.send(claim())
    await world.run()

    world.kill()
    await world.startNode()
    await world.connect()
    await world.run()

    expect(world.machine.launches).toEqual([])
    expect(world.hub.of('keeper_gone')).toEqual([])
    expect(world.hub.of('ended')).toMatchObject([
      { result: { outcome: 'rejected', reason: 'declined', details: { end: 'not_launched' } } },
    ])
    expect(await world.node?.status()).toMatchObject({ free: 2 })
  })

  test('rejects a turn for which no keeper could be made, and one that may have begun it calls failed', async () => {
    const world = await World.open({ program: worker })
    world.machine.launchInstead = () => Promise.reject(new NfltrError('disk_full', 'No space left.'))
    await world.hub.send(claim())
    await world.run()
    world.machine.launchInstead = (attemptId) => {
      world.machine.leaveUnlaunched(attemptId, 'gone')
      return Promise.reject(new NfltrError('keeper_gone', 'It went away.'))
    }
    await world.hub.send(claim('a2'))
    await world.run()

    expect(world.hub.of('ended').map(({ result }) => [result.outcome, result.reason])).toEqual([
      ['rejected', 'disk_full'],
      ['failed', 'crashed'],
    ])
  })

  test('is not hurt by a turn whose folder somebody removed', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim())
    await world.run()

    world.kill()
    world.machine.attempts.delete('att_a1')
    await world.startNode()
    await world.connect()
    await world.run()

    expect(world.hub.of('keeper_gone')).toHaveLength(1)
    expect(world.machine.swept).toEqual(['att_a1'])
  })
})

describe('a turn whose keeper dies while its node is there', () => {
  test('is gone at once, with the proof', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim())
    await world.run()

    world.machine.killKeeper('att_a1')
    await world.run()

    expect(world.hub.of('keeper_gone')[0]?.message).toContain('cgroup_empty')
  })

  test('is stopped where a stop was under way', async () => {
    const world = await World.open({ program: stubborn })
    await world.hub.send(claim())
    await world.run()
    await world.hub.send({ type: 'stop', commandId: 'stop-1', ref: ref() })
    await world.run()

    world.machine.killKeeper('att_a1')
    await world.run()

    expect(world.hub.of('ended')).toMatchObject([{ result: { outcome: 'stopped', exitProof: 'cgroup_empty' } }])
  })

  test('ends with what was sound of its journal', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim())
    await world.run()

    world.machine.emit('att_a1', 'text lost')
    world.machine.damage('att_a1', 4)
    await world.run()

    expect(world.hub.of('ended').length + world.hub.of('keeper_gone').length).toBe(1)
    expect(world.machine.swept).toEqual(['att_a1'])
  })
})

describe('an attempt that the node does not know', () => {
  test('is proven absent when its hub stops it, what is left of it ended', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send({ type: 'stop', commandId: 'stop-1', ref: ref('a9') })
    await world.hub.send({ type: 'steer', commandId: 's', ref: ref('a9'), messageId: 'm1', text: 'x' })
    await world.run()

    expect(world.machine.swept).toEqual(['att_a9'])
    expect(world.hub.of('keeper_gone')).toMatchObject([{ ref: { attemptId: 'att_a9' } }])
    expect(world.hub.of('message')).toMatchObject([{ messageId: 'm1', state: 'not_taken' }])
  })
})

describe('what a node keeps', () => {
  /** No node runs in between, so nothing beats for all these days. */
  async function restartAfter(world: World, days: number): Promise<void> {
    world.kill()
    await world.clock.advance(days * 24 * 3_600_000)
    await world.restart()
    await world.run()
  }

  test('is a result until its receipt and seven days more, then a tombstone for ninety', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim('a1', toEnd))
    await world.run()
    const kept = () => world.store.disk.keys('node/').filter((key) => /^node\/.*att_a1/.test(key))

    await restartAfter(world, 6)
    expect(kept()).toEqual(['node/attempt/att_a1', 'node/result/att_a1'])
    expect(world.machine.attempts.size).toBe(1)
    await restartAfter(world, 2)
    expect(kept()).toEqual(['node/attempt/att_a1'])
    expect(world.machine.attempts.size).toBe(0)
    await restartAfter(world, 91)
    expect(kept()).toEqual([])
  })

  test('is a result for as long as no hub has collected it', async () => {
    const world = await World.open({ program: worker })
    world.hub.collects = false
    await world.hub.send(claim('a1', toEnd))
    await world.run()

    await restartAfter(world, 400)
    expect(world.hub.accepted?.inventory).toEqual([{ attemptId: 'att_a1', state: 'ended', keeper: 'ended' }])
    await world.hub.send(claim('a1', toEnd))
    await world.run()

    expect(world.hub.of('ended')).toHaveLength(2)
    expect(world.hub.of('ended')[1]).toEqual(world.hub.of('ended')[0])
  })

  test('is let go of without touching what runs', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim())
    await world.run()

    await world.node?.close()
    world.machine.emit('att_a1', 'text nobody reads')
    await world.run()

    expect(world.machine.attempts.get('att_a1')?.state).toBe('live')
    expect(world.hub.seqs()).toEqual([1])
    await world.restart()
    await world.run()
    expect(world.hub.seqs()).toEqual([1, 2])
  })
})

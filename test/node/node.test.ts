import { describe, expect, test } from 'vitest'
import { settle } from '../contracts/manual-clock.ts'
import { stubborn, worker } from './programs.ts'
import { claim, ref, World } from './world.ts'

const toEnd = { request: { brief: 'please end' } }

describe('a turn on a node', () => {
  test('goes from its claim to its receipt', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim('a1', toEnd))
    await world.run()

    const types = world.hub.received.map((message) => message.type)
    expect(types).toEqual(['claimed', 'started', 'task_events', 'ended', 'receipt'])
    expect(world.hub.of('ended')[0]?.result).toMatchObject({
      outcome: 'completed',
      text: 'all done',
      exitProof: 'cgroup_empty',
    })
    expect(world.hub.seqs()).toEqual([1])
    expect(world.workspaces.discarded).toEqual(['att_a1'])
  })

  test('gives its hub receipts that form a chain over restarts', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim('a1', toEnd))
    await world.run()
    await world.restart()
    await world.hub.send(claim('a2', { ...toEnd, ref: ref('a2', { agentId: 'agt_2' }) }))
    await world.run()

    expect(world.receipts).toMatchObject([
      { attemptId: 'att_a1', outcome: 'completed', previousHash: '', hubId: 'hub_1', owner: 'node-machine' },
      { attemptId: 'att_a2', outcome: 'completed', previousHash: 'rcp_1' },
    ])
    expect(world.receipts[0]?.inputsHash).not.toBe(world.receipts[0]?.resultHash)
  })

  test('is told of a message once it was taken, and of one that came too late', async () => {
    const world = await World.open({ program: worker })
    const steer = (messageId: string, text: string) =>
      world.hub.send({ type: 'steer', commandId: `steer-${messageId}`, ref: ref(), messageId, text })

    await world.hub.send(claim())
    await world.run()
    await steer('m1', 'go on')
    await world.run()
    await steer('m2', 'end')
    await world.run()
    await steer('m3', 'too late')
    await world.run()

    expect(world.hub.of('message').map(({ messageId, state }) => `${messageId} ${state}`)).toEqual([
      'm1 accepted',
      'm1 taken',
      'm2 accepted',
      'm2 taken',
      'm3 not_taken',
    ])
    expect(world.hub.of('ended')[0]?.result.messages).toEqual([
      { messageId: 'm1', state: 'taken' },
      { messageId: 'm2', state: 'taken' },
    ])
  })

  test('is stopped once, whatever is repeated', async () => {
    const world = await World.open({ program: worker })
    const stop = (commandId: string) => world.hub.send({ type: 'stop', commandId, ref: ref() })

    await world.hub.send(claim())
    await world.run()
    await stop('stop-1')
    await stop('stop-1')
    await stop('stop-2')
    await world.run()
    await stop('stop-3')
    await world.run()

    expect(world.hub.of('ended').map(({ result }) => [result.outcome, result.stopCommandId])).toEqual([
      ['stopped', 'stop-1'],
    ])
    expect(world.machine.inputs('att_a1').filter((id) => id.startsWith('interrupt'))).toEqual(['interrupt-stop-1'])
  })

  test('is ended by its process tree when the program does not answer a stop in time', async () => {
    const world = await World.open({ program: stubborn })

    await world.hub.send(claim())
    await world.run()
    await world.hub.send({ type: 'stop', commandId: 'stop-1', ref: ref() })
    await world.run(9_000)
    expect(world.hub.of('ended')).toEqual([])
    await world.run(2_000)

    expect(world.hub.of('ended')[0]?.result).toMatchObject({ outcome: 'stopped', exitProof: 'cgroup_empty' })
  })

  test('takes no message any more once a stop was asked for, and none that was queued', async () => {
    const world = await World.open({ program: stubborn })

    await world.hub.send(claim())
    await world.run()
    await world.hub.send({ type: 'stop', commandId: 'stop-1', ref: ref() })
    await world.hub.send({ type: 'steer', commandId: 's', ref: ref(), messageId: 'm1', text: 'end' })
    await world.run(15_000)

    expect(world.hub.of('message').map(({ state }) => state)).toEqual(['not_taken'])
    expect(world.machine.inputs('att_a1')).not.toContain('m1')
    expect(world.hub.of('ended')[0]?.result.outcome).toBe('stopped')
  })

  test('that completes before its stop arrives stays completed, and names the stop of which it is the answer', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim())
    await world.run()
    await Promise.all([
      world.hub.send({ type: 'steer', commandId: 's', ref: ref(), messageId: 'm1', text: 'end' }),
      world.hub.send({ type: 'stop', commandId: 'stop-1', ref: ref() }),
    ])
    await world.run()

    const [ended, ...others] = world.hub.of('ended')
    expect(others).toEqual([])
    expect(ended?.result).toMatchObject({ outcome: 'completed', text: 'all done', stopCommandId: 'stop-1' })
  })

  test('that is claimed and stopped in one breath never starts', async () => {
    const world = await World.open({ program: worker })

    await Promise.all([world.hub.send(claim()), world.hub.send({ type: 'stop', commandId: 'stop-1', ref: ref() })])
    await world.run()

    expect(world.machine.launches).toEqual([])
    expect(world.hub.received.map((message) => message.type)).toEqual(['claimed', 'ended', 'receipt'])
    const result = world.hub.of('ended')[0]?.result
    expect(result).toMatchObject({ outcome: 'stopped', stopCommandId: 'stop-1' })
    expect(result).not.toHaveProperty('exitProof')
  })

  test('runs once, and says the same, when every message of its hub comes twice', async () => {
    const world = await World.open({ program: worker })
    const twice = async (message: Parameters<typeof world.hub.send>[0]): Promise<void> => {
      await world.hub.send(message)
      await world.hub.send(message)
      await world.run()
    }

    await twice(claim())
    await twice({ type: 'steer', commandId: 's', ref: ref(), messageId: 'm1', text: 'please end' })
    await twice(claim())
    await twice({ type: 'collected', commandId: 'c', ref: ref(), resultHash: 'f'.repeat(64) })

    expect(world.machine.launches).toEqual(['att_a1'])
    expect(world.machine.inputs('att_a1').filter((id) => id === 'm1')).toEqual(['m1'])
    expect(new Set(world.hub.of('ended').map(({ result }) => JSON.stringify(result))).size).toBe(1)
    expect(new Set(world.hub.of('receipt').map(({ receipt }) => receipt.receiptId)).size).toBe(1)
    expect(world.receipts).toHaveLength(1)
    expect(world.hub.seqs()).toEqual([1, 2, 3])
  })
})

describe('log lines', () => {
  test('are gathered for 250 ms, in messages of at most 64', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim())
    await world.run()
    const before = world.hub.of('task_events').length

    for (let index = 0; index < 150; index += 1) world.machine.emit('att_a1', `text line ${index}`)
    await settle()
    await world.clock.advance(249)
    const full = world.hub.of('task_events').slice(before)
    await world.clock.advance(10)

    expect(full.map(({ events }) => events.length)).toEqual([64, 64])
    expect(world.hub.seqs()).toEqual(Array.from({ length: 151 }, (_, index) => index + 1))
  })

  test('are counted on over all turns of an agent', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim('a1', toEnd))
    await world.run()
    const sessionId = world.hub.of('started')[0]?.sessionId ?? ''
    await world.hub.send(claim('a2', { ...toEnd, turn: 2, resumeSessionId: sessionId }))
    await world.run()

    const events = world.hub.of('task_events').flatMap((message) => message.events)
    expect(events.map(({ seq, turn }) => `${turn}:${seq}`)).toEqual(['1:1', '2:2'])
  })

  test('that are too long are cut between characters', async () => {
    const world = await World.open({ program: worker })
    await world.hub.send(claim())
    await world.run()

    world.machine.emit('att_a1', `text ${'语'.repeat(10_000)}`)
    await world.run()

    const text = world.hub.of('task_events').at(-1)?.events.at(-1)?.text ?? ''
    expect(new TextEncoder().encode(text).length).toBe(16_383)
    expect(text).toBe('语'.repeat(5_461))
  })
})

import { describe, expect, test } from 'vitest'
import type { Program } from './simulated-keepers.ts'
import { claim, ref, World } from './world.ts'

/** Works, takes messages and ends when it is told `end`, by a message or its brief. */
export function worker(): Program {
  return {
    started: (io) => io.line(`session ${io.launch.args[0]}`),
    input: (io, line) => {
      const [word, id = '', ...rest] = line.split(' ')
      if (word === 'brief') io.line(`text working on ${[id, ...rest].join(' ')}`)
      if (word === 'steer') io.line(`took ${id}`)
      if (line.endsWith('end')) io.line('result all done')
      if (word === 'interrupt') io.exit(130)
    },
    inputClosed: (io) => io.exit(0),
  }
}

describe('node', () => {
  test('runs a turn from its claim to its receipt', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim('a1', { request: { brief: 'please end' } }))
    await world.run()

    expect(world.hub.received.map((message) => message.type)).toEqual([
      'claimed',
      'started',
      'task_events',
      'ended',
      'receipt',
    ])
    expect(world.hub.of('ended')[0]?.result).toMatchObject({
      outcome: 'completed',
      text: 'all done',
      exitProof: 'cgroup_empty',
    })
    expect(world.hub.seqs()).toEqual([1])
    expect(world.receipts).toMatchObject([{ attemptId: 'att_a1', outcome: 'completed', previousHash: '' }])
    expect(world.workspaces.discarded).toEqual(['att_a1'])
  })

  test('answers a repeated claim without a second launch', async () => {
    const world = await World.open({ program: worker })

    await world.hub.send(claim('a1', { request: { brief: 'please end' } }))
    await world.run()
    await world.hub.send(claim('a1', { request: { brief: 'please end' } }))
    await world.run()

    expect(world.machine.launches).toEqual(['att_a1'])
    expect(world.hub.of('claimed')).toHaveLength(2)
    expect(new Set(world.hub.of('ended').map(({ result }) => JSON.stringify(result))).size).toBe(1)
    expect(ref('a1').attemptId).toBe('att_a1')
  })
})

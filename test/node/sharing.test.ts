import { describe, expect, test } from 'vitest'
import { hubFacts } from '../contracts/memory-link.ts'
import { worker } from './programs.ts'
import { claim, TestHub, World } from './world.ts'

async function twoHubs(settings: { maxAgents: number; maxAgentsPerHub?: number }) {
  const world = await World.open({ program: worker, settings })
  const other = await TestHub.open({ ...hubFacts, hubId: 'hub_2', machinePeerId: 'hub-machine-2', peerId: 'hub-2' })
  await world.connect(other)
  return { world, other }
}

const answers = (hub: TestHub) => [
  ...hub.of('claimed').map(({ ref }) => `${ref.attemptId} claimed`),
  ...hub.of('declined').map(({ ref, reason }) => `${ref.attemptId} ${reason}`),
]

const of = (name: string) => claim(name, { ref: { ...claim(name).ref, agentId: `agt_${name}` } })

describe('a node that two hubs use', () => {
  test('gives a slot that becomes free to the hub that waits, and tells the other of none', async () => {
    const { world, other } = await twoHubs({ maxAgents: 1 })
    await world.hub.send(of('a1'))
    await world.run()
    await other.send(of('b1'))
    await world.run(250)
    await world.hub.send({
      type: 'steer',
      commandId: 'c1',
      ref: of('a1').ref,
      messageId: 'msg_end',
      text: 'end',
    })
    await world.run(1_000)
    const told = { own: world.hub.capacities.at(-1)?.free, other: other.capacities.at(-1)?.free }
    await world.hub.send(of('a2'))
    await world.run(250)
    await other.send(of('b2'))
    await world.run()

    expect(told).toEqual({ own: 0, other: 1 })
    expect(answers(world.hub)).toEqual(['att_a1 claimed', 'att_a2 declined'])
    expect(answers(other)).toEqual(['att_b2 claimed', 'att_b1 declined'])
  })

  test('lets anybody have a slot that the hub in turn does not want', async () => {
    const { world, other } = await twoHubs({ maxAgents: 1 })
    await world.hub.send(of('a1'))
    await world.run()
    await other.send(of('b1'))
    await world.run(250)
    await world.hub.send({ type: 'steer', commandId: 'c1', ref: of('a1').ref, messageId: 'msg_end', text: 'end' })
    await world.run(4_000)
    const told = world.hub.capacities.at(-1)?.free
    await world.hub.send(of('a2'))
    await world.run()

    expect(told).toBe(1)
    expect(answers(world.hub)).toEqual(['att_a1 claimed', 'att_a2 claimed'])
  })

  test('gives no hub more slots than its owner lets one have', async () => {
    const { world, other } = await twoHubs({ maxAgents: 3, maxAgentsPerHub: 2 })
    for (const name of ['a1', 'a2', 'a3']) await world.hub.send(of(name))
    await world.run()
    await other.send(of('b1'))
    await world.run()

    expect(answers(world.hub)).toEqual(['att_a1 claimed', 'att_a2 claimed', 'att_a3 declined'])
    expect(answers(other)).toEqual(['att_b1 claimed'])
    expect(world.hub.capacities.at(-1)?.free).toBe(0)
  })

  test('takes nothing more in for a hub whose results fill its share of the disk', async () => {
    const world = await World.open({ program: worker, settings: { maxAgents: 4 } })
    world.workspaces.free = 64 * 1024 * 1024 + 40 * 1024 * 1024
    for (const name of ['a1', 'a2', 'a3']) await world.hub.send(of(name))
    await world.run()

    // Each turn that is open has room for a result of 16 MiB.
    expect(answers(world.hub)).toEqual(['att_a1 claimed', 'att_a2 claimed', 'att_a3 disk_full'])
  })
})

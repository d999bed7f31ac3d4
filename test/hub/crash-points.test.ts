import { describe, expect, test } from 'vitest'
import { settle } from '../contracts/manual-clock.ts'
import { completed } from './support/scripted-node.ts'
import { TwinHub, type WaitReply } from './support/twin-hub.ts'

/**
 * Every point at which a hub or its adapter may die between an agent's end and the model's reading of it. Whatever
 * happens, the result is in exactly one reply that reached the client, or it is named and can be read again.
 */
async function running() {
  const twin = await TwinHub.withNodes({ name: 'vm1' })
  const node = twin.node('vm1')
  await twin.spawn()
  await twin.ask('list_agents', {})
  await settle()
  const [claim] = node.claims
  if (claim === undefined) throw new Error('no claim came')
  return { twin, node, end: () => node.end(claim.ref, completed('the answer')) }
}

const texts = (reply: WaitReply) => reply.results.map((result) => result.text)

describe('a crash between the end of an agent and the reading of its result', () => {
  test.each([0, 1, 2, 3])(
    'P5, P6: before the hub took it in, with %i unsynced batches surviving',
    async (keepUnsynced) => {
      const { twin, node, end } = await running()
      twin.holdSyncs()

      await end()
      await settle()
      await twin.crash({ keepUnsynced })
      await twin.start()
      await twin.hold()
      const reply = await twin.wait()

      expect(texts(reply)).toEqual(['the answer'])
      expect(reply.unconfirmed).toEqual([])
      expect(node.heard.filter((message) => message.type === 'collected')).toHaveLength(1)
      expect(node.claims).toHaveLength(1)
    },
  )

  test('P6: after the hub took it in and before its acknowledgement arrived', async () => {
    const { twin, end } = await running()
    twin.peers.silence(twin.node('vm1'))
    const { node } = { node: twin.node('vm1') }

    await end()
    await settle()
    twin.peers.disconnect(node)
    await settle()
    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)
    const reply = await twin.wait()

    expect(texts(reply)).toEqual(['the answer'])
  })

  test('P8: after the offer, before the reply left the hub; the adapter repeats its call', async () => {
    const { twin, end } = await running()
    await end()
    await settle()

    const before = await twin.call('wait_for_agents', {}, { callKey: 'k' })
    await twin.restart()
    const repeat = await twin.call('wait_for_agents', {}, { callKey: 'k' })
    await twin.hub.confirm('k')
    const next = await twin.wait()

    expect(repeat.body).toBe(before.body)
    expect(next).toMatchObject({ results: [], unconfirmed: [] })
  })

  test.each([0, 1, 2])('P8: while the offer was on its way to the disk, %i batches surviving', async (keepUnsynced) => {
    const { twin, end } = await running()
    await end()
    await settle()
    twin.holdSyncs()

    void twin.call('wait_for_agents', {}, { callKey: 'k' })
    await settle()
    await twin.crash({ keepUnsynced })
    await twin.start()
    await twin.hold()
    const repeat = JSON.parse((await twin.call('wait_for_agents', {}, { callKey: 'k' })).body) as WaitReply
    await twin.hub.confirm('k')
    const next = await twin.wait()

    expect(texts(repeat)).toEqual(['the answer'])
    expect(next).toMatchObject({ results: [], unconfirmed: [] })
  })

  test('P9: the adapter dies with the reply in its hands', async () => {
    const { twin, end } = await running()
    await end()
    await settle()
    const hold = await twin.hold()

    const lost = await twin.ask<WaitReply>('wait_for_agents', {})
    await hold.release()
    await twin.hold('session-2')
    const next = await twin.wait()

    expect(next.results).toEqual([])
    expect(next.unconfirmed.map((entry) => entry.delivery_id)).toEqual(lost.results.map((entry) => entry.delivery_id))
  })

  test('P9: adapter and hub die with the reply in the adapter', async () => {
    const { twin, end } = await running()
    await end()
    await settle()

    await twin.ask('wait_for_agents', {})
    await twin.crash()
    await twin.start()
    await twin.hold('session-2')
    const next = await twin.wait()

    expect(next).toMatchObject({ results: [], unconfirmed: [{ kind: 'result' }] })
  })

  test('P10: the client was gone when the adapter wrote, confirmed or not', async () => {
    const { twin, end } = await running()
    await end()
    await settle()

    await twin.wait({}, { callKey: 'k' })
    await twin.hub.doubt('k')
    const next = await twin.wait()

    expect(next).toMatchObject({ results: [], unconfirmed: [{ kind: 'result' }] })
  })

  test('P11: the withdrawal is lost with the hub: named, never given twice', async () => {
    const { twin, end } = await running()
    await end()
    await settle()
    await twin.ask('wait_for_agents', {}, { callKey: 'k' })
    twin.holdSyncs()

    void twin.hub.withdraw('k')
    await settle()
    await twin.crash()
    await twin.start()
    await twin.hold()
    await twin.clock.advance(30_000)
    const next = await twin.wait()

    expect(next).toMatchObject({ results: [], unconfirmed: [{ kind: 'result' }] })
  })

  test('P11: a withdrawal that is on disk frees the entry', async () => {
    const { twin, end } = await running()
    await end()
    await settle()
    await twin.ask('wait_for_agents', {}, { callKey: 'k' })

    await twin.hub.withdraw('k')
    await twin.restart()

    expect(texts(await twin.wait())).toEqual(['the answer'])
  })

  test('P12: the reply that named it is lost as well', async () => {
    const { twin, end } = await running()
    await end()
    await settle()
    await twin.ask('wait_for_agents', {})
    await twin.crash()
    await twin.start()
    await twin.hold('session-2')
    await twin.ask('wait_for_agents', {})
    await twin.crash()
    await twin.start()
    await twin.hold('session-3')

    const third = await twin.wait()
    const fourth = await twin.wait()

    expect(third.unconfirmed).toMatchObject([{ kind: 'result' }])
    expect(fourth.unconfirmed).toEqual([])
  })

  test('P13: what is named can be read again by its number, of any kind', async () => {
    const { twin, end } = await running()
    await end()
    await settle()
    await twin.ask('wait_for_agents', {})
    await twin.crash()
    await twin.start()
    await twin.hold('session-2')
    const { unconfirmed } = await twin.wait()

    for (const { delivery_id } of unconfirmed) {
      expect(await twin.ask('get_result', { delivery_id })).toMatchObject({
        entry: { delivery_id },
        text: 'the answer',
      })
    }
    expect(unconfirmed).toHaveLength(1)
  })

  test('P14: reading again is no delivery, and never ends', async () => {
    const { twin, end } = await running()
    await end()
    await settle()
    const [result] = (await twin.wait()).results

    const args = { agent_id: result?.agent_id }
    const first = await twin.ask('get_result', args)
    const second = await twin.ask('get_result', args)

    expect(first).toMatchObject({ text: 'the answer', entry: { outcome: 'completed' } })
    expect(second).toEqual(first)
    expect((await twin.wait()).unconfirmed).toEqual([])
  })

  test('P14: what was read stays read after a restart, and nothing of its delivery is kept', async () => {
    const { twin, end } = await running()
    await end()
    await settle()
    await twin.wait()
    await twin.ask('list_agents', {})
    const open = () => twin.disk.keys().filter((key) => /^hub\/(?:open|offer)\//.test(key))
    const before = open()

    await twin.crash()
    await twin.start()
    await twin.hold('session-2')

    expect(before).toEqual([])
    expect(await twin.wait()).toMatchObject({ results: [], unconfirmed: [] })
  })

  test('P16: neither status nor lists mark anything', async () => {
    const { twin, end } = await running()
    await end()
    await settle()

    await twin.hub.status()
    await twin.ask('list_agents', {})
    await twin.ask('list_nodes', {})

    expect(texts(await twin.wait())).toEqual(['the answer'])
  })

  test('a confirmation that is lost with the hub leaves the entry named, not given again', async () => {
    const { twin, end } = await running()
    await end()
    await settle()
    await twin.ask('wait_for_agents', {}, { callKey: 'k' })
    twin.holdSyncs()

    void twin.hub.confirm('k')
    await settle()
    await twin.crash()
    await twin.start()
    await twin.hold()
    await twin.hub.confirm('k')
    const next = await twin.wait()

    expect(next).toMatchObject({ results: [], unconfirmed: [] })
  })
})

describe('a crash around a spawn', () => {
  test.each([0, 1, 2, 3, 4])(
    'with %i unsynced batches surviving it happens once under its key',
    async (keepUnsynced) => {
      const twin = await TwinHub.withNodes({ name: 'vm1' })
      await twin.ask('list_nodes', {})
      twin.holdSyncs()

      void twin.call('spawn_agent', { brief: 'do it' }, { callKey: 'k' })
      await settle()
      await twin.crash({ keepUnsynced })
      await twin.start()
      await twin.hold()
      const reply = await twin.call('spawn_agent', { brief: 'do it' }, { callKey: 'k' })
      await settle()
      const again = await twin.call('spawn_agent', { brief: 'do it' }, { callKey: 'k' })

      expect(again.body).toBe(reply.body)
      expect(twin.node('vm1').claims).toHaveLength(1)
      expect(await twin.ask<{ agents: unknown[] }>('list_agents', {})).toMatchObject({ agents: [{}] })
    },
  )

  test('the agents of a hub that was killed run on, and their results come', async () => {
    const { twin, end } = await running()
    await twin.crash()
    await end()
    await settle()

    await twin.start()
    await twin.hold('session-2')
    const reply = await twin.wait()

    expect(texts(reply)).toEqual(['the answer'])
  })
})

import { describe, expect, test } from 'vitest'
import { settle } from '../contracts/manual-clock.ts'
import { completed } from './support/scripted-node.ts'
import { type SpawnReply, TwinHub } from './support/twin-hub.ts'

describe('idempotency keys', () => {
  test('the same key gives the same agent, from any session and after a restart', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    const args = { brief: 'do it', idempotency_key: 'k1' }

    const first = await twin.spawn(args)
    const second = await twin.ask<SpawnReply>('spawn_agent', args, { sessionKey: 'shell' })
    await twin.restart()
    const third = await twin.spawn(args)
    await settle()

    expect(second).toEqual(first)
    expect(third).toEqual(first)
    expect(twin.node('vm1').claims).toHaveLength(1)
  })

  test('the same key with other arguments is refused, also before the first call is answered', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })

    const first = twin.spawn({ idempotency_key: 'k1' })
    await expect(twin.spawn({ brief: 'other', idempotency_key: 'k1' })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    })
    await first
    await expect(twin.spawn({ title: 'other', idempotency_key: 'k1' })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    })
  })

  test("the order of arguments makes no difference, and a key is a tool's own", async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })

    const first = await twin.spawn({ title: 't', labels: {}, idempotency_key: 'k1' })
    const second = await twin.spawn({ labels: {}, idempotency_key: 'k1', title: 't' })
    const message = await twin.read('send_message', { agent_id: first.agent_id, text: 'more', idempotency_key: 'k1' })

    expect(second).toEqual(first)
    expect(message).toMatchObject({ how: 'running_turn' })
  })

  test('two calls under one key at the same time are one', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })

    const replies = await Promise.all([1, 2, 3].map(() => twin.spawn({ idempotency_key: 'k1' })))
    await settle()

    expect(new Set(replies.map((reply) => reply.agent_id)).size).toBe(1)
    expect(twin.node('vm1').claims).toHaveLength(1)
  })

  test('a repeat of a wait that is still waiting shares its answer', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    await twin.spawn()
    await settle()

    const waits = [1, 2].map(() => twin.call('wait_for_agents', {}, { callKey: 'k' }))
    await settle()
    const [claim] = twin.node('vm1').claims
    if (claim !== undefined) await twin.node('vm1').end(claim.ref, completed('the answer'))
    const [first, second] = await Promise.all(waits)
    await twin.hub.confirm('k')

    expect(second?.body).toBe(first?.body)
    expect((await twin.wait()).unconfirmed).toEqual([])
  })

  test('a repeat goes on when the first call was given up', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    await twin.spawn()
    await settle()
    const cancel = new AbortController()

    const first = twin.call('wait_for_agents', {}, { callKey: 'k', signal: cancel.signal })
    const refused = expect(first).rejects.toMatchObject({ code: 'timed_out' })
    await settle()
    const second = twin.wait({}, { callKey: 'k' })
    cancel.abort()
    await refused
    const [claim] = twin.node('vm1').claims
    if (claim !== undefined) await twin.node('vm1').end(claim.ref, completed('the answer'))

    expect((await second).results).toMatchObject([{ text: 'the answer' }])
  })

  test('the answers of waits go after 30 days, those of spawns stay', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 1 })
    await twin.spawn({ idempotency_key: 'k1' })
    await twin.wait({ timeout_ms: 0 })
    const answers = () => twin.disk.keys('hub/answer/').filter((key) => key.startsWith('hub/answer/'))
    const before = answers().length

    await twin.crash()
    twin.clock.skipWall(31 * 24 * 3_600_000)
    await twin.start()

    expect(before).toBe(2)
    expect(answers()).toHaveLength(1)
  })
})

import { describe, expect, test, vi } from 'vitest'
import { settle } from '../contracts/manual-clock.ts'
import { completed } from './support/scripted-node.ts'
import { TwinHub, type WaitReply } from './support/twin-hub.ts'

/** A hub with `count` agents that run on one node; `end` ends one with a text. */
async function withAgents(count: number) {
  const twin = await TwinHub.withNodes({ name: 'vm1', slots: count })
  const node = twin.node('vm1')
  const agents: string[] = []
  for (let no = 0; no < count; no++) agents.push((await twin.spawn({ brief: `task ${no}` })).agent_id)
  await settle()
  const end = async (no: number, text = `answer ${no}`): Promise<void> => {
    const claim = node.claims[no]
    if (claim === undefined) throw new Error(`no claim ${no}`)
    await node.end(claim.ref, completed(text))
    await settle()
  }
  return { twin, node, agents, end }
}

const numbers = (reply: Pick<WaitReply, 'unconfirmed'>) => reply.unconfirmed.map((entry) => entry.delivery_id)
const texts = (reply: WaitReply) => reply.results.map((result) => result.text)

describe('waiting for agents', () => {
  test('returns as soon as one has ended, with what still runs', async () => {
    const { twin, agents, end } = await withAgents(2)

    const waiting = twin.wait()
    await settle()
    await end(1)
    const reply = await waiting

    expect(texts(reply)).toEqual(['answer 1'])
    expect(reply.still_running).toMatchObject([{ agent_id: agents[0], state: 'running', machine: 'vm1' }])
    expect(reply.facts).toMatchObject({ undelivered: 0, agents_running: 1, queued: 0 })
  })

  test('is offered what comes in with the batch that it comes in with', async () => {
    const { twin, end } = await withAgents(1)

    const waiting = twin.ask<WaitReply>('wait_for_agents', {})
    await settle()
    const before = twin.store.syncs
    await end(0)

    expect(texts(await waiting)).toEqual(['answer 0'])
    const [offer] = twin.disk.keys('hub/offer/', 'hub/offer/~')
    expect(offer).toBeDefined()
    expect(twin.store.syncs - before).toBe(1)
  })

  test('leaves nothing of a reply with what lives as long as the hub', async () => {
    const { twin, end } = await withAgents(2)
    const kept = vi.spyOn(twin.engine.failed, 'then')

    for (const no of [0, 1]) {
      const waiting = twin.wait()
      await settle()
      await end(no)
      expect(texts(await waiting)).toEqual([`answer ${no}`])
    }

    expect(kept).not.toHaveBeenCalled()
  })

  test('is offered nothing for a client that has gone while it waited', async () => {
    const { twin, end } = await withAgents(1)
    const client = new AbortController()

    const waiting = twin.ask<WaitReply>('wait_for_agents', {}, { signal: client.signal })
    await settle()
    client.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'timed_out' })
    await end(0)

    expect(await twin.wait()).toMatchObject({ results: [{ text: 'answer 0' }], unconfirmed: [] })
  })

  test('goes to one of two calls that wait, to the one that waited first', async () => {
    const { twin, end } = await withAgents(2)

    const first = twin.wait()
    await settle()
    const second = twin.wait()
    await settle()
    await end(0)
    await end(1)

    expect([texts(await first), texts(await second)]).toEqual([['answer 0'], ['answer 1']])
  })

  test('waits for all, and is offered all in the batch of the last', async () => {
    const { twin, agents, end } = await withAgents(3)

    const waiting = twin.wait({ mode: 'all', agent_ids: agents })
    await settle()
    for (const no of [0, 1, 2]) await end(no)

    expect(texts(await waiting)).toEqual(['answer 0', 'answer 1', 'answer 2'])
  })

  test('names the first of those that run, as many as fit, and counts the others', async () => {
    const { twin, agents, end } = await withAgents(12)

    const waiting = twin.wait({ max_bytes: 4_096 })
    await settle()
    await end(0)
    const reply = await waiting

    const named = reply.still_running.map((agent) => agent['agent_id'])
    expect(named.length).toBeGreaterThan(1)
    expect(named.length).toBeLessThan(11)
    expect(named).toEqual(agents.slice(1, named.length + 1))
    expect(reply.facts['note']).toBe(`${11 - named.length} more agents run: list_agents has them.`)
  })

  test('returns texts that are too much to be kept in memory, whole and in order', async () => {
    const { twin, agents, end } = await withAgents(3)
    const long = 'x'.repeat(700_000)

    const waiting = twin.wait({ mode: 'all', agent_ids: agents, max_bytes: 100_000 })
    await settle()
    for (const no of [0, 1, 2]) await end(no, `${no} ${long}`)
    const reply = await waiting

    const more = reply.results.length < 3 ? (await twin.wait({ max_bytes: 100_000 })).results : []
    const found = [...reply.results, ...more]
    expect(found.map(({ text }) => text.slice(0, 3))).toEqual(['0 x', '1 x', '2 x'])
    expect(found.map((result) => result['text_bytes'])).toEqual([700_002, 700_002, 700_002])
  })

  test('returns at once when nothing runs', async () => {
    const { twin } = await withAgents(0)

    expect(await twin.wait()).toMatchObject({
      results: [],
      events: [],
      requests: [],
      still_running: [],
      unconfirmed: [],
    })
  })

  test('returns what is on disk when another result comes in meanwhile', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 1 }, { name: 'vm2', slots: 1 })
    await twin.spawn({ machine: 'vm1' })
    await twin.spawn({ machine: 'vm2' })
    const end = async (name: string): Promise<void> => {
      const node = twin.node(name)
      const [claim] = node.claims
      if (claim === undefined) throw new Error(`no claim of ${name}`)
      const isEnded = node.end(claim.ref, completed(`answer of ${name}`))
      await settle()
      await Promise.race([isEnded, settle()])
    }

    const waiting = twin.wait({ timeout_ms: 1_000 })
    await settle()
    const syncFirst = twin.holdSyncs()
    await end('vm1')
    await twin.clock.advance(1_000)
    const syncSecond = twin.holdSyncs()
    await end('vm2')
    syncFirst()
    await settle()
    syncSecond()

    expect(texts(await waiting)).toEqual(['answer of vm1'])
    expect(texts(await twin.wait())).toEqual(['answer of vm2'])
  })

  test('returns at its time-out with nothing marked', async () => {
    const { twin, end } = await withAgents(1)

    const waiting = twin.wait({ timeout_ms: 5_000 })
    await settle()
    await twin.clock.advance(5_000)
    const reply = await waiting
    await end(0)

    expect(reply).toMatchObject({ results: [], still_running: [{ state: 'running' }] })
    expect(texts(await twin.wait())).toEqual(['answer 0'])
  })

  test('waits only for the agents that were named', async () => {
    const { twin, agents, end } = await withAgents(2)
    await end(0)

    const waiting = twin.wait({ agent_ids: [agents[1]] })
    await settle()
    await end(1)

    expect(texts(await waiting)).toEqual(['answer 1'])
    expect(texts(await twin.wait({ agent_ids: [agents[0]] }))).toEqual(['answer 0'])
  })

  test('in mode all marks nothing before all have ended', async () => {
    const { twin, agents, end } = await withAgents(2)
    await end(0)

    const all = twin.wait({ agent_ids: agents, mode: 'all' })
    await settle()
    const any = await twin.wait({ timeout_ms: 0 })
    await end(1)

    expect(texts(any)).toEqual(['answer 0'])
    expect(texts(await all)).toEqual(['answer 1'])
  })

  test('in mode all returns everything at its time-out', async () => {
    const { twin, agents, end } = await withAgents(2)
    await end(0)

    const all = twin.wait({ agent_ids: agents, mode: 'all', timeout_ms: 1_000 })
    await settle()
    await twin.clock.advance(1_000)

    expect(texts(await all)).toEqual(['answer 0'])
  })

  test('gives an entry to one of two waits that are in flight', async () => {
    const { twin, end } = await withAgents(2)

    const first = twin.wait()
    const second = twin.wait()
    await settle()
    await end(0)
    await end(1)
    const replies = [await first, await second]

    expect(replies.flatMap(texts).sort()).toEqual(['answer 0', 'answer 1'])
  })

  test('names 20 agents that end together in one reply, in order', async () => {
    const { twin, node, agents } = await withAgents(20)

    const waiting = twin.wait({ mode: 'all' })
    await settle()
    await node.say(
      ...node.claims.map(({ ref }, no) => ({ type: 'ended', ref, result: completed(`answer ${no}`) }) as const),
    )
    const reply = await waiting

    expect(new Set(reply.results.map((result) => result.agent_id))).toEqual(new Set(agents))
    expect(texts(reply)).toEqual(Array.from({ length: 20 }, (_, no) => `answer ${no}`))
    expect(reply.still_running).toEqual([])
  })

  test('tells every half minute that it is still there', async () => {
    const { twin, end } = await withAgents(1)
    const notes: string[] = []

    const waiting = twin.wait({}, { onProgress: (note) => notes.push(note) })
    await twin.clock.advance(61_000)
    await end(0)
    await waiting
    await twin.clock.advance(61_000)

    expect(notes).toEqual(['1 agent has not ended yet', '1 agent has not ended yet'])
  })

  test('refuses an agent that it does not know', async () => {
    const { twin } = await withAgents(0)

    await expect(twin.ask('wait_for_agents', { agent_ids: ['agt_none'] })).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('confirmed delivery', () => {
  test('a repeat of the call key gets the same bytes', async () => {
    const { twin, end } = await withAgents(1)
    await end(0)

    const first = await twin.call('wait_for_agents', {}, { callKey: 'k' })
    const second = await twin.call('wait_for_agents', {}, { callKey: 'k' })

    expect(second.body).toBe(first.body)
    await twin.hub.confirm('k')
    expect(await twin.wait()).toMatchObject({ results: [], unconfirmed: [] })
  })

  test('what was offered and never confirmed is named to the next session, until a reply that did is confirmed', async () => {
    const { twin, end } = await withAgents(1)
    await end(0)
    const lost = await twin.ask<WaitReply>('wait_for_agents', {})

    await twin.hold(twin.sessionKey).then((hold) => hold.release())
    await twin.hold('session-2')
    const unread = await twin.ask<WaitReply>('wait_for_agents', {}, { callKey: 'unread' })
    await twin.hub.doubt('unread')
    const named = await twin.wait()
    const after = await twin.wait()

    const [id = 0] = lost.results.map((result) => result.delivery_id)
    expect(numbers(unread)).toContain(id)
    expect(numbers(named)).toContain(id)
    expect(named.results).toEqual([])
    expect(numbers(after)).toEqual([])
    expect(await twin.ask('get_result', { delivery_id: id })).toMatchObject({ text: 'answer 0' })
  })

  test('the last reply of a session that ended without a later request is named, though it was confirmed', async () => {
    const { twin, agents, end } = await withAgents(1)
    await end(0)
    const hold = await twin.hold()
    const last = await twin.wait()

    await hold.release()
    await twin.hold('session-2')
    const next = await twin.wait()

    expect(next.unconfirmed).toEqual([
      { delivery_id: last.results[0]?.delivery_id, kind: 'result', agent_id: agents[0] },
    ])
  })

  test('a later request of the session shows that the reply was read', async () => {
    const { twin, end } = await withAgents(1)
    await end(0)
    const hold = await twin.hold()
    await twin.wait()
    await twin.ask('list_agents', {})

    await hold.release()
    await twin.hold('session-2')

    expect((await twin.wait()).unconfirmed).toEqual([])
  })

  test('a spawn whose reply nobody confirmed is named like a result', async () => {
    const { twin } = await withAgents(0)
    const spawned = await twin.ask('spawn_agent', { brief: 'do it' })

    await twin.hold().then((hold) => hold.release())
    await twin.hold('session-2')
    const next = await twin.wait({ timeout_ms: 0 })

    expect(next.unconfirmed).toEqual([{ delivery_id: 1, kind: 'spawn', agent_id: spawned['agent_id'] }])
    expect(await twin.ask('get_result', { delivery_id: 1 })).toMatchObject({
      entry: { kind: 'spawn', agent_id: spawned['agent_id'] },
      text: '',
    })
  })

  test('what the adapter did not write comes again, under the same key too', async () => {
    const { twin, end } = await withAgents(1)
    await end(0)
    const args = { idempotency_key: 'once' }
    await twin.ask('wait_for_agents', args, { callKey: 'a' })

    await twin.hub.withdraw('a')
    const other = await twin.wait()
    const repeat = await twin.wait(args)

    expect(texts(other)).toEqual(['answer 0'])
    expect(texts(repeat)).toEqual([])
  })

  test('a call that is cancelled while it waits marks nothing', async () => {
    const { twin, end } = await withAgents(1)
    const cancel = new AbortController()

    const waiting = twin.call('wait_for_agents', {}, { signal: cancel.signal })
    const refused = expect(waiting).rejects.toMatchObject({ code: 'timed_out' })
    await settle()
    cancel.abort()
    await refused
    await end(0)

    expect(await twin.wait()).toMatchObject({ unconfirmed: [], results: [{ text: 'answer 0' }] })
  })

  test('a wait whose session is over marks nothing', async () => {
    const { twin, end } = await withAgents(1)
    const hold = await twin.hold()
    const waiting = twin.call('wait_for_agents', {})
    const refused = expect(waiting).rejects.toMatchObject({ code: 'timed_out' })
    await settle()

    await hold.release()
    await end(0)
    await refused
    await twin.hold('session-2')
    const next = await twin.wait()

    expect(texts(next)).toEqual(['answer 0'])
    expect(next.unconfirmed.map((entry) => entry.kind)).not.toContain('result')
  })

  test('a call that is cancelled after it was offered is named', async () => {
    const { twin, end } = await withAgents(1)
    await end(0)
    const cancel = new AbortController()

    await twin.ask('list_agents', {})
    const release = twin.holdSyncs()
    const waiting = twin.call('wait_for_agents', {}, { signal: cancel.signal })
    const refused = expect(waiting).rejects.toMatchObject({ code: 'timed_out' })
    await settle()
    expect(twin.store.unsynced).toBeGreaterThan(0)
    cancel.abort()
    release()
    await refused
    const next = await twin.wait()

    expect(next.results).toEqual([])
    expect(next.unconfirmed).toHaveLength(1)
  })

  test('a reply without a word of its adapter for 30 s is named to the same session', async () => {
    const { twin, end } = await withAgents(1)
    await end(0)
    await twin.ask('wait_for_agents', {})

    const soon = await twin.wait({ timeout_ms: 0 })
    await twin.clock.advance(30_000)
    const late = await twin.wait({ timeout_ms: 0 })

    expect(soon.unconfirmed).toEqual([])
    expect(late.unconfirmed).toHaveLength(1)
  })
})

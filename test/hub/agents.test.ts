import { describe, expect, test } from 'vitest'
import { settle } from '../contracts/manual-clock.ts'
import { type Claim, completed, type ScriptedNode } from './support/scripted-node.ts'
import { TwinHub } from './support/twin-hub.ts'

async function running(slots = 2) {
  const twin = await TwinHub.withNodes({ name: 'vm1', slots })
  const node = twin.node('vm1')
  const { agent_id } = await twin.spawn({ brief: 'first' })
  await settle()
  return { twin, node, agent_id }
}

function claimOf(node: ScriptedNode, no = 0): Claim {
  const claim = node.claims[no]
  if (claim === undefined) throw new Error(`no claim ${no}`)
  return claim
}

describe('send_message', () => {
  test('joins the running turn once its node took it', async () => {
    const { twin, node, agent_id } = await running()

    const reply = await twin.ask('send_message', { agent_id, text: 'also this' })

    expect(reply).toMatchObject({ message_id: expect.stringMatching(/^msg_[0-9a-f]{32}$/), how: 'running_turn' })
    expect(node.heard.at(-1)).toMatchObject({ type: 'steer', text: 'also this', messageId: reply['message_id'] })
  })

  test('starts the next turn of an idle agent in its session, and its result comes once', async () => {
    const { twin, node, agent_id } = await running()
    await node.end(claimOf(node).ref, completed('one'))
    await twin.wait()

    const reply = await twin.ask('send_message', { agent_id, text: 'go on' })
    await settle()
    await node.end(claimOf(node, 1).ref, completed('two'))
    const results = (await twin.wait()).results

    expect(reply['how']).toBe('new_turn')
    expect(claimOf(node, 1)).toMatchObject({ turn: 2, resumeSessionId: 'ses_1', request: { brief: 'go on' } })
    expect(results).toMatchObject([{ agent_id, turn: 2, text: 'two' }])
    expect(twin.disk.keys('hub/message/').filter((key) => key.startsWith('hub/message/'))).toEqual([])
  })

  test('is held while its node is away, and arrives when it is back', async () => {
    const { twin, node, agent_id } = await running()
    twin.peers.disconnect(node)
    await twin.clock.advance(6_000)

    const reply = await twin.ask('send_message', { agent_id, text: 'later' })
    const before = node.heard.filter((message) => message.type === 'steer')
    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)

    expect(reply['how']).toBe('held')
    expect(before).toEqual([])
    expect(node.heard.filter((message) => message.type === 'steer')).toMatchObject([{ text: 'later' }])
  })

  test('is held when its node does not answer in time', async () => {
    const { twin, node, agent_id } = await running()
    node.react = () => []

    const sending = twin.ask('send_message', { agent_id, text: 'hm' })
    await settle()
    await twin.clock.advance(10_000)

    expect((await sending)['how']).toBe('held')
  })

  test('waits with a queued agent and follows its claim', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 1 })
    await twin.node('vm1').tellCapacity({ free: 0, running: 0, queued: 0 })
    await settle()
    const { agent_id } = await twin.spawn()

    const reply = await twin.ask('send_message', { agent_id, text: 'and this' })
    await twin.restart()
    await twin.node('vm1').tellCapacity({ free: 1, running: 0, queued: 0 })
    await settle(60)

    expect(reply['how']).toBe('held')
    expect(twin.node('vm1').heard.map((message) => message.type)).toEqual(['claim', 'steer'])
  })

  test('that a turn ended without becomes the next turn', async () => {
    const { twin, node, agent_id } = await running()
    node.react = (message) =>
      message.type === 'steer'
        ? [
            { type: 'ended', ref: message.ref, result: completed('over') },
            { type: 'message', ref: message.ref, messageId: message.messageId, state: 'not_taken' },
          ]
        : node.obey(message)

    const reply = await twin.ask('send_message', { agent_id, text: 'too late' })
    await settle(60)

    expect(reply['how']).toBe('new_turn')
    expect(claimOf(node, 1)).toMatchObject({ turn: 2, request: { brief: 'too late' } })
  })

  test('is refused by name where no turn can take it', async () => {
    const { twin, node, agent_id } = await running()
    const to = (id: string) => twin.ask('send_message', { agent_id: id, text: 'x' })

    await expect(to('agt_none')).rejects.toMatchObject({ code: 'not_found' })
    void twin.ask('stop_agent', { agent_id })
    await settle()
    await expect(to(agent_id)).rejects.toMatchObject({ code: 'stopping' })
    await node.say({ type: 'keeper_gone', ref: claimOf(node).ref, message: 'no keeper' })
    await settle()
    await expect(to(agent_id)).rejects.toMatchObject({ code: 'node_lost' })
    const closed = await twin.spawn({ requires: ['gpu'] })
    await expect(to(closed.agent_id)).rejects.toMatchObject({ code: 'agent_closed' })
  })

  test('is sent once when its call is repeated after a crash', async () => {
    const { twin, node, agent_id } = await running()
    node.react = (message) => (message.type === 'steer' ? [] : node.obey(message))
    void twin.call('send_message', { agent_id, text: 'once' }, { callKey: 'k' })
    await settle()
    await twin.restart()

    const repeat = twin.ask('send_message', { agent_id, text: 'once' }, { callKey: 'k' })
    await settle()
    const steers = node.heard.filter((message) => message.type === 'steer')
    const [steer] = steers
    if (steer === undefined) throw new Error('no message came')
    await node.say({ type: 'message', ref: steer.ref, messageId: steer.messageId, state: 'accepted' })

    expect(await repeat).toEqual({ message_id: steer.messageId, how: 'running_turn' })
    expect(steers).toHaveLength(1)
  })
})

describe('stop_agent', () => {
  test('stops a running turn and says what was proven; it also comes once in results', async () => {
    const { twin, node, agent_id } = await running()
    node.react = (message) =>
      message.type === 'stop'
        ? [
            {
              type: 'ended',
              ref: message.ref,
              result: completed('half', { outcome: 'stopped', stopCommandId: message.commandId }),
            },
          ]
        : node.obey(message)

    const reply = await twin.ask('stop_agent', { agent_id, reason: 'enough' })
    const { results } = await twin.wait()

    expect(reply).toMatchObject({
      state: 'idle',
      evidence: { text: 'half', usage: { cost_usd: 0.25 } },
      receipt: {
        command_id: expect.any(String),
        session_id: 'ses_1',
        turn: 1,
        turn_status: 'interrupted',
        session_status: 'idle',
        process_exited: true,
        exit_proof: 'cgroup_empty',
      },
    })
    expect(results).toMatchObject([{ agent_id, outcome: 'stopped', text: 'half' }])
    expect((await twin.wait()).results).toEqual([])
  })

  test('ends a queued agent: nothing ran', async () => {
    const twin = await TwinHub.withNodes()
    const { agent_id } = await twin.spawn()

    const reply = await twin.ask('stop_agent', { agent_id })

    expect(reply).toMatchObject({ state: 'closed', evidence: { text: '' } })
    expect(reply).not.toHaveProperty('receipt')
    expect((await twin.wait()).results).toMatchObject([{ agent_id, outcome: 'stopped' }])
  })

  test('has no receipt where the node ended the turn before anything ran', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    const node = twin.node('vm1')
    const { exitProof: _proof, sessionId: _session, ...result } = completed('', { outcome: 'stopped' })
    node.react = (message) => {
      if (message.type === 'claim') return [{ type: 'claimed', ref: message.ref }]
      if (message.type !== 'stop') return []
      return [{ type: 'ended', ref: message.ref, result: { ...result, stopCommandId: message.commandId } }]
    }
    const { agent_id } = await twin.spawn()
    await settle()

    const reply = await twin.ask('stop_agent', { agent_id })

    expect(reply).toMatchObject({ evidence: { text: '', outcome: 'stopped' } })
    expect(reply).not.toHaveProperty('receipt')
  })

  test('changes nothing on an agent that ended, and answers with its result', async () => {
    const { twin, node, agent_id } = await running()
    await node.end(claimOf(node).ref, completed('all of it'))
    await settle()

    const reply = await twin.ask('stop_agent', { agent_id })

    expect(reply).toMatchObject({ state: 'idle', evidence: { text: 'all of it', outcome: 'completed' } })
    expect(reply).not.toHaveProperty('receipt')
    expect(node.heard.some((message) => message.type === 'stop')).toBe(false)
  })

  test('answers stopping within 12 s when nothing was proven, with the text so far', async () => {
    const { twin, node, agent_id } = await running()
    const { ref } = claimOf(node)
    await node.say({
      type: 'task_events',
      ref,
      events: [{ seq: 1, atMs: 1, turn: 1, type: 'text', text: 'so far', fields: {} }],
    })
    await settle()

    const stopping = twin.ask('stop_agent', { agent_id })
    await settle()
    await twin.clock.advance(12_000)

    expect(await stopping).toMatchObject({ state: 'stopping', evidence: { text: 'so far' } })
    expect(node.heard.filter((message) => message.type === 'stop')).toHaveLength(1)
  })

  test('answers stopping at once when the node is away, and the stop arrives when it is back', async () => {
    const { twin, node, agent_id } = await running()
    twin.peers.disconnect(node)
    await twin.clock.advance(6_000)

    const reply = await twin.ask('stop_agent', { agent_id })
    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)

    expect(reply['state']).toBe('stopping')
    expect(node.heard.filter((message) => message.type === 'stop')).toHaveLength(1)
  })

  test('reaches a node that was counted lost meanwhile: what runs there is to end', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    const node = twin.node('vm1')
    const { agent_id } = await twin.spawn({ lost_after_ms: 20_000 })
    await settle()
    twin.peers.disconnect(node)
    await twin.clock.advance(6_000)
    await twin.ask('send_message', { agent_id, text: 'never arrives' })
    await twin.ask('stop_agent', { agent_id })
    await twin.clock.advance(20_000)
    const lost = await twin.wait()

    twin.peers.connect(node)
    await settle()
    await twin.clock.advance(1_000)

    expect(lost.results).toMatchObject([{ outcome: 'node_lost', messages: [{ state: 'interrupted' }] }])
    expect(node.heard.map((message) => message.type)).toEqual(['claim', 'stop'])
  })

  test('is given once when its call is repeated after a crash', async () => {
    const { twin, node, agent_id } = await running()
    void twin.call('stop_agent', { agent_id }, { callKey: 'k' })
    await settle()
    await twin.restart()

    const repeat = twin.ask('stop_agent', { agent_id }, { callKey: 'k' })
    await settle()
    await node.end(claimOf(node).ref, completed('half', { outcome: 'stopped' }))

    expect(await repeat).toMatchObject({ state: 'idle', evidence: { text: 'half' } })
    expect(node.heard.filter((message) => message.type === 'stop')).toHaveLength(1)
  })
})

describe('what is known of agents', () => {
  test('lists are newest first and paged', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 3 })
    const ids: string[] = []
    for (const title of ['a', 'b', 'c']) ids.unshift((await twin.spawn({ title })).agent_id)
    await settle()
    type Page = { agents: { agent_id: string }[]; next_cursor?: string }

    const first = await twin.ask<Page>('list_agents', { limit: 2 })
    const second = await twin.ask<Page>('list_agents', { limit: 2, cursor: first.next_cursor })
    const none = await twin.ask<Page>('list_agents', { state: ['idle', 'closed'] })

    expect([...first.agents, ...second.agents].map((agent) => agent.agent_id)).toEqual(ids)
    expect(second.next_cursor).toBeUndefined()
    expect(none.agents).toEqual([])
    expect(first.agents[0]).toMatchObject({
      title: 'c',
      state: 'running',
      machine: 'vm1',
      turns: 1,
      liveness: { state: 'live' },
    })
    for (const tool of ['list_agents', 'list_nodes'] as const) {
      await expect(twin.ask(tool, { cursor: 'Not one!' })).rejects.toMatchObject({
        code: 'invalid_argument',
        details: { argument: 'cursor' },
      })
    }
  })

  test('when a turn may end is estimated from what its machine has receipts of, and from nothing else', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1', slots: 1 })
    const node = twin.node('vm1')
    const turn = async (spanMs: number, hasReceipt: boolean) => {
      await twin.spawn()
      await settle()
      const ref = node.claims.at(-1)?.ref
      if (ref === undefined) throw new Error('nothing was claimed')
      await twin.clock.advance(spanMs)
      await node.end(ref, completed('done'))
      const receipt = { receiptId: `rcp_${spanMs}`, envelope: new Uint8Array([1]) }
      if (hasReceipt) await node.say({ type: 'receipt', ref, receipt })
      await settle()
    }
    const progress = async () => {
      const { agents } = await twin.ask<{ agents: { progress?: unknown }[] }>('list_agents', { limit: 1 })
      return agents[0]?.progress
    }

    await turn(40_000, false)
    await twin.spawn()
    await settle()
    expect(await progress()).toBeUndefined()
    const open = node.claims.at(-1)?.ref
    if (open === undefined) throw new Error('nothing was claimed')
    await node.end(open, completed('done', { outcome: 'failed', reason: 'crashed' }))
    await settle()
    for (const spanMs of [1_000, 30_000, 2_000]) await turn(spanMs, true)
    await twin.spawn()
    await settle()
    const startedAtMs = twin.clock.wallMs()
    const waiting = await twin.spawn()

    const etaAt = new Date(startedAtMs + 2_000).toISOString()
    expect(waiting.facts['note']).toContain(`may be free at ${etaAt}`)
    const { agents } = await twin.ask<{ agents: { progress?: unknown }[] }>('list_agents', { state: ['running'] })
    expect(agents[0]?.progress).toMatchObject({ eta_at: etaAt })
    // One that takes longer than most did is not promised for a moment that has passed.
    await twin.clock.advance(3_000)
    const later = await twin.ask<{ agents: { progress?: unknown }[] }>('list_agents', { state: ['running'] })
    expect(later.agents[0]?.progress).toBeUndefined()
  })

  test('a running turn can be read, without an outcome', async () => {
    const { twin, node, agent_id } = await running()
    const { ref } = claimOf(node)
    const event = (seq: number, type: 'text' | 'usage', text: string) =>
      ({ seq, atMs: 1_700_000_000_000, turn: 1, type, text, fields: {} }) as const
    await node.say({
      type: 'task_events',
      ref,
      events: [event(1, 'text', 'one'), event(2, 'usage', 'x'), event(3, 'text', 'two')],
    })
    await settle()

    const reply = await twin.ask<{ entry: object; text: string }>('get_result', { agent_id })
    const logs = await twin.hub.logs(agent_id, { fromSeq: 2, limit: 1 })

    expect(reply).toMatchObject({ text: 'one\ntwo', text_bytes: 7, entry: { agent_id, turn: 1, state: 'running' } })
    expect(reply.entry).not.toHaveProperty('outcome')
    expect(logs).toEqual({
      events: [{ seq: 2, at: '2023-11-14T22:13:20.000Z', agent_id, turn: 1, type: 'usage', text: 'x' }],
      nextSeq: 3,
    })
  })

  test('get_result names what it was not given and what does not exist', async () => {
    const { twin, agent_id } = await running()

    await expect(twin.ask('get_result', {})).rejects.toMatchObject({ details: { argument: 'agent_id' } })
    await expect(twin.ask('get_result', { agent_id: 'agt_none' })).rejects.toMatchObject({ code: 'not_found' })
    await expect(twin.ask('get_result', { agent_id, turn: 2 })).rejects.toMatchObject({ details: { argument: 'turn' } })
    await expect(twin.ask('get_result', { delivery_id: 99 })).rejects.toMatchObject({
      details: { argument: 'delivery_id' },
    })
  })

  test('get_result gives an entry under its number to whoever names its agent, and to nobody who names another', async () => {
    const { twin, agent_id } = await running()
    const { entry } = await twin.ask('get_result', { delivery_id: 1 })

    expect(await twin.ask('get_result', { delivery_id: 1, agent_id })).toMatchObject({ entry })
    await expect(twin.ask('get_result', { delivery_id: 1, agent_id: 'agt_other' })).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  test('what a node notes of a running turn shows in lists', async () => {
    const { twin, node } = await running()
    await node.note(claimOf(node).ref, 'reading files')
    await settle()

    expect(await twin.ask('list_agents', {})).toMatchObject({
      agents: [{ progress: { note: 'reading files', at: '2023-11-14T22:13:21.000Z' } }],
    })
  })

  test('logs refuse a page that makes no sense', async () => {
    const { twin, agent_id } = await running()

    await expect(twin.hub.logs(agent_id, { fromSeq: -1, limit: 1 })).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(twin.hub.logs('agt_none', { fromSeq: 0, limit: 1 })).rejects.toMatchObject({ code: 'not_found' })
  })

  test('show has the stage, the attempts and the receipt', async () => {
    const { twin, node, agent_id } = await running()
    const { ref } = claimOf(node)
    await node.end(ref, completed('done'))
    await settle()
    await node.say({ type: 'receipt', ref, receipt: { receiptId: 'rcp_1', envelope: new Uint8Array([1, 2]) } })
    await settle()

    const shown = await twin.hub.showAgent(agent_id)
    const { results } = await twin.wait()

    expect(shown).toMatchObject({
      state: 'idle',
      stage: 'receipt',
      session_id: 'ses_1',
      tasks: [{ turn: 1, stage: 'receipt', outcome: 'completed', receipt_id: 'rcp_1', attempts: [{ state: 'ended' }] }],
    })
    expect(results).toMatchObject([{ receipt_id: 'rcp_1' }])
    await expect(twin.hub.showAgent('agt_none')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('status counts agents and usage', async () => {
    const { twin, node } = await running()
    await node.end(claimOf(node).ref, completed('done'))
    await settle()

    expect(await twin.hub.status()).toMatchObject({
      schema: 1,
      hub_id: 'hub_1',
      state: 'held',
      session: { pid: 100 },
      agents: { idle: 1 },
      undelivered: 1,
      epoch: 1,
      usage: { input_tokens: 10, cost_usd: 0.25 },
    })
  })

  test('denials come with their tools', async () => {
    const { twin, node } = await running()
    const denied = Array.from({ length: 20 }, (_, no) => ({ tool: `Tool${no}`, input: 'x'.repeat(2_000) }))
    await node.end(
      claimOf(node).ref,
      completed('no', { outcome: 'failed', reason: 'tools_not_allowed', hint: 'use --allow-all-tools', denied }),
    )

    const [result] = (await twin.wait()).results
    const whole = await twin.ask<{ entry: { details: { denied: unknown[] } } }>('get_result', {
      delivery_id: result?.delivery_id,
    })

    expect(result).toMatchObject({
      outcome: 'failed',
      reason: 'tools_not_allowed',
      hint: 'use --allow-all-tools',
      details: { denied_count: 20 },
    })
    expect(whole.entry.details.denied).toEqual(denied)
  })
})

import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { repairStore } from '../../src/store/repair.ts'
import { type Json, Pair } from './pair.ts'

let pair: Pair

beforeEach(async () => {
  pair = new Pair()
  await pair.start()
})

afterEach(() => pair.close())

const ways = [
  ['that sees that its folder is a copy', { isNoticed: true }],
  ['that only its peer can tell', { isNoticed: false }],
] as const

describe.each(ways)('a hub store that was put back, %s', (_name, how) => {
  test('gives what it may have given before as maybe seen, and what it forgot is listed again', async () => {
    const read = await pair.spawn('read end')
    await pair.results(1)
    const ends = await pair.spawn('ends later')
    const goesOn = await pair.spawn('goes on')
    await pair.until({ [ends]: 'running', [goesOn]: 'running' })
    await pair.backUp('hub')
    await pair.until({ [ends]: 'running', [goesOn]: 'running' })
    await pair.end(ends)
    const before = await pair.results(1)
    const forgotten = await pair.spawn('forgotten end')
    await pair.results(1)
    const forgottenRuns = await pair.spawn('forgotten and running')
    await pair.until({ [forgottenRuns]: 'running' })

    await pair.putBack('hub', how)
    await pair.until({ [ends]: 'idle', [forgotten]: 'idle', [forgottenRuns]: 'running', [goesOn]: 'running' })
    const after = await pair.results(2)
    await pair.end(goesOn)
    await pair.end(forgottenRuns)
    const last = await pair.results(2)
    const nothingMore = await pair.wait({ timeout_ms: 0 })

    expect(before.results).toMatchObject([{ agent_id: ends, outcome: 'completed' }])
    expect(after.events).toMatchObject([{ kind: 'alert', source: 'hub', text: expect.stringContaining('put back') }])
    expect(after.results.map((result) => result.agent_id).sort()).toEqual([ends, forgotten].sort())
    expect(after.results).toMatchObject([{ maybe_seen: true }, { maybe_seen: true }])
    expect(last.results.map((result) => result.agent_id).sort()).toEqual([goesOn, forgottenRuns].sort())
    for (const result of last.results) expect(result).not.toHaveProperty('maybe_seen')
    expect(nothingMore.results).toEqual([])
    const numbers = [...before.results, ...after.results, ...last.results].map((result) => result.delivery_id)
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b))
    expect(new Set(pair.machine.launches).size).toBe(pair.machine.launches.length)
    expect(pair.machine.launches).toHaveLength(5)
    expect((await pair.agents()).map((agent) => agent.agent_id).sort()).toEqual(
      [read, ends, goesOn, forgotten, forgottenRuns].sort(),
    )
    expect(pair.notes).toContain('hub_store_put_back')
  })

  test('can be put back again and again', async () => {
    const ends = await pair.spawn('ends later')
    await pair.until({ [ends]: 'running' })
    await pair.backUp('hub')
    await pair.until({ [ends]: 'running' })
    await pair.end(ends)
    const numbers = (await pair.results(1)).results.map((result) => result.delivery_id)

    for (let time = 0; time < 2; time++) {
      await pair.putBack('hub', how)
      await pair.until({ [ends]: 'idle' })
      const again = await pair.results(1)
      expect(again.results).toMatchObject([{ agent_id: ends, maybe_seen: true, text: 'all done' }])
      numbers.push(...again.results.map((result) => result.delivery_id))
    }

    expect(numbers[1]).toBeGreaterThan(numbers[0] ?? 0)
    expect(pair.machine.launches).toHaveLength(1)
  })
})

describe.each(ways)('a call that is repeated, since its answer was lost with the hub store, %s', (_name, how) => {
  test('has no second effect, whether it spawned an agent or sent a message', async () => {
    const agent = await pair.spawn('steered')
    await pair.until({ [agent]: 'running' })
    await pair.backUp('hub')
    await pair.until({ [agent]: 'running' })
    const steer = { agent_id: agent, text: 'to be taken in once' }
    const spawned = await pair.ask<Json>('spawn_agent', { brief: 'spawned once' }, 'call-spawn')
    await pair.until({ [String(spawned['agent_id'])]: 'running' })
    const sent = await pair.ask<Json>('send_message', steer, 'call-send')
    const [attemptId = ''] = pair.machine.launches

    await pair.putBack('hub', how)
    const sentAgain = await pair.ask<Json>('send_message', steer, 'call-send')
    const spawnedAgain = await pair.ask<Json>('spawn_agent', { brief: 'spawned once' }, 'call-spawn')
    await pair.until({ [agent]: 'running', [String(spawned['agent_id'])]: 'running' })

    expect(sentAgain).toMatchObject({ message_id: sent['message_id'] })
    expect(spawnedAgain).toMatchObject({ agent_id: spawned['agent_id'] })
    const taken = pair.machine.inputs(attemptId)
    expect(taken.filter((messageId) => messageId === sent['message_id'])).toHaveLength(1)
    expect(pair.machine.launches).toHaveLength(2)
  })
})

test('hub and node that were put back together, which neither can tell by the other: the folders of turns tell it', async () => {
  const known = await pair.spawn('known')
  await pair.until({ [known]: 'running' })
  await pair.backUp('node')
  await pair.backUp('hub')
  await pair.until({ [known]: 'running' })
  const since = await pair.spawn('since then')
  const ended = await pair.spawn('ended end')
  await pair.until({ [since]: 'running' })
  const before = await pair.results(1)

  await pair.stop('hub')
  await pair.putBack('node', { isNoticed: false })
  await pair.putBack('hub', { isNoticed: false })
  await pair.until({ [known]: 'running', [since]: 'running', [ended]: 'idle' })
  const after = await pair.results(1)
  await pair.end(since)
  await pair.end(known)
  const last = await pair.results(2)

  expect(before.results).toMatchObject([{ agent_id: ended }])
  expect(after.results).toMatchObject([{ agent_id: ended, maybe_seen: true, text: 'all done' }])
  expect(after.events).toMatchObject([{ kind: 'alert' }, { kind: 'alert' }])
  expect(last.results.map((result) => result.agent_id).sort()).toEqual([known, since].sort())
  expect(pair.machine.launches).toHaveLength(3)
  expect(pair.notes).toContain('recalled_from_folders')
})

describe.each(ways)('a node store that was put back, %s', (_name, how) => {
  test('loses no turn whose folder is there, runs none twice, and says what is gone', async () => {
    const known = await pair.spawn('known')
    await pair.until({ [known]: 'running' })
    await pair.backUp('node')
    const ended = await pair.spawn('ended end')
    await pair.results(1)
    const since = await pair.spawn('since then')
    await pair.until({ [since]: 'running' })
    const bare = await pair.spawn('without a folder')
    await pair.until({ [bare]: 'running' })
    const [bareAttempt = ''] = pair.machine.launches.slice(-1)

    await pair.stopNode()
    pair.machine.attempts.delete(bareAttempt)
    await pair.startNode()
    await pair.putBack('node', how)
    await pair.until({ [bare]: 'closed' })
    const lost = await pair.results(1)
    await pair.end(known)
    await pair.end(since)
    const last = await pair.results(2)
    const nothingMore = await pair.wait({ timeout_ms: 0 })

    expect(lost.results).toMatchObject([{ agent_id: bare, outcome: 'node_lost', details: { ground: 'keeper_gone' } }])
    expect(last.results.map((result) => result.agent_id).sort()).toEqual([known, since].sort())
    expect(last.results).toMatchObject([
      { outcome: 'completed', text: 'all done' },
      { outcome: 'completed', text: 'all done' },
    ])
    expect(nothingMore).toMatchObject({ results: [], still_running: [] })
    expect(new Set(pair.machine.launches).size).toBe(pair.machine.launches.length)
    expect([...lost.events, ...last.events].filter(({ kind }) => kind === 'alert').length).toBeGreaterThan(0)
    expect((await pair.agents()).find((agent) => agent.agent_id === ended)).toMatchObject({ state: 'idle' })
    expect(pair.notes).toContain('store_put_back')
  })

  test('is told once more that a result arrived of which the hub has the receipt', async () => {
    const agent = await pair.spawn('ends later')
    await pair.until({ [agent]: 'running' })
    await pair.backUp('node')
    await pair.until({ [agent]: 'running' })
    await pair.end(agent)
    const before = await pair.results(1)
    await expect.poll(() => pair.account()).toMatchObject([{ receiptId: expect.stringMatching(/^rcp_/) }])

    await pair.putBack('node', how)

    await expect
      .poll(() => pair.account(), { timeout: 10_000 })
      .toMatchObject([{ isOpen: false, receiptId: expect.any(String) }])
    const after = await pair.wait({ timeout_ms: 0 })
    expect(before.results).toMatchObject([{ agent_id: agent, outcome: 'completed' }])
    expect(after.results).toEqual([])
    expect(pair.machine.launches).toHaveLength(1)
  })
})

test.each(['hub', 'node'] as const)(
  'a %s store that was lost is made anew, and what the other side has comes back',
  async (side) => {
    const read = await pair.spawn('read end')
    await pair.results(1)
    const goesOn = await pair.spawn('goes on')
    await pair.until({ [goesOn]: 'running' })

    await pair.stop(side)
    rmSync(join(pair.root, side), { recursive: true })
    await pair.startAgain(side)
    await pair.until({ [read]: 'idle', [goesOn]: 'running' })
    const again = await pair.results(side === 'hub' ? 1 : 0)
    await pair.end(goesOn)
    const last = await pair.results(1)

    if (side === 'hub') expect(again.results).toMatchObject([{ agent_id: read, maybe_seen: true, text: 'all done' }])
    expect(last.results).toMatchObject([{ agent_id: goesOn, outcome: 'completed', text: 'all done' }])
    expect([...again.events, ...last.events].filter(({ kind }) => kind === 'alert').length).toBeGreaterThan(0)
    expect(pair.machine.launches).toHaveLength(2)
  },
)

test('a stop and a message that went away with the lane to a node whose store was put back arrive all the same', async () => {
  const stopped = await pair.spawn('to be stopped')
  const steered = await pair.spawn('to be steered')
  await pair.until({ [stopped]: 'running', [steered]: 'running' })
  await pair.backUp('node')
  await pair.until({ [stopped]: 'running', [steered]: 'running' })
  await pair.stop('node')
  const stopping = pair.ask<Json>('stop_agent', { agent_id: stopped })
  const steering = pair.ask<Json>('send_message', { agent_id: steered, text: 'end' })
  await pair.until({ [stopped]: 'stopping' })

  await pair.putBack('node', { isNoticed: true })
  const all = await pair.results(2)
  await Promise.all([stopping, steering])

  const outcomes = new Map(all.results.map((result) => [result.agent_id, result['outcome']]))
  expect(outcomes).toEqual(
    new Map([
      [stopped, 'stopped'],
      [steered, 'completed'],
    ]),
  )
})

test('a hub store of which a repair could keep nothing: its nodes send again what they hold, and it says what was lost', async () => {
  const read = await pair.spawn('read end')
  await pair.results(1)
  const goesOn = await pair.spawn('goes on')
  await pair.until({ [goesOn]: 'running' })
  await pair.stop('hub')
  const db = join(pair.root, 'hub/db')
  for (const name of readdirSync(db)) if (name.endsWith('.log')) rmSync(join(db, name))
  await expect(pair.startAgain('hub')).rejects.toMatchObject({ code: 'store_damaged' })

  const report = await repairStore(join(pair.root, 'hub'))
  await pair.startAgain('hub')
  await pair.until({ [read]: 'idle', [goesOn]: 'running' })
  const again = await pair.results(1)
  await pair.end(goesOn)
  const last = await pair.results(1)

  expect(report).toMatchObject({ outcome: 'lossy', records: 0 })
  expect(again.results).toMatchObject([{ agent_id: read, outcome: 'completed', maybe_seen: true }])
  expect(again.events.map(({ text }) => text)).toContainEqual(expect.stringContaining('Lost: '))
  expect(last.results).toMatchObject([{ agent_id: goesOn, outcome: 'completed' }])
  expect(pair.machine.launches).toHaveLength(2)
})

import { describe, expect, test } from 'vitest'
import { settle } from '../contracts/manual-clock.ts'
import { completed } from './support/scripted-node.ts'
import { TwinHub } from './support/twin-hub.ts'

describe('the main path of a hub', () => {
  test('an agent is placed, ends, and its result comes once', async () => {
    const twin = await TwinHub.withNodes({ name: 'vm1' })
    const node = twin.node('vm1')

    const spawned = await twin.spawn({ brief: 'count to three', title: 'counter' })
    await settle()
    const [claim] = node.claims
    if (claim === undefined) throw new Error('no claim came')
    await node.end(claim.ref, completed('one two three'))
    const first = await twin.wait()
    const second = await twin.wait()

    expect(spawned).toMatchObject({ state: 'starting', machine: 'vm1', delivery_id: 1 })
    expect(claim).toMatchObject({ turn: 1, title: 'counter', request: { brief: 'count to three' } })
    expect(first.results).toMatchObject([
      { agent_id: spawned.agent_id, outcome: 'completed', text: 'one two three', text_bytes: 13, turn: 1, attempt: 1 },
    ])
    expect(second).toMatchObject({ results: [], unconfirmed: [], still_running: [] })
  })
})

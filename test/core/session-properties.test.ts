import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Peer, World } from './session-world.ts'

type Step =
  | { readonly type: 'send'; readonly size: number }
  | { readonly type: 'pump' | 'take' | 'take_twice' | 'apply' | 'sync' | 'connect' | 'disconnect' }
  | { readonly type: 'crash'; readonly keep: number }

/** How often each thing happens; a slow disk lets links come and go while batches are on their way. */
function steps(weights: { readonly sync: number; readonly connect: number }) {
  const only = <T extends Step['type']>(type: T, weight: number) => ({ weight, arbitrary: fc.constant({ type }) })
  const step: fc.Arbitrary<Step> = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({ type: fc.constant('send' as const), size: fc.integer({ min: 1, max: 2_000 }) }),
    },
    only('pump', 8),
    only('take', 8),
    only('take_twice', 2),
    only('apply', 6),
    only('sync', weights.sync),
    only('connect', weights.connect),
    only('disconnect', 1),
    { weight: 1, arbitrary: fc.record({ type: fc.constant('crash' as const), keep: fc.integer({ min: 0, max: 4 }) }) },
  )
  return fc.array(fc.tuple(fc.constantFrom('hub' as const, 'node' as const), step), { minLength: 20, maxLength: 250 })
}

const anySteps = fc.oneof(
  steps({ sync: 8, connect: 2 }),
  steps({ sync: 3, connect: 2 }),
  steps({ sync: 4, connect: 6 }),
)

function act(world: World, peer: Peer, action: Step, id: string): void {
  switch (action.type) {
    case 'send':
      peer.send(id, action.size)
      break
    case 'take_twice':
      peer.take(true)
      peer.take()
      break
    case 'crash':
      world.crash(peer, action.keep)
      break
    case 'connect':
    case 'disconnect':
      world[action.type]()
      break
    default:
      peer[action.type]()
  }
}

/** What a side really sent: whatever is in the other's applied list, then its outbox. */
function history(sender: Peer, receiver: Peer): string[] {
  const waiting = [...sender.outbox].filter(([no]) => no > receiver.disk.applied.length)
  return [...receiver.disk.applied, ...waiting.sort(([a], [b]) => a - b).map(([, { id }]) => id)]
}

describe('a lane', () => {
  // Goal: whatever links and processes do, each message that was on the sender's disk is applied once and in order,
  // nothing is let go before it is on the receiver's disk (the world throws), and no fault is ever found in a correct peer.
  test('delivers exactly once and in order over links that drop and processes that crash', () => {
    fc.assert(
      fc.property(anySteps, (run) => {
        const world = new World()
        const committed = { hub: [] as string[], node: [] as string[] }
        let count = 0
        for (const [name, action] of run) {
          act(world, world[name], action, `m${count++}`)
          expect(world.hub.faults).toEqual([])
          expect(world.node.faults).toEqual([])
        }
        committed.hub = history(world.hub, world.node)
        committed.node = history(world.node, world.hub)

        world.settle()

        expect(world.node.disk.applied).toEqual(committed.hub)
        expect(world.hub.disk.applied).toEqual(committed.node)
        expect([...world.hub.outbox.keys(), ...world.node.outbox.keys()]).toEqual([])
        expect(world.hub.isCaughtUp && world.node.isCaughtUp).toBe(true)
        expect([...world.hub.faults, ...world.node.faults]).toEqual([])
        expect(new Set(committed.hub).size).toBe(committed.hub.length)
      }),
      { numRuns: 1_500 },
    )
  })

  test('accepts every event in every state and never throws', () => {
    const number = fc.integer({ min: 0, max: 6 })
    const hash = fc.constantFrom('0000000000000000', '1111111111111111')
    const cursor = fc.record({
      lane: fc.constant(1),
      storeId: fc.constantFrom('a', 'b'),
      incarnation: fc.integer({ min: 1, max: 2 }),
      sent: number,
      received: number,
      hash,
    })
    const own = fc.record({ sent: number, received: number })
    const event = fc.oneof(
      fc.record({ type: fc.constant('send' as const), hash }),
      fc.record({ type: fc.constant('sent_durable' as const), no: number }),
      fc.record({
        type: fc.constant('link_up' as const),
        peer: cursor,
        own,
        hashAtReceived: fc.option(hash, { nil: undefined }),
      }),
      fc.record({ type: fc.constant('link_down' as const) }),
      fc.record({
        type: fc.constant('part_in' as const),
        no: number,
        index: number,
        isLast: fc.boolean(),
        bytes: fc.integer({ min: 0, max: 1_200 }),
      }),
      fc.record({
        type: fc.constant('part_out' as const),
        bytes: fc.integer({ min: 1, max: 300 }),
        isLast: fc.boolean(),
      }),
      fc.record({ type: fc.constant('applied' as const), no: number, hash }),
      fc.record({ type: fc.constant('applied_durable' as const), no: number, hash }),
      fc.record({
        type: fc.constant('ack' as const),
        received: number,
        hashAtReceived: fc.option(hash, { nil: undefined }),
      }),
      fc.record({ type: fc.constant('credit' as const), bytes: fc.integer({ min: 1, max: 1_200 }) }),
      fc.record({ type: fc.constant('peer_caught_up' as const), no: number }),
    )
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        const world = new World()
        world.hub.other = undefined
        for (const next of events) {
          const before = world.hub.state
          const effects = world.hub.step(next)
          const { state } = world.hub
          expect(state.sent).toBeGreaterThanOrEqual(before.sent)
          expect(state.received).toBeGreaterThanOrEqual(before.received)
          expect(state.receivedDurable).toBeLessThanOrEqual(state.received)
          expect(state.sentDurable).toBeLessThanOrEqual(state.sent)
          expect(effects.findIndex((effect) => effect.type === 'persist')).toBeLessThanOrEqual(0)
          if (effects.some((effect) => effect.type === 'fault')) expect(state).toBe(before)
        }
      }),
      { numRuns: 500 },
    )
  })
})

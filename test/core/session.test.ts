import { describe, expect, test } from 'vitest'
import type { LaneCursor } from '../../src/core/messages.ts'
import {
  emptyLaneHash,
  isCaughtUp,
  nextMessage,
  nextPartBytes,
  partOverheadBytes,
} from '../../src/core/session-lane.ts'
import { hashAfter, limits, type Peer, World } from './session-world.ts'

/** A link is up and nothing was sent. */
function connected(): World {
  const world = new World()
  world.connect()
  world.settle()
  return world
}

/** Both sides have sent and applied a few messages; no link is up. */
function used(): World {
  const world = connected()
  for (let no = 0; no < 3; no++) {
    world.hub.send(`h${no}`, 10)
    world.node.send(`n${no}`, 10)
  }
  world.settle()
  world.disconnect()
  return world
}

function reopen(world: World, changed: Partial<LaneCursor>): Peer {
  const { hub, node } = world
  hub.linkUp({ ...node.cursor, ...changed }, hub.cursor)
  return hub
}

describe('a lane', () => {
  test('numbers without gaps, keeps each message, and persists first', () => {
    const { hub } = new World()

    const first = hub.step({ type: 'send', hash: 'aaaaaaaaaaaaaaaa' })
    const second = hub.step({ type: 'send', hash: 'bbbbbbbbbbbbbbbb' })

    expect(first.map(({ type }) => type)).toEqual(['persist', 'keep'])
    expect(second.at(-1)).toEqual({ type: 'keep', no: 2 })
    expect(hub.state).toMatchObject({ sent: 2, sentHash: 'bbbbbbbbbbbbbbbb', sentDurable: 0 })
  })

  test('sends nothing before it is on disk', () => {
    const { hub } = connected()
    hub.send('a', 10)

    expect(nextMessage(hub.state)).toBeUndefined()
    hub.sync()

    expect(nextMessage(hub.state)).toBe(1)
  })

  test('acknowledges only what is on disk, once for a batch', () => {
    const world = connected()
    const { hub, node } = world
    for (const id of ['a', 'b', 'c']) hub.send(id, 10)
    while (hub.sync() || hub.pump() || node.take());
    node.apply()

    expect(hub.inbox).toEqual([])
    node.sync()

    expect(hub.inbox).toEqual([{ type: 'ack', received: 3 }])
    hub.take()
    expect(hub.outbox.size).toBe(0)
  })

  test('sends a message that is longer than a part in parts, and applies it with the last', () => {
    const { hub, node } = connected()
    hub.send('long', 700)
    hub.sync()

    hub.pump()
    hub.pump()
    expect(node.inbox).toMatchObject([
      { no: 1, index: 0, isLast: false, bytes: 300 },
      { no: 1, index: 1, isLast: false, bytes: 300 },
    ])
    while (node.take());
    expect(node.apply()).toBe(false)
    hub.pump()
    while (node.take());

    expect(node.apply()).toBe(true)
    expect(node.state.received).toBe(1)
  })

  test('starts a half sent message over on the next link', () => {
    const world = connected()
    const { hub, node } = world
    hub.send('long', 700)
    hub.sync()
    hub.pump()
    node.take()
    world.disconnect()

    world.settle()

    expect(node.disk.applied).toEqual(['long'])
    expect(node.faults).toEqual([])
  })

  test('stops sending when credit is used up and goes on when it is given back', () => {
    const { hub, node } = connected()
    for (let no = 0; no < 20; no++) hub.send(`m${no}`, 200)
    while (hub.sync() || hub.pump());

    const inFlight = node.inbox.reduce(
      (sum, frame) => sum + (frame.type === 'part' ? frame.bytes + partOverheadBytes : 0),
      0,
    )
    expect(inFlight).toBeGreaterThan(limits.creditWindowBytes - 2 * (200 + partOverheadBytes))
    expect(inFlight).toBeLessThanOrEqual(limits.creditWindowBytes)
    expect(nextPartBytes(hub.state, 200, limits)).toBeUndefined()
    while (node.take());
    expect(hub.inbox).toEqual([])
    node.apply()
    node.sync()

    expect(hub.inbox).toEqual([
      { type: 'ack', received: 3 },
      { type: 'credit', bytes: 3 * (200 + partOverheadBytes) },
    ])
  })

  test('replays from the peer cursor after a crash of either side, and lets go what arrived', () => {
    const world = connected()
    const { hub, node } = world
    hub.send('a', 10)
    hub.send('b', 10)
    while (hub.sync() || hub.pump() || node.take());
    node.apply()
    world.crash(hub, 0)
    node.sync()

    world.connect()

    expect(hub.state.acked).toBe(2)
    expect(hub.outbox.size).toBe(0)
    world.settle()
    world.crash(node, 0)
    world.settle()
    expect(node.disk.applied).toEqual(['a', 'b'])
  })

  test('drops a message that it applied before the link opened but had not yet on disk', () => {
    const world = connected()
    const { hub, node } = world
    hub.send('a', 700)
    hub.send('b', 10)
    while (hub.sync() || hub.pump() || node.take() || hub.take());
    node.apply()
    world.connect()
    while (hub.sync() || hub.pump() || node.take() || hub.take());
    while (node.sync());
    expect(node.apply()).toBe(false)

    world.settle()

    expect(node.disk.applied).toEqual(['a', 'b'])
    expect([...hub.faults, ...node.faults]).toEqual([])
  })

  test('goes past what is acknowledged while it is sending it again', () => {
    const world = connected()
    const { hub, node } = world
    hub.send('a', 700)
    hub.send('b', 10)
    while (hub.sync() || hub.pump() || node.take() || hub.take());
    node.apply()
    world.connect()
    while (hub.sync());
    hub.pump()
    node.take()
    while (node.sync());
    while (hub.take());

    expect(nextMessage(hub.state)).toBeUndefined()
    hub.send('c', 10)
    world.node.faults.length = 0
    while (hub.sync() || hub.pump() || node.take() || node.apply() || node.sync());

    expect(node.disk.applied).toEqual(['a', 'b', 'c'])
    expect([...hub.faults, ...node.faults]).toEqual([])
  })

  test('says caught up only once the head told at the opening is on disk, and hears it from the peer', () => {
    const world = new World()
    const { hub, node } = world
    hub.send('a', 10)
    hub.sync()
    world.connect()
    const told = () => hub.inbox.filter((frame) => frame.type === 'caught_up')

    while (hub.sync() || hub.pump() || node.take());
    node.apply()
    expect(told()).toEqual([])
    expect(isCaughtUp(node.state)).toBe(false)
    while (node.sync());

    expect(told()).toEqual([{ type: 'caught_up', no: 1 }])
    expect(isCaughtUp(node.state)).toBe(true)
    expect(isCaughtUp(hub.state)).toBe(false)
    while (hub.take());
    expect(isCaughtUp(hub.state)).toBe(true)
    world.disconnect()
    expect(isCaughtUp(hub.state)).toBe(false)
  })

  test('does not say caught up for what it applied and has not on disk when the link opens', () => {
    const world = connected()
    const { hub, node } = world
    hub.send('a', 10)
    while (hub.sync() || hub.pump() || node.take());
    node.apply()

    world.connect()

    expect(hub.inbox).toEqual([])
    expect(node.state.link?.hasTold).toBe(false)
    while (node.sync());
    expect(node.state.link?.hasTold).toBe(true)
  })

  test('gives credit back for what comes again over a new link', () => {
    const world = connected()
    const { hub, node } = world
    for (let no = 0; no < 5; no++) hub.send(`m${no}`, 100)
    while (hub.sync() || hub.pump() || node.take());
    node.apply()
    world.connect()
    while (hub.sync() || hub.pump() || node.take());
    node.sync()

    const { link } = node.state
    expect((link?.windowBytes ?? 0) + (link?.owedBytes ?? 0)).toBe(limits.creditWindowBytes)
    while (hub.take());
    expect(hub.state.link?.creditBytes).toBe(limits.creditWindowBytes - (link?.owedBytes ?? 0))
  })

  test('does not take an old word of caught up for the head of this link', () => {
    const world = new World()
    world.hub.send('a', 10)
    world.hub.sync()
    world.connect()

    world.hub.step({ type: 'peer_caught_up', no: 0 })

    expect(world.hub.state.link?.wasTold).toBe(false)
  })

  test.each([
    ['received_above_sent', { received: 4 }],
    ['received_below_acked', { received: 2 }],
    ['sent_below_received', { sent: 2 }],
    ['other_hash', { hash: 'ffffffffffffffff' }],
    ['other_store', { storeId: 'c'.repeat(32) }],
    ['other_store', { incarnation: 2 }],
  ] as const)('tells %s when the peer names %o, and changes nothing', (fault, changed) => {
    const world = used()
    const before = world.hub.state

    const hub = reopen(world, changed)

    expect(hub.faults).toEqual([fault])
    expect(hub.state).toBe(before)
    expect(hub.state.link).toBeUndefined()
  })

  test('finds another hash also below the acknowledged number and where nothing was ever applied', () => {
    const world = used()
    world.hub.send('h3', 10)
    world.hub.sync()
    expect(reopen(world, { received: 4, hash: hashAfter('x', 'y') }).faults).toEqual(['other_hash'])

    const fresh = new World()
    expect(reopen(fresh, { hash: 'ffffffffffffffff' }).faults).toEqual(['other_hash'])
  })

  test('lets a peer begin anew as long as neither ever got anything', () => {
    const world = new World()
    world.connect()
    world.disconnect()

    const hub = reopen(world, { storeId: 'd'.repeat(32) })

    expect(hub.faults).toEqual([])
    expect(hub.state.peer?.storeId).toBe('d'.repeat(32))
    expect(hub.state.receivedHash).toBe(emptyLaneHash)
  })

  test.each([
    ['gap', { no: 2, index: 0, isLast: true, bytes: 10 }],
    ['gap', { no: 1, index: 1, isLast: true, bytes: 10 }],
    ['empty_part', { no: 1, index: 0, isLast: false, bytes: 0 }],
    ['credit_exceeded', { no: 1, index: 0, isLast: true, bytes: 1_000 }],
  ] as const)('tells %s of the part %o', (fault, part) => {
    const { node } = connected()

    node.step({ type: 'part_in', ...part })

    expect(node.faults).toEqual([fault])
  })

  test('tells a message that grows over the limit, however much of it was taken', () => {
    const { node } = connected()
    for (let index = 0; index < 10 && node.faults.length === 0; index++) {
      node.step({ type: 'part_in', no: 1, index, isLast: false, bytes: 300 })
    }

    expect(node.faults).toEqual(['message_too_large'])
    expect(node.state.link?.expected.bytes).toBeLessThanOrEqual(limits.messageMaxBytes)
  })

  test('tells an acknowledgement of what was never sent, and credit beyond the window', () => {
    const { hub } = connected()

    hub.step({ type: 'ack', received: 1, hashAtReceived: undefined })
    hub.step({ type: 'credit', bytes: 1 })

    expect(hub.faults).toEqual(['ack_of_unsent', 'credit_exceeded'])
  })

  test('passes over what a link brings that is no longer there, and old acknowledgements', () => {
    const world = used()
    const { hub } = world
    const before = hub.state

    hub.step({ type: 'part_in', no: 4, index: 0, isLast: true, bytes: 10 })
    hub.step({ type: 'part_out', bytes: 10, isLast: true })
    hub.step({ type: 'ack', received: 3, hashAtReceived: undefined })
    hub.step({ type: 'credit', bytes: 10 })
    hub.step({ type: 'peer_caught_up', no: 9 })
    hub.step({ type: 'applied', no: 3, hash: 'x' })
    hub.step({ type: 'applied_durable', no: 3, hash: 'x' })
    hub.step({ type: 'sent_durable', no: 3 })

    expect(hub.state).toEqual(before)
    expect(nextMessage(hub.state)).toBeUndefined()
    expect(nextPartBytes(hub.state, 10, limits)).toBeUndefined()
    world.connect()
    expect(hub.step({ type: 'ack', received: 2, hashAtReceived: undefined })).toEqual([])
  })

  test('remembers what it applied while no link was up, and tells it at the next opening', () => {
    const world = connected()
    const { hub, node } = world
    hub.send('a', 10)
    while (hub.sync() || hub.pump() || node.take());
    node.apply()
    world.disconnect()
    while (node.sync());

    expect(node.cursor).toMatchObject({ received: 1, hash: hashAfter(emptyLaneHash, 'a') })
    world.connect()
    expect(hub.state.acked).toBe(1)
  })

  test('tells at an opening only what is on disk', () => {
    const world = connected()
    const { hub, node } = world
    hub.send('a', 10)
    while (hub.sync() || hub.pump() || node.take());
    node.apply()

    expect(node.state.received).toBe(1)
    expect(node.cursor).toMatchObject({ received: 0, hash: emptyLaneHash })
    while (node.sync());
    expect(node.cursor).toMatchObject({ received: 1, hash: hashAfter(emptyLaneHash, 'a') })
  })

  test('finds a duplicate part on one link and leaves the account of credit as it was', () => {
    const { hub, node } = connected()
    hub.send('a', 10)
    while (hub.sync() || hub.pump());
    node.take(true)
    const before = node.state

    const effects = node.step({ type: 'part_in', no: 1, index: 0, isLast: true, bytes: 10 })

    expect(effects).toEqual([{ type: 'duplicate', no: 1 }])
    expect(node.state).toBe(before)
  })
})

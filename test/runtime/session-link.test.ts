import { describe, expect, test } from 'vitest'
import { limits } from '../../src/core/limits.ts'
import type { ControlMessage, SessionFrame } from '../../src/core/messages.ts'
import { decodeFrame, encodeFrame } from '../../src/wire/session-codec.ts'
import { decodeWork, encodeWork } from '../../src/wire/work-codec.ts'
import { ManualClock, settle } from '../contracts/manual-clock.ts'
import { type MemoryLink, memoryLinkPair } from '../contracts/memory-link.ts'
import { acceptance, connect, openHub, openNode, ref, say, tell, textOf } from './session-harness.ts'

async function pairUp() {
  const clock = new ManualClock()
  const hub = await openHub({ clock })
  const node = await openNode({ clock })
  const link = await connect(hub, node, { clock })
  await settle()
  return { clock, hub, node, link }
}

function controls(link: MemoryLink): ControlMessage['type'][] {
  const frames = link.sent.map((frame) => decodeFrame(frame))
  return frames.flatMap((frame) => (frame.type === 'control' ? [frame.message.type] : []))
}

describe('a session on its link', () => {
  test('sends a heartbeat every 15 seconds when idle and every 1.5 seconds when busy', async () => {
    const { clock, hub, link } = await pairUp()
    const beats = () => controls(link.hub).filter((type) => type === 'heartbeat').length

    await clock.advance(60_000)
    expect(beats()).toBe(4)
    hub.session.setBusy(true)
    hub.session.setBusy(true)
    await clock.advance(15_000)
    const busy = controls(link.hub).filter((type) => type === 'heartbeat' || type === 'probe').length

    expect(busy).toBe(4 + 10)
    expect(hub.session.isAttached).toBe(true)
  })

  test('gives a link up after three heartbeats without a byte', async () => {
    const { clock, hub, link } = await pairUp()
    hub.session.setBusy(true)
    const heardAtMs = hub.session.lastHeardAtMs()
    link.silence()

    await clock.advance(3 * limits.heartbeatBusyMs - 1)
    expect(hub.session.isAttached).toBe(true)
    await clock.advance(1)

    expect(hub.session.isAttached).toBe(false)
    expect(await hub.session.detached()).toMatchObject({ code: 'link_down', message: expect.stringContaining('three') })
    expect(hub.session.lastHeardAtMs()).toBe(heardAtMs)
    expect(hub.session.owedSinceMs()).toBe(clock.nowMs())
    expect(hub.session.counts.peerFaults).toBe(0)
  })

  test('asks the hub before it takes a command that came after a silence, and not within seconds of the last word', async () => {
    const { clock, hub, node, link } = await pairUp()
    const probes = () => controls(link.node).filter((type) => type === 'probe').length
    await clock.advance(4_000)
    await hub.send(say('soon'))
    await settle()
    const soon = probes()
    await clock.advance(6_000)
    await hub.send(say('first'))
    await hub.send(say('second'))
    await settle()

    expect([soon, probes()]).toEqual([0, 1])
    expect(node.applied.map(textOf)).toEqual(['soon', 'first', 'second'])
  })

  test('takes nothing of what came after a silence when the link ends without an answer', async () => {
    const { clock, hub, node, link } = await pairUp()
    await clock.advance(6_000)
    // The hub has given the link up; what it sent lies there still.
    link.hub.isDeaf = true
    await hub.send(say('superseded'))
    await settle()
    const unanswered = node.applied.map(textOf)
    link.cut()
    await settle()
    await hub.engine.transact((tx) => hub.session.voidWhere(tx, () => true))
    await connect(hub, node, { clock })
    await hub.send(say('later'))
    await settle()

    expect(unanswered).toEqual([])
    expect(node.applied.map(textOf)).toEqual(['later'])
  })

  test('notices a silence by the wall clock too, since a machine that slept finds the other one unmoved', async () => {
    const { clock, hub, node, link } = await pairUp()
    clock.stepWall(60_000)
    link.hub.isDeaf = true
    await hub.send(say('from before it slept'))
    await settle()

    expect(node.applied).toEqual([])
  })

  test('asks at once when nothing was heard, and takes any byte for life', async () => {
    const { clock, hub, node, link } = await pairUp()
    hub.session.setBusy(true)

    // The node is idle and beats only every 15 seconds: what keeps the link are the answers to probes.
    await clock.advance(14_000)
    expect(hub.session.isAttached).toBe(true)
    expect(controls(link.hub)).toContain('probe')
    expect(controls(link.node)).toContain('probe_reply')

    await node.send(tell('a byte'))
    await settle()
    expect(hub.session.lastHeardAtMs()).toBe(clock.nowMs())
  })

  test('measures a probe, and says since when an answer is owed', async () => {
    const { clock, hub, link } = await pairUp()
    expect(hub.session.owedSinceMs()).toBeUndefined()
    expect(await hub.session.probe()).toBe(0)
    expect(hub.session.owedSinceMs()).toBeUndefined()

    await clock.advance(100)
    link.silence()
    const askedAtMs = clock.nowMs()
    const probe = hub.session.probe()
    await clock.advance(700)
    expect(hub.session.owedSinceMs()).toBe(askedAtMs)
    link.cut()

    await expect(probe).rejects.toMatchObject({ code: 'link_down' })
    await expect(hub.session.probe()).rejects.toMatchObject({ code: 'link_down' })
    await expect(hub.session.caughtUp()).rejects.toMatchObject({ code: 'link_down' })
  })

  test('counts work that is not acknowledged as an answer owed', async () => {
    const { clock, hub, link } = await pairUp()
    await clock.advance(50)
    link.silence()
    await hub.send(say('a'))
    await settle()
    const sentAtMs = clock.nowMs()
    await clock.advance(300)

    expect(hub.session.owedSinceMs()).toBe(sentAtMs)
  })

  test('owes nothing once work is acknowledged', async () => {
    const { hub } = await pairUp()
    await hub.send(say('a'))
    await settle()

    expect(hub.session.owedSinceMs()).toBeUndefined()
  })

  const part = (fields: Partial<SessionFrame & { type: 'part' }>): Uint8Array =>
    encodeFrame({ type: 'part', lane: 1, no: 1, index: 0, isLast: true, bytes: encodeWork(say('x')), ...fields })

  test.each([
    ['bytes that are no frame', () => new Uint8Array([1, 2, 3, 255]), 'invalid_frame'],
    ['a lane that is not open', () => part({ lane: 7 }), 'protocol_violation'],
    ['a gap', () => part({ no: 3 }), 'protocol_violation'],
    [
      'an acknowledgement of nothing',
      () => encodeFrame({ type: 'control', message: { type: 'ack', lane: 1, received: 9 } }),
      'protocol_violation',
    ],
    [
      'credit without end',
      () => encodeFrame({ type: 'control', message: { type: 'credit', lane: 1, bytes: 1e9 } }),
      'protocol_violation',
    ],
    [
      'an opening in the middle',
      () => encodeFrame({ type: 'open', hubId: 'hub_1', epoch: 1, sessionNo: 99, lanes: [], fences: [] }),
      'protocol_violation',
    ],
  ] as const)(
    'closes the link with a typed reason on %s, counts it, and goes on with the next link',
    async (_what, frame, code) => {
      const { clock, hub, node, link } = await pairUp()
      const detached = node.session.detached()

      await link.hub.send(frame())

      expect(await detached).toMatchObject({ code })
      expect(await link.node.closed).toMatchObject({ code })
      expect(node.session.counts.peerFaults).toBe(1)
      expect(node.applied).toEqual([])
      await connect(hub, node, { clock })
      await hub.send(say('goes on'))
      await settle()
      expect(node.onDisk()).toEqual(['goes on'])
    },
  )

  test('passes over control frames of other lanes and kinds of frames from a later version', async () => {
    const { hub, node, link } = await pairUp()

    await link.hub.send(encodeFrame({ type: 'control', message: { type: 'ack', lane: 2, received: 9 } }))
    await link.hub.send(encodeFrame({ type: 'control', message: { type: 'credit', lane: 2, bytes: 9 } }))
    await link.hub.send(encodeFrame({ type: 'control', message: { type: 'caught_up', heads: [{ lane: 2, no: 9 }] } }))
    await link.hub.send(encodeFrame({ type: 'control', message: { type: 'probe_reply', nonce: 77 } }))
    // Field 15 of the frame, which no kind has.
    await link.hub.send(new Uint8Array([0x7a, 0x01, 0x00]))
    await hub.send(say('goes on'))
    await settle()

    expect(node.onDisk()).toEqual(['goes on'])
  })

  test('answers a kind that it does not know as unsupported, and passes a kind that only it sends', async () => {
    const clock = new ManualClock()
    const node = await openNode({ clock })
    const link = memoryLinkPair({ clock })
    const cursor = { lane: 1, storeId: 'c'.repeat(32), incarnation: 1, sent: 0, received: 0, hash: '0'.repeat(16) }
    await node.session.accept(
      link.node,
      { type: 'open', hubId: 'hub_1', epoch: 1, sessionNo: 1, fences: [], lanes: [cursor] },
      acceptance,
    )

    // Field 1 of a work message is its kind.
    await link.hub.send(part({ bytes: new Uint8Array([0x0a, 5, ...new TextEncoder().encode('dance')]) }))
    await link.hub.send(part({ no: 2, bytes: encodeWork(tell('a result for a node')) }))
    await link.hub.send(part({ no: 3, bytes: encodeWork(say('goes on')) }))
    await settle()

    expect(node.onDisk()).toEqual(['goes on'])
    expect(node.session.counts).toMatchObject({ unsupported: 2, peerFaults: 0 })
    const answers = link.node.sent.map((frame) => decodeFrame(frame)).filter((frame) => frame.type === 'part')
    expect(answers.map(({ bytes }) => decodeWork(bytes))).toEqual([
      { type: 'unsupported', kind: 'dance' },
      { type: 'unsupported', kind: 'ended' },
    ])
  })

  test('passes what no node says, at a hub', async () => {
    const clock = new ManualClock()
    const hub = await openHub({ clock })
    const link = memoryLinkPair({ clock })
    const cursor = { lane: 1, storeId: 'c'.repeat(32), incarnation: 1, sent: 0, received: 0, hash: '0'.repeat(16) }
    const opening = hub.session.open(link.hub, { hubId: 'hub_1', epoch: 1, sessionNo: 1, fences: [] })
    await link.node.send(encodeFrame({ type: 'accept', lanes: [cursor], ...acceptance }))
    await opening

    await link.node.send(part({ bytes: encodeWork(say('for a node')) }))
    await link.node.send(part({ no: 2, bytes: encodeWork(tell('goes on')) }))
    await settle()

    expect(hub.onDisk()).toEqual(['goes on'])
    expect(hub.session.counts.unsupported).toBe(1)
    expect(hub.session.outbox().entries).toBe(0)
  })

  test('hands capacity and progress on, the newest of what waited, and drops them without a link', async () => {
    const { hub, node, link } = await pairUp()
    const capacity = (free: number): ControlMessage => ({ type: 'capacity', capacity: { free, running: 0, queued: 0 } })

    for (let free = 0; free < 5; free++) node.session.control(capacity(free))
    for (let no = 0; no < 300; no++) {
      node.session.control({ type: 'progress', ref: { ...ref, attemptId: `att_${no}` }, atMs: no })
    }
    await settle(200)
    expect(hub.control.filter(({ type }) => type === 'capacity')).toEqual([capacity(4)])
    expect(hub.control.filter(({ type }) => type === 'progress').length).toBeLessThanOrEqual(257)
    expect(hub.control.at(-1)).toMatchObject({ atMs: 299 })

    // Over a bound of the wire: left out, and the link goes on.
    node.session.control({ type: 'progress', ref, atMs: 0, note: 'x'.repeat(100_000) })
    node.session.control(capacity(5))
    await settle()
    expect(hub.control.at(-1)).toEqual(capacity(5))

    const before = hub.control.length
    link.cut()
    await settle()
    node.session.control(capacity(9))
    await settle()
    expect(hub.control).toHaveLength(before)
  })

  test('ends the process when the shell of the receiver has a bug', async () => {
    const clock = new ManualClock()
    const hub = await openHub({ clock })
    const node = await openNode({
      clock,
      react: () => {
        throw new TypeError('a bug')
      },
    })
    await connect(hub, node, { clock })
    await hub.send(say('a'))

    expect((await node.engine.failed).message).toBe('a bug')
    expect(node.onDisk()).toEqual([])
    await settle()
    expect(hub.session.outbox().entries).toBe(1)
  })

  test('ends the process when a message it has to send is damaged in the store', async () => {
    const clock = new ManualClock()
    const [hub, node] = [await openHub({ clock }), await openNode({ clock })]
    await node.send(tell('x'.repeat(100_000)))
    node.store.disk.damage('outbox/hub_1/1/0000000000000001')

    void connect(hub, node, { clock }).catch(() => undefined)

    expect(await node.engine.failed).toMatchObject({ code: 'store_damaged' })
  })

  test('does not start on an outbox with a hole', async () => {
    const clock = new ManualClock()
    const node = await openNode({ clock })
    for (const text of ['a', 'b', 'c']) await node.send(tell(text))
    const disk = node.store.crash()
    disk.apply([{ type: 'delete', key: 'outbox/hub_1/1/0000000000000002' }])

    await expect(openNode({ clock, disk })).rejects.toMatchObject({ code: 'store_damaged' })
  })
})

describe('what a session replaces', () => {
  test('sends a void in the place of a superseded command, and both sides go on from the same hash', async () => {
    const clock = new ManualClock()
    const [before, node] = [await openHub({ clock }), await openNode({ clock })]
    for (const text of ['a', 'superseded', 'c'.repeat(100_000)]) await before.send(say(text))
    await before.engine.transact((tx) => before.session.voidWhere(tx, (message) => textOf(message) === 'superseded'))
    await before.engine.transact((tx) => before.session.voidWhere(tx, (message) => textOf(message) === 'superseded'))
    const hub = await openHub({ clock, disk: before.store.crash() })

    await connect(hub, node, { clock })
    await settle()
    expect(node.onDisk()).toEqual(['a', 'c'.repeat(100_000)])
    expect(hub.session.cursors()[0]?.sent).toBe(3)

    // The next opening compares the hashes.
    await connect(hub, node, { clock })
    await hub.send(say('d'))
    await settle()
    expect(node.onDisk().at(-1)).toBe('d')
  })

  test('holds a message back while its void is on its way to the disk', async () => {
    const clock = new ManualClock()
    const gates: (() => void)[] = []
    let isSlow = false
    const hub = await openHub({
      clock,
      sync: () => (isSlow ? new Promise((resolve) => gates.push(resolve)) : Promise.resolve()),
    })
    const node = await openNode({ clock })
    await hub.send(say('superseded'))
    await connect(hub, node, { clock, bufferBytes: 1 })
    await settle()
    expect(node.onDisk()).toEqual(['superseded'])

    await connect(hub, node, { clock })
    isSlow = true
    void hub.send(say('second'))
    void hub.engine.transact((tx) => hub.session.voidWhere(tx, (message) => textOf(message) === 'second'))
    await settle()
    gates.shift()?.()
    await settle()
    expect(node.session.cursors()[0]?.received).toBe(1)
    gates.shift()?.()
    await settle()

    expect(node.onDisk()).toEqual(['superseded'])
    expect(node.session.cursors()[0]?.received).toBe(2)
  })

  test('lets only a hub void', async () => {
    const { node } = await pairUp()
    void node.engine.transact((tx) => node.session.voidWhere(tx, () => true))

    expect((await node.engine.failed).message).toContain('only a hub')
  })

  test('sends what it is told, else a void, in the place of an own message over the limit', async () => {
    const clock = new ManualClock()
    const hub = await openHub({ clock })
    const node = await openNode({
      clock,
      limits: { messageMaxBytes: 50_000 },
      replace: (message, error) => (textOf(message).startsWith('keep.') ? tell(`instead: ${error.code}`) : undefined),
    })
    await connect(hub, node, { clock })

    await node.send(tell('a'))
    await node.send(tell('keep'.padEnd(60_000, '.')))
    await node.send(tell('drop'.padEnd(60_000, '.')))
    await node.send({ type: 'keeper_gone', ref, message: 'x'.repeat(limits.detailMaxBytes + 1) })
    await node.send(tell('z'))
    await settle()

    expect(hub.onDisk()).toEqual(['a', 'instead: frame_too_large', 'z'])
    expect(node.session.counts.replaced).toBe(3)
    await connect(hub, node, { clock })
    await settle()
    expect(hub.session.isCaughtUp).toBe(true)
  })

  test('sends a void under the number of a message that an earlier version left over the limit', async () => {
    const clock = new ManualClock()
    const before = await openNode({ clock })
    for (const text of ['a', 'long'.padEnd(60_000, '.'), 'z']) await before.send(tell(text))
    const hub = await openHub({ clock })
    const node = await openNode({ clock, disk: before.store.crash(), limits: { messageMaxBytes: 50_000 } })

    await connect(hub, node, { clock })
    await settle()
    expect(hub.onDisk()).toEqual(['a', 'z'])
    expect(node.session.counts.replaced).toBe(1)

    await connect(hub, node, { clock })
    await node.send(tell('on'))
    await settle()
    expect(hub.onDisk()).toEqual(['a', 'z', 'on'])
  })
})

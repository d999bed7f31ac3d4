import { describe, expect, test } from 'vitest'
import { decodeFrame } from '../../src/wire/session-codec.ts'
import { ManualClock, settle } from '../contracts/manual-clock.ts'
import type { MemoryLink } from '../contracts/memory-link.ts'
import { connect, openHub, openNode, ref, say, tell, textOf } from './session-harness.ts'

async function pairUp(options: { bufferBytes?: number } = {}) {
  const clock = new ManualClock()
  const hub = await openHub({ clock })
  const node = await openNode({ clock })
  const link = await connect(hub, node, { clock, ...options })
  return { clock, hub, node, link }
}

/** Bytes of work that an end has put on its link. */
function workBytes(link: MemoryLink): number {
  return link.sent
    .map((frame) => decodeFrame(frame))
    .reduce((sum, frame) => sum + (frame.type === 'part' ? frame.bytes.length : 0), 0)
}

describe('session', () => {
  test('brings messages to the other side once and in order, both ways', async () => {
    const { hub, node } = await pairUp()

    for (let no = 0; no < 50; no++) {
      void hub.send(say(`down ${no}`))
      void node.send(tell(`up ${no}`))
    }
    await settle()

    expect(node.applied.map(textOf)).toEqual(Array.from({ length: 50 }, (_, no) => `down ${no}`))
    expect(hub.applied.map(textOf)).toEqual(Array.from({ length: 50 }, (_, no) => `up ${no}`))
    expect(hub.session.outbox()).toEqual({ entries: 0, bytes: 0 })
    expect(node.session.outbox()).toEqual({ entries: 0, bytes: 0 })
    expect(hub.session.isCaughtUp).toBe(true)
    expect(node.session.isCaughtUp).toBe(true)
  })

  test('keeps what was sent without a link and brings it once one is up', async () => {
    const clock = new ManualClock()
    const [hub, node] = [await openHub({ clock }), await openNode({ clock })]
    await hub.send(say('waits'))
    expect(hub.session.outbox()).toMatchObject({ entries: 1, oldestAtMs: clock.wallMs() })

    await connect(hub, node, { clock })
    await Promise.all([hub.session.caughtUp(), node.session.caughtUp()])

    expect(node.onDisk()).toEqual(['waits'])
  })

  test('applies what it holds in one batch and acknowledges once', async () => {
    const clock = new ManualClock()
    const gates: (() => void)[] = []
    const hub = await openHub({ clock })
    const node = await openNode({ clock, sync: () => new Promise((resolve) => gates.push(resolve)) })
    const connecting = connect(hub, node, { clock })
    await settle()
    gates.shift()?.()
    const link = await connecting
    const acks = () =>
      link.node.sent
        .map((frame) => decodeFrame(frame))
        .filter((frame) => frame.type === 'control' && frame.message.type === 'ack')

    for (let no = 0; no < 30; no++) await hub.send(say(`${no}`))
    await settle()
    expect(acks()).toEqual([])
    gates.shift()?.()
    await settle()
    expect(acks()).toHaveLength(1)
    gates.shift()?.()
    await settle()

    expect(acks().at(-1)).toMatchObject({ message: { lane: 1, received: 30 } })
    expect(acks().length).toBe(2)
    expect(node.onDisk()).toHaveLength(30)
  })

  test('carries a message of 5 MiB in parts, byte for byte, also read back from the store after a restart', async () => {
    const chunk = (no: number): string => `${no} äöü ${'abcdefghij'.repeat(50)}\n`.padEnd(1024, '.')
    const text = Array.from({ length: 5 * 1024 }, (_, no) => chunk(no)).join('')
    const clock = new ManualClock()
    const hub = await openHub({ clock })
    const before = await openNode({ clock })
    await before.send(tell(text))
    await before.send(tell('after'))
    const node = await openNode({ clock, disk: before.store.crash() })
    expect(node.session.outbox()).toMatchObject({ entries: 2 })

    const link = await connect(hub, node, { clock })
    await hub.session.caughtUp()

    const [first, second] = hub.applied
    expect(first?.type === 'ended' && first.result.text === text).toBe(true)
    expect(second).toMatchObject({ type: 'ended', result: { text: 'after' } })
    expect(Math.max(...link.node.sent.map(({ length }) => length))).toBeLessThanOrEqual(64 * 1024)
    await settle()
    expect(node.session.outbox()).toEqual({ entries: 0, bytes: 0 })
  }, 30_000)

  test('lets control frames pass while a flood of work goes on', async () => {
    const { hub, node, link } = await pairUp({ bufferBytes: 64 * 1024 })
    const total = 400
    for (let no = 0; no < total; no++) void node.send(tell(`${no}`.padEnd(10_000, '.')))

    // Fifty probes in a row are answered one after the other long before the flood is over.
    for (let no = 0; no < 50; no++) {
      await hub.session.probe()
      node.session.control({ type: 'progress', ref, atMs: no })
    }
    expect(hub.applied.length).toBeLessThan(total)
    expect(hub.control.some(({ type }) => type === 'progress')).toBe(true)
    await settle(2_000)

    expect(hub.applied).toHaveLength(total)
    expect(link.node.sent.length).toBeGreaterThan(total)
  })

  test('brings a stop through while results flood the other way, and behind a thousand steers', async () => {
    const clock = new ManualClock()
    // A disk takes its time, and everything that comes meanwhile goes into the next batch.
    const slow = { turns: 40, syncs: 0 }
    const sync = async (): Promise<void> => {
      slow.syncs += 1
      await settle(slow.turns)
    }
    const hub = await openHub({ clock })
    let meanwhile: number | undefined
    const node = await openNode({
      clock,
      sync,
      react: (_side, _tx, message) => {
        if (message.type === 'stop') meanwhile = hub.applied.length
      },
    })
    await connect(hub, node, { clock, bufferBytes: 64 * 1024 })
    const total = 2_000
    for (let no = 0; no < total; no++) void node.send(tell(`${no}`.padEnd(10_000, '.')))
    await hub.engine.transact((tx) => {
      for (let no = 0; no < 1_000; no++) hub.session.send(tx, say(`${no}`))
      hub.session.send(tx, { type: 'stop', commandId: 'stop_1', ref })
    })
    const before = slow.syncs
    while (meanwhile === undefined) await settle(1)
    const syncs = slow.syncs - before
    while (hub.applied.length < total) await settle(1)

    expect(node.applied).toHaveLength(1_001)
    expect(meanwhile).toBeLessThan(total / 2)
    // The steers went in with what there was of them at each sync, not one by one.
    expect(syncs).toBeLessThan(100)
  }, 30_000)

  test('never has more than the credit window of a lane unapplied at a slow reader', async () => {
    const clock = new ManualClock()
    const gates: (() => void)[] = []
    let isSlow = false
    const hub = await openHub({
      clock,
      sync: () => (isSlow ? new Promise((resolve) => gates.push(resolve)) : Promise.resolve()),
    })
    const node = await openNode({ clock })
    const link = await connect(hub, node, { clock, bufferBytes: 16 * 1024 * 1024 })
    await settle()
    isSlow = true
    for (let no = 0; no < 100; no++) await node.send(tell(`${no}`.padEnd(20_000, '.')))
    await settle()

    expect(workBytes(link.node)).toBeLessThanOrEqual(256 * 1024)
    expect(workBytes(link.node)).toBeGreaterThan(128 * 1024)
    expect(hub.onDisk()).toEqual([])
    isSlow = false
    gates.shift()?.()
    await settle(500)

    expect(hub.onDisk()).toHaveLength(100)
    expect(node.session.outbox().entries).toBe(0)
  })

  test('waits for a link whose other end does not read', async () => {
    const clock = new ManualClock()
    const [hub, node] = [await openHub({ clock }), await openNode({ clock })]
    const link = await connect(hub, node, { clock, bufferBytes: 1 })
    for (let no = 0; no < 20; no++) void hub.send(say(`${no}`.padEnd(1_000, '.')))
    await settle(200)

    expect(link.node.waitingBytes).toBeLessThan(2_000)
    expect(node.applied).toHaveLength(20)
  })

  test('deletes acknowledged rows with the next commit, and many of them without waiting for one', async () => {
    const { hub, node } = await pairUp()
    const rows = () => hub.store.disk.keys().filter((key) => key.startsWith('outbox/'))
    await hub.send(say('one'))
    await settle()
    expect(hub.session.outbox().entries).toBe(0)
    expect(rows()).toHaveLength(1)

    await hub.send(say('two'))
    await settle()
    expect(rows()).toEqual(['outbox/node-machine/1/0000000000000002'])
    for (let no = 0; no < 100; no++) void hub.send(say(`${no}`))
    await settle(100)

    expect(node.applied).toHaveLength(102)
    expect(rows().length).toBeLessThan(64)
  })

  test('applies once what was complete but not yet applied when another link took over', async () => {
    const clock = new ManualClock()
    const gates: (() => void)[] = []
    let isSlow = false
    const hub = await openHub({ clock })
    const node = await openNode({
      clock,
      sync: () => (isSlow ? new Promise((resolve) => gates.push(resolve)) : Promise.resolve()),
    })
    await connect(hub, node, { clock })
    isSlow = true
    await hub.send(say('being applied'))
    await settle()
    await hub.send(say('waits for its batch'))
    await settle()
    expect(node.applied).toHaveLength(1)

    const connecting = connect(hub, node, { clock })
    for (let no = 0; no < 6; no++) {
      await settle()
      gates.shift()?.()
    }
    await connecting
    await settle()

    expect(node.onDisk()).toEqual(['being applied', 'waits for its batch'])
    expect(hub.session.outbox().entries).toBe(0)
  })

  test('sends what is said while a message is applied in the same batch', async () => {
    const clock = new ManualClock()
    const hub = await openHub({ clock })
    const node = await openNode({
      clock,
      react: (self, tx, message) => self.session.send(tx, tell(`got ${textOf(message)}`)),
    })
    await connect(hub, node, { clock })

    await hub.send(say('a'))
    await hub.send(say('b'))
    await settle()

    expect(hub.onDisk()).toEqual(['got a', 'got b'])
  })
})

import { describe, expect, test } from 'vitest'
import type { SessionFrame, SessionOpen } from '../../src/core/messages.ts'
import { Session } from '../../src/runtime/session.ts'
import type { MemoryDisk } from '../../src/store/memory-disk.ts'
import { decodeFrame, encodeFrame } from '../../src/wire/session-codec.ts'
import { ManualClock, settle } from '../contracts/manual-clock.ts'
import { type MemoryLinkPair, memoryLinkPair } from '../contracts/memory-link.ts'
import { acceptance, connect, type HubSide, openHub, openNode, say, tell } from './session-harness.ts'

async function sides() {
  const clock = new ManualClock()
  return { clock, hub: await openHub({ clock }), node: await openNode({ clock }) }
}

function openOn(hub: HubSide, link: MemoryLinkPair, options: { epoch?: number; sessionNo?: number } = {}) {
  const opening = hub.session.open(link.hub, { hubId: 'hub_1', epoch: 1, sessionNo: 1, fences: [], ...options })
  opening.catch(() => undefined)
  return opening
}

function never(): AbortSignal {
  return new AbortController().signal
}

describe('opening a session', () => {
  test('tells each side what the other told, and nothing goes out before', async () => {
    const { clock, hub, node } = await sides()
    await hub.send(say('a'))
    const link = memoryLinkPair({ clock })
    const fences = [{ attemptId: 'att_1', epoch: 3 }]
    const opening = hub.session.open(link.hub, { hubId: 'hub_1', epoch: 7, sessionNo: 2, fences })

    const open = await Session.readOpen(link.node, { signal: never() })
    expect(open).toMatchObject({
      hubId: 'hub_1',
      epoch: 7,
      sessionNo: 2,
      fences,
      lanes: [{ lane: 1, sent: 1, received: 0 }],
    })
    await settle()
    expect(link.hub.sent).toHaveLength(1)
    expect(hub.session.isAttached).toBe(false)
    await node.session.accept(link.node, open, {
      ...acceptance,
      inventory: [{ attemptId: 'att_1', state: 'ended', keeper: 'none' }],
    })
    const accept = await opening

    expect(accept).toMatchObject({
      bootId: 'boot_1',
      inventory: [{ attemptId: 'att_1', state: 'ended', keeper: 'none' }],
    })
    await hub.session.caughtUp()
    expect(node.onDisk()).toEqual(['a'])
  })

  test('goes through with more attempts than a frame holds, and says that some were left out', async () => {
    const { clock, hub, node } = await sides()
    const name = (no: number) => `att_${String(no).padStart(32, '0')}`
    const fences = Array.from({ length: 5_000 }, (_, no) => ({ attemptId: name(no), epoch: no + 1 }))
    const inventory = Array.from({ length: 5_000 }, (_, no) => ({
      attemptId: name(no),
      state: 'running' as const,
      keeper: 'live' as const,
    }))
    const link = memoryLinkPair({ clock })
    const opening = hub.session.open(link.hub, { hubId: 'hub_1', epoch: 1, sessionNo: 1, fences })

    const open = await Session.readOpen(link.node, { signal: never() })
    await node.session.accept(link.node, open, { ...acceptance, inventory })
    const accepted = await opening

    // What comes first is what matters most, and it is as much as 64 KiB hold.
    expect(open.fences).toEqual(fences.slice(0, open.fences.length))
    expect(open.fences.length).toBeGreaterThan(1_000)
    expect(accepted.inventory).toEqual(inventory.slice(0, accepted.inventory.length))
    expect(accepted.inventory.length).toBeGreaterThan(800)
    expect(accepted.isInventoryCut).toBe(true)
  })

  test('refuses an epoch below the highest seen, also after a restart, and a session number served already', async () => {
    const { clock, hub, node } = await sides()
    await connect(hub, node, { clock, epoch: 5 })
    expect(node.session.highestEpoch).toBe(5)

    await expect(connect(hub, node, { clock, epoch: 4 })).rejects.toMatchObject({
      code: 'stale_epoch',
      details: { refused: 'stale_epoch', highestEpochSeen: 5 },
    })
    const again = await openNode({ clock, disk: node.store.crash() })
    expect(again.session.highestEpoch).toBe(5)
    await expect(connect(hub, again, { clock, epoch: 4 })).rejects.toMatchObject({ code: 'stale_epoch' })
    await connect(hub, again, { clock, epoch: 6 })

    const twin = await openHub({ clock, disk: hub.store.disk.copy() })
    const link = memoryLinkPair({ clock })
    const opening = openOn(twin, link, { epoch: 6, sessionNo: 1 })
    const open = await Session.readOpen(link.node, { signal: never() })
    const refused = again.session.accept(link.node, open, acceptance)
    await expect(refused).rejects.toMatchObject({ details: { refused: 'stale_session' } })
    await expect(opening).rejects.toMatchObject({ code: 'protocol_violation', details: { refused: 'stale_session' } })
    expect(again.session.isAttached).toBe(true)
    expect(again.session.counts.peerFaults).toBe(0)
  })

  test('keeps the epoch on disk before it answers', async () => {
    const clock = new ManualClock()
    const gates: (() => void)[] = []
    const hub = await openHub({ clock })
    const node = await openNode({ clock, sync: () => new Promise((resolve) => gates.push(resolve)) })
    const link = memoryLinkPair({ clock })
    void openOn(hub, link, { epoch: 3 })
    const accepting = node.session.accept(link.node, await Session.readOpen(link.node, { signal: never() }), acceptance)
    await settle()

    expect(link.node.sent).toEqual([])
    gates.shift()?.()
    await accepting

    expect(link.node.sent.slice(0, 1).map((frame) => decodeFrame(frame))).toMatchObject([{ type: 'accept' }])
    expect(node.store.disk.keys()).toContain('lane/hub_1/session')
  })

  test('deletes what the peer had when the link opened in the batch of the cursor that is above it', async () => {
    const { clock, hub, node } = await sides()
    await connect(hub, node, { clock })
    await hub.send(say('a'))
    await settle()
    const rows = (disk: MemoryDisk): readonly string[] => disk.keys('outbox/', 'outbox0')
    // The acknowledgement was heard, and nothing was written since.
    expect(rows(hub.store.disk)).toHaveLength(1)

    const again = await openHub({ clock, disk: hub.store.crash() })
    await connect(again, node, { clock })
    // A row that stayed would be found once the lane begins anew and its numbers come there again.
    expect(rows(again.store.crash())).toEqual([])
  })

  test('begins anew with a node whose store was put back, and says so on both sides', async () => {
    const { clock, hub, node } = await sides()
    const backup = node.store.disk.copy()
    await connect(hub, node, { clock })
    await hub.send(say('a'))
    await node.send(tell('b'))
    await settle()
    await hub.send(say('c'))
    node.store.crash()

    const oldNode = await openNode({ clock, disk: backup })
    await connect(hub, oldNode, { clock })
    await settle()
    await hub.send(say('d'))
    await oldNode.send(tell('e'))
    await settle()

    // What had not arrived by then is the business of both to compare: it is never sent blindly.
    expect(oldNode.restarts).toMatchObject([{ side: 'own', fault: 'received_above_sent', incarnation: 2 }])
    expect(hub.restarts).toMatchObject([{ side: 'peer' }])
    expect(oldNode.onDisk()).toEqual(['d'])
    expect(hub.onDisk()).toEqual(['b', 'e'])
    expect(hub.session.isCaughtUp).toBe(true)
  })

  test('refuses a hub whose store was put back once, tells it what it lost, and begins anew with it', async () => {
    const { clock, hub, node } = await sides()
    const backup = hub.store.disk.copy()
    await connect(hub, node, { clock })
    await hub.send(say('a'))
    await node.send(tell('b'))
    await settle()

    const oldHub = await openHub({ clock, disk: backup })
    await expect(connect(oldHub, node, { clock })).rejects.toMatchObject({ code: 'protocol_violation' })
    expect(oldHub.restarts).toMatchObject([{ side: 'own', incarnation: 2 }])
    await connect(oldHub, node, { clock })
    await oldHub.send(say('c'))
    await settle()

    expect(node.restarts).toMatchObject([{ side: 'peer' }])
    expect(node.onDisk()).toEqual(['a', 'c'])
    // Links that break go on from here, and crashes too.
    await connect(oldHub, node, { clock })
    const again = await openNode({ clock, disk: node.store.crash() })
    await connect(oldHub, again, { clock })
    await oldHub.send(say('d'))
    await settle()
    expect(again.onDisk()).toEqual(['a', 'c', 'd'])
    expect(again.restarts).toEqual([])
  })

  test('notices that the same numbers hold other messages', async () => {
    const { clock, hub, node } = await sides()
    const backup = hub.store.disk.copy()
    await connect(hub, node, { clock })
    await hub.send(say('first history'))
    await settle()

    const oldHub = await openHub({ clock, disk: backup })
    await oldHub.send(say('second history'))

    await expect(connect(oldHub, node, { clock })).rejects.toMatchObject({ details: { fault: 'other_hash' } })
    await connect(oldHub, node, { clock })
    await settle()
    expect(node.onDisk()).toEqual(['first history'])
    expect(oldHub.restarts).toMatchObject([{ side: 'own', fault: 'other_hash' }])
  })

  test('puts a newer link in the place of an older one, whatever the older one is at', async () => {
    const { clock, hub, node } = await sides()
    const first = await connect(hub, node, { clock })
    const detached = hub.session.detached()
    await connect(hub, node, { clock })

    expect(await detached).toMatchObject({ code: 'link_down', message: expect.stringContaining('newer link') })
    expect(await first.node.closed).toMatchObject({ code: 'link_down' })
    await hub.send(say('a'))
    await settle()
    expect(node.onDisk()).toEqual(['a'])

    const unanswered = memoryLinkPair({ clock })
    const stuck = openOn(hub, unanswered, { sessionNo: 900 })
    await settle()
    await connect(hub, node, { clock })
    await node.session.accept(unanswered.node, await Session.readOpen(unanswered.node, { signal: never() }), acceptance)
    await expect(stuck).rejects.toMatchObject({ code: 'link_down' })
  })

  test('gives up on a node that does not answer, and on one that answers something else', async () => {
    const { clock, hub } = await sides()
    const silent = memoryLinkPair({ clock })
    const opening = openOn(hub, silent)
    await clock.advance(5_000)
    await expect(opening).rejects.toMatchObject({ code: 'link_down' })
    expect(await silent.hub.closed).toMatchObject({ code: 'timed_out' })

    const answers: { bytes: Uint8Array; code: string }[] = [
      { bytes: encodeFrame({ type: 'control', message: { type: 'heartbeat' } }), code: 'protocol_violation' },
      { bytes: encodeFrame({ type: 'accept', lanes: [], ...acceptance }), code: 'protocol_violation' },
      { bytes: new Uint8Array([255, 255, 255]), code: 'invalid_frame' },
    ]
    for (const { bytes, code } of answers) {
      const link = memoryLinkPair({ clock })
      const refused = openOn(hub, link)
      await link.node.send(bytes)
      await expect(refused).rejects.toMatchObject({ code })
      expect(await link.hub.closed).toMatchObject({ code })
    }
    expect(hub.session.counts.peerFaults).toBe(3)

    const lost = memoryLinkPair({ clock })
    const broken = openOn(hub, lost)
    lost.cut()
    await expect(broken).rejects.toMatchObject({ code: 'link_down' })
    expect(clock.pending).toBe(0)
  })

  test('waits for the opening of a hub only as long as it was told, and takes nothing else for one', async () => {
    const clock = new ManualClock()
    const controller = new AbortController()
    const silent = memoryLinkPair({ clock })
    const reading = Session.readOpen(silent.node, { signal: controller.signal })
    controller.abort()
    await expect(reading).rejects.toMatchObject({ code: 'timed_out' })
    await expect(Session.readOpen(memoryLinkPair({ clock }).node, { signal: controller.signal })).rejects.toMatchObject(
      { code: 'timed_out' },
    )

    const other = memoryLinkPair({ clock })
    await other.hub.send(encodeFrame({ type: 'control', message: { type: 'heartbeat' } }))
    await expect(Session.readOpen(other.node, { signal: never() })).rejects.toMatchObject({
      code: 'protocol_violation',
    })

    const gone = memoryLinkPair({ clock })
    gone.cut()
    await expect(Session.readOpen(gone.node, { signal: never() })).rejects.toMatchObject({ code: 'link_down' })
  })

  test('refuses an opening without a cursor for the lane, or with two', async () => {
    const { clock, node } = await sides()
    const cursor = { lane: 1, storeId: 'c'.repeat(32), incarnation: 1, sent: 0, received: 0, hash: '0'.repeat(16) }
    let sessionNo = 0
    for (const lanes of [[], [cursor, cursor]]) {
      const link = memoryLinkPair({ clock })
      sessionNo += 1
      const open: SessionOpen = { type: 'open', hubId: 'hub_1', epoch: 1, sessionNo, fences: [], lanes }

      await expect(node.session.accept(link.node, open, acceptance)).rejects.toMatchObject({
        code: 'protocol_violation',
      })

      const told = link.node.sent.map((frame): SessionFrame | { type: 'unknown' } => decodeFrame(frame))
      expect(told).toMatchObject([{ type: 'refused', code: 'protocol_violation' }])
    }
  })

  test('takes up nothing after it was closed', async () => {
    const { clock, hub, node } = await sides()
    const link = await connect(hub, node, { clock })

    hub.session.close()

    expect(await link.node.closed).toBeDefined()
    expect(hub.session.isAttached).toBe(false)
    await expect(connect(hub, node, { clock })).rejects.toMatchObject({ code: 'link_down' })
    expect(await hub.session.detached()).toMatchObject({ code: 'link_down' })
  })

  test('has a name for its remote that a key can hold', async () => {
    const { hub, clock } = await sides()
    const { engine, store } = hub
    const options = { engine, store, clock, side: 'hub', apply: () => undefined, control: () => undefined } as const

    await expect(Session.load({ ...options, remote: 'a/b' })).rejects.toThrow('not a name')
    await expect(Session.load({ ...options, remote: '' })).rejects.toThrow('not a name')
  })
})

import { expect, test } from 'vitest'
import { limits } from '../../src/core/limits.ts'
import { decodeFrame } from '../../src/wire/session-codec.ts'
import { settle } from '../contracts/manual-clock.ts'
import { completed, ScriptedNode } from './support/scripted-node.ts'
import { TwinHub } from './support/twin-hub.ts'

/** A hub whose idle end is noted. */
async function watched() {
  const twin = new TwinHub()
  await twin.start()
  let isOver = false
  void twin.hub.idleFor(limits.hubIdleExitMs).then(() => {
    isOver = true
  })
  const passes = async (ms: number) => {
    await twin.clock.advance(ms)
    return isOver
  }
  return { twin, passes }
}

test('a hub that nobody uses ends after ten minutes, and not before', async () => {
  const { passes } = await watched()

  expect(await passes(limits.hubIdleExitMs - 2_000)).toBe(false)
  expect(await passes(3_000)).toBe(true)
})

test('a hub that a session holds goes on, and has its ten minutes from the end of the session', async () => {
  const { twin, passes } = await watched()
  const hold = await twin.hold()

  expect(await passes(2 * limits.hubIdleExitMs)).toBe(false)
  await hold.release()
  expect(await passes(limits.hubIdleExitMs - 2_000)).toBe(false)
  expect(await passes(3_000)).toBe(true)
})

test('a hub of which an agent runs goes on without a session', async () => {
  const twin = await TwinHub.withNodes({ name: 'vm1' })
  const hold = await twin.hold()
  await twin.spawn()
  await settle()
  await hold.release()
  let isOver = false
  void twin.hub.idleFor(60_000).then(() => {
    isOver = true
  })
  await twin.clock.advance(120_000)
  const whileItRan = isOver
  const claim = twin.node('vm1').claims[0]
  if (claim === undefined) throw new Error('no claim')
  await twin.node('vm1').end(claim.ref, completed('done'))
  await settle()
  await twin.clock.advance(62_000)

  expect(whileItRan).toBe(false)
  expect(isOver).toBe(true)
})

test('a hub listens closely to the nodes that have work of it, for as long as they do, and to no other', async () => {
  const twin = await TwinHub.withNodes()
  const beats = new Map<string, number>()
  const open = twin.peers.openSession.bind(twin.peers)
  twin.peers.openSession = async (peerId) => {
    const link = await open(peerId)
    const send = link.send.bind(link)
    link.send = (bytes) => {
      const frame = decodeFrame(bytes)
      const isBeat = frame.type === 'control' && ['heartbeat', 'probe'].includes(frame.message.type)
      if (isBeat) beats.set(peerId, (beats.get(peerId) ?? 0) + 1)
      return send(bytes)
    }
    return link
  }
  const beatsOf = async (ms: number): Promise<readonly number[]> => {
    beats.clear()
    await twin.clock.advance(ms)
    return nodes.map(({ peerId }) => beats.get(peerId) ?? 0)
  }
  const nodes = ['vm1', 'vm2', 'vm3'].map((name) => new ScriptedNode({ clock: twin.clock, name }))
  for (const node of nodes) twin.peers.connect(node)
  await twin.clock.advance(1_000)
  await twin.spawn({ machine: 'vm1' })
  await twin.spawn({ machine: 'vm2' })
  await settle()
  const whileBothRun = await beatsOf(limits.heartbeatIdleMs)
  const [first] = nodes.flatMap((node) => node.claims)
  if (first === undefined) throw new Error('no claim')
  await nodes[0]?.end(first.ref, completed('done'))
  await settle()
  const whileOneRuns = await beatsOf(limits.heartbeatIdleMs)

  const busy = limits.heartbeatIdleMs / limits.heartbeatBusyMs
  expect(whileBothRun).toEqual([busy, busy, 1])
  expect(whileOneRuns).toEqual([1, busy, 1])
})

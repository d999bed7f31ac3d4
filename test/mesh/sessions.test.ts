import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import { limits } from '../../src/core/limits.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import type { Link } from '../../src/ports/peers.ts'
import { filled, take } from '../contracts/links.ts'
import { greetByHand } from './by-hand.ts'
import { addressOf, Bench, memberOf, peerUp, soon, streamClosed, TestMesh } from './support.ts'

describe('sessions', () => {
  let bench: Bench
  let mesh: TestMesh
  let node: MeshHost

  beforeEach(async () => {
    bench = new Bench()
    mesh = await TestMesh.create()
    node = await bench.member(mesh, 'node', { name: 'vm1', roles: ['node'] })
  })

  afterEach(() => bench[Symbol.asyncDispose]())

  test('a hub opens a session on a node that dialled it', async () => {
    const hub = await bench.member(mesh, 'hub')
    const accepted = accept()
    const greeted = peerUp(hub)
    await node.connect(addressOf(hub), soon())
    await greeted

    const link = await hub.openSession(node.self.peerId, soon())
    await link.send(filled(3, 9))

    const atNode = await accepted
    expect(atNode.peer).toMatchObject({ peerId: hub.self.peerId, kind: 'hub', hubId: 'hub_test' })
    expect(await take(atNode, 1)).toEqual([filled(3, 9)])
  })

  test('a session that is opened before the node can serve it waits', async () => {
    const hub = await bench.member(mesh, 'hub')
    await hub.connect(addressOf(node), soon())

    const link = await hub.openSession(node.self.peerId, soon())
    await link.send(filled(3, 9))

    expect(await take(await accept(), 1)).toEqual([filled(3, 9)])
  })

  test('a hub opens sessions on nodes only, and on peers that are there', async () => {
    const hub = await bench.member(mesh, 'hub')
    const issuer = await bench.member(mesh, 'issuer')
    await hub.connect(addressOf(issuer), soon())

    await expect(hub.openSession(issuer.self.peerId, soon())).rejects.toMatchObject({ code: 'wrong_role' })
    await expect(hub.openSession(node.self.peerId, soon())).rejects.toMatchObject({ code: 'link_down' })
    await expect(node.openSession(hub.self.peerId, soon())).rejects.toMatchObject({ code: 'link_down' })
  })

  test.each(['node', 'issuer', 'cli'] as const)('refuses a session that a %s opens, and counts it', async (kind) => {
    const { connection } = await greetByHand(bench, node, await memberOf(mesh, kind))

    const stream = await connection.newStream('/nfltr/session/1.0.0')
    await streamClosed(stream)

    expect(node.refusals()).toEqual({ wrong_role: 1 })
  })

  test('a frame over the limit ends that link and is counted; the node serves on', async () => {
    const { connection } = await greetByHand(bench, node, await memberOf(mesh, 'hub'))
    const accepted = accept()
    const stream = await connection.newStream('/nfltr/session/1.0.0')
    const bytes = new Uint8Array([0xff, 0xff, 0xff, 0x7f])
    stream.send(bytes)

    const link = await accepted
    expect(await take(link, 1)).toEqual([])
    expect(await link.closed).toMatchObject({ code: 'frame_too_large' })
    await streamClosed(stream)
    expect(node.refusals()).toEqual({ frame_too_large: 1 })
    expect(limits.sessionFrameMaxBytes).toBeLessThan(0xfffffff)
    expect(node.connected()).toHaveLength(1)
  })

  test('a link that its reader ends because of a bad frame is counted by that reason', async () => {
    const hub = await bench.member(mesh, 'hub')
    const accepted = accept()
    await hub.connect(addressOf(node), soon())
    const atHub = await hub.openSession(node.self.peerId, soon())

    const link = await accepted
    link.close(new NfltrError('invalid_frame', 'The frame made no sense.'))

    expect(await atHub.closed).toMatchObject({ code: 'link_down' })
    expect(node.refusals()).toEqual({ invalid_frame: 1 })
  })

  test('a link goes down at once when the process at the other end is gone', async () => {
    const hub = await bench.member(mesh, 'hub')
    const accepted = accept()
    await hub.connect(addressOf(node), soon())
    await hub.openSession(node.self.peerId, soon())
    const link = await accepted

    await hub.close()

    await link.closed
    expect(await take(link, 1)).toEqual([])
  })

  function accept(): Promise<Link> {
    return new Promise((resolve) => node.serveSessions(resolve))
  }
})

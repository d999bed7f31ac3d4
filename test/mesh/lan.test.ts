import { createServer, type Server } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'
import { decodeLan, encodeAnswer, encodeQuestion } from '../../src/mesh/lan-packets.ts'
import type { MeshHost, MeshOptions } from '../../src/mesh/peers.ts'
import type { Home } from '../../src/ports/home.ts'
import type { Lan } from '../../src/ports/lan.ts'
import { MemoryLan } from '../contracts/memory-lan.ts'
import { addressOf, Bench, memberOf, peerUp, TestMesh } from './support.ts'

describe('members on one network', () => {
  let bench: Bench
  let mesh: TestMesh
  let net: MemoryLan

  beforeEach(async () => {
    bench = new Bench()
    mesh = await TestMesh.create()
    net = new MemoryLan()
  })

  afterEach(() => bench[Symbol.asyncDispose]())

  test('find each other after both came back on other ports', async () => {
    const { node, hub, back } = await acquainted()
    const before = [addressOf(node), addressOf(hub)]
    await Promise.all([node.close(), hub.close()])

    const [again, hubAgain] = await back({ lan: net.at('127.0.0.1') })

    expect((await peerUp(hubAgain, ({ kind }) => kind === 'node')).peerId).toBe(again.self.peerId)
    expect([addressOf(again), addressOf(hubAgain)]).not.toEqual(before)
  })

  test('are told only a PeerId and where on this interface it listens', async () => {
    const node = await bench.member(mesh, 'node', { name: 'secret-name', more: { lan: net.at('127.0.0.1') } })

    const said = net.sent.map(({ bytes, from }) => ({ bytes, message: decodeLan(bytes, from) }))

    expect(said.map(({ message }) => message?.type)).toContain('answer')
    const answer = said.find(({ message }) => message?.type === 'answer')
    expect(answer?.message).toEqual({
      type: 'answer',
      peerId: node.self.peerId,
      addresses: [addressOf(node).replace(/\/p2p\/.*/, '')],
    })
    for (const { bytes } of said) {
      const text = Buffer.from(bytes).toString('latin1')
      for (const secret of ['secret-name', mesh.id, '0.1.0', 'node']) expect(text).not.toContain(secret)
    }
  })

  test('hear nothing from an interface on which a member does not listen', async () => {
    await bench.member(mesh, 'node', { more: { lan: net.at('192.0.2.9') } })

    expect(net.sent.map(({ bytes, from }) => decodeLan(bytes, from)?.type)).not.toContain('answer')
  })

  test('are not dialled where somebody announces a process of no member', async () => {
    const lan = net.at('127.0.0.1')
    const { node, hub } = await acquainted({ lan })
    const stranger = peerIdOf(await generateKey())
    const liar = await liarAt(bench)
    await node.close()

    net.tell({ bytes: encodeAnswer(stranger, [liar.address]), from: '127.0.0.1' })
    // By the time that a member was found by what it said, what came before it was dealt with.
    const up = peerUp(hub, ({ peerId }) => peerId === node.self.peerId)
    await restartedNode({ lan })
    await up

    expect(liar.calls()).toBe(0)
  })

  test('are found although somebody else claims to be them, which is tried a few times and no more', async () => {
    const lan = net.at('127.0.0.1')
    const { node, hub } = await acquainted({ lan })
    const { peerId } = node.self
    const liar = await liarAt(bench)
    await node.close()

    for (let round = 0; round < 2_000; round += 1)
      net.tell({ bytes: encodeAnswer(peerId, [liar.address]), from: '127.0.0.1' })
    const up = peerUp(hub, (peer) => peer.peerId === peerId)
    await restartedNode({ lan })
    await up

    expect(liar.calls()).toBeLessThan(10)
  })

  test('send nobody to an address that is not their own', () => {
    const peerId = '12D3KooWGZ3rYpEfT3i5LSLYi6YoGRb1jGyWk4tbWvqc1g8NQuZb'
    const bytes = encodeAnswer(peerId, ['/ip4/169.254.169.254/tcp/80', '/ip4/192.0.2.1/tcp/4701'])

    expect(decodeLan(bytes, '192.0.2.1')).toMatchObject({ addresses: ['/ip4/192.0.2.1/tcp/4701'] })
    expect(decodeLan(bytes, '192.0.2.2')).toBeUndefined()
  })

  test('are neither asked for nor answered where that is forbidden', async () => {
    const node = await bench.member(mesh, 'node')

    net.tell({ bytes: encodeQuestion(), from: '127.0.0.1' })

    expect(net.sent).toHaveLength(1)
    expect(node.lanStatus()).toEqual({ state: 'off', interfaces: [] })
  })

  test('are reached at known addresses where multicast is missing, which is said and no error', async () => {
    const lan: Lan = {
      open: async () => {
        throw Object.assign(new Error('in use'), { code: 'EADDRINUSE' })
      },
    }
    const node = await bench.member(mesh, 'node', { more: { lan } })
    const hub = await bench.member(mesh, 'hub', { more: { lan, peers: [addressOf(node)] } })
    await peerUp(hub)

    expect(node.lanStatus()).toEqual({
      state: 'unavailable',
      interfaces: [],
      reason: 'the port of multicast DNS cannot be had (EADDRINUSE)',
    })
  })

  test('what a network without multicast says for itself is that nothing comes back', async () => {
    const node = await bench.member(mesh, 'node', { more: { lan: net.at('127.0.0.1', { isDeaf: true }) } })

    await expect
      .poll(() => node.lanStatus())
      .toMatchObject({ state: 'unavailable', interfaces: ['net0'], reason: expect.stringContaining('comes back') })
  })

  let restartedNode: (more: Partial<MeshOptions>) => Promise<MeshHost>

  /** A node and a hub that have met, and how both start again. */
  async function acquainted(more: Partial<MeshOptions> = {}): Promise<{
    readonly node: MeshHost
    readonly hub: MeshHost
    readonly back: (more: Partial<MeshOptions>) => Promise<readonly [MeshHost, MeshHost]>
  }> {
    const nodeMember = { ...(await memberOf(mesh, 'node')), home: await bench.home() }
    const hubMember = { ...(await memberOf(mesh, 'hub')), home: await bench.home() }
    const node = await bench.start({ ...nodeMember, ...more })
    const hub = await bench.start({ ...hubMember, ...more })
    hub.wantAddress(addressOf(node))
    await Promise.all([peerUp(node), peerUp(hub)])
    await knowsAddress(nodeMember.home, hub.self.peerId)
    await knowsAddress(hubMember.home, node.self.peerId)
    hub.want(node.self.machinePeerId)
    restartedNode = (again) => bench.start({ ...nodeMember, ...again })
    return {
      node,
      hub,
      back: async (again) => {
        const nodeAgain = await bench.start({ ...nodeMember, ...again })
        const hubAgain = await bench.start({ ...hubMember, ...again })
        hubAgain.want(nodeAgain.self.machinePeerId)
        return [nodeAgain, hubAgain]
      },
    }
  }
})

async function knowsAddress(home: Home, peerId: string): Promise<void> {
  const knows = async (): Promise<boolean> =>
    (await home.mesh.roster()).some(({ addresses }) => addresses.some((address) => address.peerId === peerId))
  await expect.poll(knows).toBe(true)
}

/** Somebody who takes every call and says nothing. */
async function liarAt(bench: Bench): Promise<{ readonly address: string; calls(): number }> {
  let calls = 0
  const server: Server = createServer((socket) => {
    calls += 1
    socket.on('error', () => undefined)
    socket.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  bench.defer(() => new Promise((resolve) => server.close(resolve)))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the liar listens nowhere')
  return { address: `/ip4/127.0.0.1/tcp/${address.port}`, calls: () => calls }
}

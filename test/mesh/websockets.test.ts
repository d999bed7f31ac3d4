import { connect, type Socket } from 'node:net'
import { noise } from '@chainsafe/libp2p-noise'
import { yamux } from '@chainsafe/libp2p-yamux'
import type { Connection, Libp2p } from '@libp2p/interface'
import { webSockets } from '@libp2p/websockets'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { limits } from '../../src/core/limits.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import { boundedWebSockets } from '../../src/mesh/websockets.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { Home } from '../../src/ports/home.ts'
import { HeldClock } from './held-clock.ts'
import { addressOf, Bench, memberOf, peerDown, peerUp, soon, TestMesh } from './support.ts'

const onWebSockets = '/ip4/127.0.0.1/tcp/0/ws'
const onTcp = '/ip4/127.0.0.1/tcp/0'

describe('WebSockets', () => {
  let bench: Bench
  let mesh: TestMesh

  beforeEach(async () => {
    bench = new Bench()
    mesh = await TestMesh.create()
  })

  afterEach(() => bench[Symbol.asyncDispose]())

  test('carry a member’s hello, and are in its address record', async () => {
    const node = await bench.member(mesh, 'node', { more: { listen: [onWebSockets] } })
    const hub = await bench.member(mesh, 'hub', { more: { peers: [addressOf(node)] } })

    expect((await peerUp(hub)).path).toBe('lan')

    expect(addressOf(node)).toMatch(/^\/ip4\/127\.0\.0\.1\/tcp\/\d+\/ws\/p2p\//)
    const own = node.members().find(({ machinePeerId }) => machinePeerId === node.self.machinePeerId)
    expect(own?.addresses).toEqual([addressOf(node).replace(/\/p2p\/.*/, '')])
  })

  test('give way to TCP where both answer, whichever is named first', async () => {
    const { node, home } = await reachedFromRecord([onWebSockets, onTcp])

    expect(await answeredBy(home, node)).toMatch(/\/tcp\/\d+$/)
  })

  test('are taken where nothing answers on TCP', async () => {
    const { node, home } = await reachedFromRecord([onWebSockets])

    expect(await answeredBy(home, node)).toMatch(/\/ws$/)
  })

  test.for(['the one that dialled', 'the one that was dialled'])(
    'cut by %s close their socket, and the other side knows at once',
    async (side) => {
      const { dialler, listener, sockets } = await pair(true)
      const connection = await dialler.dial(listener.getMultiaddrs()[0] ?? [], soon())
      const far = await farEnd(listener)
      expect(sockets()).toBe(2)
      const [near, other] = side === 'the one that dialled' ? [connection, far] : [far, connection]
      const ended = new Promise((resolve) => other.addEventListener('close', resolve))

      near.abort(new Error('cut'))
      await ended

      await expect.poll(sockets).toBe(0)
    },
  )

  test('of upstream leave the socket open when they are cut, so ours are still needed', async () => {
    const { dialler, listener, sockets } = await pair(false)
    const connection = await dialler.dial(listener.getMultiaddrs()[0] ?? [], soon())
    const far = await farEnd(listener)

    connection.abort(new Error('cut'))
    // A round trip of another connection is more than the news of a closed socket takes.
    const other = await bench.member(mesh, 'node')
    await (await bench.stranger()).dial(multiaddr(addressOf(other)), soon())

    expect(far.status).toBe('open')
    expect(sockets()).toBeGreaterThanOrEqual(2)
  })

  test('of a member that is killed are down for the other at once', async () => {
    const node = await bench.member(mesh, 'node', { more: { listen: [onWebSockets] } })
    const hub = await bench.member(mesh, 'hub', { more: { peers: [addressOf(node)] } })
    await Promise.all([peerUp(hub), peerUp(node)])
    const down = peerDown(hub, node.self.peerId)

    node.dropConnections(hub.self.peerId)

    expect((await down).peerId).toBe(node.self.peerId)
  })

  test('let only so many strangers of one network wait before they speak, and members in all the same', async () => {
    const clock = new HeldClock(limits.helloTimeoutMs)
    const node = await bench.start({ ...(await memberOf(mesh, 'node')), listen: [onWebSockets], clock })
    const port = Number(addressOf(node).split('/')[4])
    const silent = await Promise.all(Array.from({ length: limits.halfOpenPerPrefixMax }, () => openSocket(bench, port)))
    const oneMore = await openSocket(bench, port)

    await new Promise((resolve) => oneMore.once('close', resolve))
    expect(silent.filter(({ closed }) => closed)).toEqual([])
    const closed = Promise.all(silent.map((socket) => new Promise((resolve) => socket.once('close', resolve))))
    clock.letGo()
    await closed
    const hub = await bench.member(mesh, 'hub', { more: { peers: [addressOf(node)] } })
    await peerUp(hub)
  })

  /** A hub that knows a node from its record alone reaches it. */
  async function reachedFromRecord(
    listen: readonly string[],
  ): Promise<{ readonly node: MeshHost; readonly home: Home }> {
    const node = await bench.member(mesh, 'node', { more: { listen } })
    const helper = await bench.member(mesh, 'hub', { more: { peers: [addressOf(node)] } })
    await peerUp(helper)
    const home = await bench.home()
    const hub = await bench.start({ ...(await memberOf(mesh, 'hub')), home })
    await hub.connect(addressOf(helper), soon())
    await expect.poll(() => hub.members().length).toBeGreaterThan(2)
    hub.want(node.self.machinePeerId)
    await peerUp(hub, ({ peerId }) => peerId === node.self.peerId)
    return { node, home }
  }

  async function pair(isOurs: boolean): Promise<{
    readonly dialler: Libp2p
    readonly listener: Libp2p
    /** Sockets that this process has open beyond those it had. */
    sockets(): number
  }> {
    const start = async (listen: readonly string[]): Promise<Libp2p> => {
      const host = await createLibp2p({
        addresses: { listen: [...listen] },
        transports: [isOurs ? boundedWebSockets({ clock: systemClock(), isMemberHost: () => false }) : webSockets()],
        connectionEncrypters: [noise()],
        streamMuxers: [yamux()],
        connectionGater: { denyDialMultiaddr: () => false },
        connectionMonitor: { enabled: false },
      })
      bench.defer(async () => host.stop())
      return host
    }
    const [listener, dialler] = [await start([onWebSockets]), await start([])]
    const before = openSockets()
    return { dialler, listener, sockets: () => openSockets() - before }
  }
})

function openSockets(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length
}

async function farEnd(listener: Libp2p): Promise<Connection> {
  await expect.poll(() => listener.getConnections().length).toBe(1)
  const [connection] = listener.getConnections()
  if (connection === undefined) throw new Error('the connection is gone')
  return connection
}

async function openSocket(bench: Bench, port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  bench.defer(async () => socket.destroy())
  await new Promise((resolve) => socket.once('connect', resolve))
  return socket
}

/** The address at which a process was reached last, as its home remembers it. */
async function answeredBy(home: Home, peer: MeshHost): Promise<string | undefined> {
  const find = async (): Promise<string | undefined> =>
    (await home.mesh.answered()).find(({ peerId }) => peerId === peer.self.peerId)?.addresses[0]?.address
  await expect.poll(find).toBeDefined()
  return find()
}

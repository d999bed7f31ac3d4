import { systemClock } from '../../src/platform/clock.ts'
import type { Link } from '../../src/ports/peers.ts'
import { type LinkPair, linksContract } from '../contracts/links.ts'
import { memoryLinkPair } from '../contracts/memory-link.ts'
import { addressOf, Bench, soon, TestMesh } from './support.ts'

linksContract('in memory', async () => {
  const { hub, node, cut } = memoryLinkPair({ clock: systemClock() })
  return { hub, node, cut: () => cut(), [Symbol.asyncDispose]: async () => cut() }
})

linksContract('libp2p over TCP', () => pairOver('/ip4/127.0.0.1/tcp/0'))

linksContract('libp2p over WebSockets', () => pairOver('/ip4/127.0.0.1/tcp/0/ws'))

async function pairOver(listen: string): Promise<LinkPair> {
  const bench = new Bench()
  const mesh = await TestMesh.create()
  const nodeHost = await bench.member(mesh, 'node', { more: { listen: [listen] } })
  const hubHost = await bench.member(mesh, 'hub')
  const accepted = Promise.withResolvers<Link>()
  nodeHost.serveSessions(accepted.resolve)
  const { peerId } = await hubHost.connect(addressOf(nodeHost), soon())
  const hub = await hubHost.openSession(peerId, soon())
  const node = await accepted.promise
  return {
    hub,
    node,
    cut: () => nodeHost.close(),
    [Symbol.asyncDispose]: () => bench[Symbol.asyncDispose](),
  }
}

import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Connection, Libp2p } from '@libp2p/interface'
import { multiaddr } from '@multiformats/multiaddr'
import type { PeerKind } from '../../src/core/membership.ts'
import type { PrivateKey } from '../../src/identity/keys.ts'
import { portOf } from '../../src/mesh/addresses.ts'
import { FrameStream } from '../../src/mesh/frame-stream.ts'
import type { MeshHost, Standing } from '../../src/mesh/peers.ts'
import { helloOf } from '../../src/mesh/standing.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { decodeHandshake, encodeHandshake, type HandshakeMessage, type Hello } from '../../src/wire/handshake-codec.ts'
import { addressOf, type Bench, connectionTo } from './support.ts'

export const megabyte = 1024 * 1024

/**
 * Says hello as a process that may claim anything.
 *
 * @returns the peer's verdict
 * @throws when the connection is cut before one comes
 */
export async function sayByHand(
  bench: Bench,
  mesh: MeshHost,
  claimant: { readonly key: PrivateKey; readonly hello: Hello },
): Promise<HandshakeMessage> {
  const stranger = await bench.stranger(claimant.key)
  const connection = await connectionTo(stranger, mesh)
  const stream = await connection.newStream('/nfltr/hello/1.0.0', { signal: AbortSignal.timeout(5_000) })
  const frames = new FrameStream(stream, { clock: systemClock(), frameMaxBytes: megabyte })
  await frames.send(encodeHandshake(claimant.hello))
  await frames.send(encodeHandshake({ type: 'revocations', lists: [] }))
  for await (const frame of frames.frames()) {
    const message = decodeHandshake(frame)
    if (message.type !== 'hello' && message.type !== 'revocations') return message
  }
  throw new Error('no verdict')
}

/** A member made by hand: its connection has passed hello, and it may now send whatever it likes. */
export async function greetByHand(
  bench: Bench,
  mesh: MeshHost,
  member: { readonly key: PrivateKey; readonly standing: Standing; readonly hubId?: string; readonly kind: PeerKind },
): Promise<{ readonly host: Libp2p; readonly connection: Connection }> {
  const host = await bench.stranger(member.key)
  const connection = await connectionTo(host, mesh)
  const stream = await connection.newStream('/nfltr/hello/1.0.0')
  const frames = new FrameStream(stream, { clock: systemClock(), frameMaxBytes: megabyte })
  const { standing, kind, hubId } = member
  await frames.send(encodeHandshake(helloFor({ standing, kind, ...(hubId === undefined ? {} : { hubId }) })))
  await frames.send(encodeHandshake({ type: 'revocations', lists: [] }))
  await frames.send(encodeHandshake({ type: 'welcome' }))
  for await (const frame of frames.frames()) {
    const message = decodeHandshake(frame)
    if (message.type === 'welcome') return { host, connection }
    if (message.type === 'refused') throw new Error(`refused: ${message.code}`)
  }
  throw new Error('no verdict')
}

function helloFor(member: { readonly standing: Standing; readonly kind: PeerKind; readonly hubId?: string }): Hello {
  return helloOf({ peerId: '', incarnation: 'by-hand', softwareVersion: '0.1.0', ...member }, member.standing, {
    nowMs: Date.now(),
    trust: { versions: () => [], certificateEnvelopes: () => [], successionEnvelopes: () => [] },
  })
}

/** A way to a mesh that can go silent without either end being told, as a pulled cable does. */
export async function freezablePath(
  bench: Bench,
  mesh: MeshHost,
): Promise<{ readonly address: string; readonly freeze: () => void }> {
  const port = portOf(multiaddr(addressOf(mesh))) ?? 0
  const sockets: Socket[] = []
  const server = createServer((inward) => {
    const outward = connect(port, '127.0.0.1')
    sockets.push(inward, outward)
    inward.pipe(outward).pipe(inward)
    for (const socket of [inward, outward]) socket.on('error', () => {})
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  bench.defer(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    address: `/ip4/127.0.0.1/tcp/${(server.address() as AddressInfo).port}`,
    freeze: () => {
      for (const socket of sockets) socket.unpipe().pause()
    },
  }
}

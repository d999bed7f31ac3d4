import type { PrivateKey } from '../../src/identity/keys.ts'
import { FrameStream } from '../../src/mesh/frame-stream.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { decodeHandshake, encodeHandshake, type HandshakeMessage, type Hello } from '../../src/wire/handshake-codec.ts'
import { type Bench, connectionTo } from './support.ts'

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

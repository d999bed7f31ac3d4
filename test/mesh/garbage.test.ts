import { connect } from 'node:net'
import process from 'node:process'
import { multiaddr } from '@multiformats/multiaddr'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { meshIssuer } from '../../src/identity/issuer-key.ts'
import { portOf } from '../../src/mesh/addresses.ts'
import { FrameStream } from '../../src/mesh/frame-stream.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { encodeHandshake } from '../../src/wire/handshake-codec.ts'
import { encodeRoster } from '../../src/wire/roster-codec.ts'
import { greetByHand, megabyte } from './by-hand.ts'
import { addressOf, Bench, connectionTo, memberOf, soon, streamClosed, TestMesh } from './support.ts'

describe('garbage', () => {
  let bench: Bench
  let mesh: TestMesh
  let issuer: MeshHost
  let node: MeshHost
  const loose: unknown[] = []
  const note = (reason: unknown): void => {
    loose.push(reason)
  }

  beforeEach(async () => {
    process.on('unhandledRejection', note)
    process.on('uncaughtException', note)
    bench = new Bench()
    mesh = await TestMesh.create()
    const home = await bench.home()
    issuer = await bench.member(mesh, 'issuer', {
      home,
      more: { issuer: { book: home.issuer, signer: meshIssuer(mesh.key) } },
    })
    node = await bench.member(mesh, 'node')
    node.serveSessions(() => {})
  })

  afterEach(async () => {
    await bench[Symbol.asyncDispose]()
    process.off('unhandledRejection', note)
    process.off('uncaughtException', note)
    expect(loose.splice(0)).toEqual([])
  })

  test('any bytes of a stranger in hello or join end its connection and nothing else', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('/nfltr/hello/1.0.0', '/nfltr/join/1.0.0'),
        fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 5 }),
        fc.boolean(),
        async (protocol, chunks, isFramed) => {
          const stranger = await bench.stranger()
          const connection = await connectionTo(stranger, issuer)
          const stream = await connection.newStream(protocol, soon())
          for (const chunk of chunks)
            sendQuietly(stream, isFramed ? Uint8Array.of(chunk.length & 0x7f, ...chunk) : chunk)
          await stream.close().catch(() => {})
          await streamClosed(stream)
          await stranger.stop()
        },
      ),
      { numRuns: 25 },
    )

    await expectAlive(issuer)
  })

  test.each(['/nfltr/roster/1.0.0', '/nfltr/session/1.0.0', '/nfltr/hello/1.0.0'])(
    'any bytes of a member at %s end at most its connection',
    async (protocol) => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 5 }),
          async (chunks) => {
            const { connection, host } = await greetByHand(bench, node, await memberOf(mesh, 'hub'))
            const stream = await connection.newStream(protocol, soon())
            for (const chunk of chunks) sendQuietly(stream, chunk)
            await stream.close().catch(() => {})
            await host.stop()
          },
        ),
        { numRuns: 10 },
      )

      await expectAlive(node)
    },
  )

  test('a repeated hello ends the connection, typed', async () => {
    const { connection } = await greetByHand(bench, node, await memberOf(mesh, 'hub'))
    const closed = new Promise((resolve) => connection.addEventListener('close', resolve))

    await connection.newStream('/nfltr/hello/1.0.0', soon()).catch(() => {})
    await closed

    expect(node.refusals()).toEqual({ protocol_violation: 1 })
    expect(node.connected()).toEqual([])
    await expectAlive(node)
  })

  test('a message in the wrong place is refused, typed', async () => {
    const stranger = await bench.stranger()
    const stream = await (await connectionTo(stranger, node)).newStream('/nfltr/hello/1.0.0', soon())
    const frames = new FrameStream(stream, { clock: systemClock(), frameMaxBytes: megabyte })

    await frames.send(encodeHandshake({ type: 'welcome' }))
    await streamClosed(stream)

    expect(node.refusals()).toEqual({ protocol_violation: 1 })
  })

  test('a roster of a member that does not prove itself is counted and passed over', async () => {
    const { connection } = await greetByHand(bench, node, await memberOf(mesh, 'hub'))
    const foreign = await (await TestMesh.create()).membership((await memberOf(mesh, 'node')).key)
    const stream = await connection.newStream('/nfltr/roster/1.0.0', soon())
    const frames = new FrameStream(stream, { clock: systemClock(), frameMaxBytes: 2 * megabyte })
    const known = node.members().length

    await frames.send(encodeRoster({ type: 'digest', entries: [], revocationVersions: [] }))
    const member = { membership: foreign, addressRecords: [] }
    const page = {
      type: 'push',
      revocations: [],
      issuerCertificates: [],
      departures: [],
      successions: [],
      isLast: false,
    } as const
    await frames.send(encodeRoster({ ...page, members: [member, member] }))
    await frames.send(encodeRoster({ ...page, members: [], isLast: true }))
    while ((await frames.read()) !== undefined);

    expect(node.refusals()).toEqual({ bad_signature: 2 })
    expect(node.members()).toHaveLength(known)
    await expectAlive(node)
  })

  test('a roster without an end is ended', async () => {
    const { connection } = await greetByHand(bench, node, await memberOf(mesh, 'hub'))
    const stream = await connection.newStream('/nfltr/roster/1.0.0', soon())
    const frames = new FrameStream(stream, { clock: systemClock(), frameMaxBytes: 2 * megabyte })

    await frames.send(encodeRoster({ type: 'digest', entries: [], revocationVersions: [] }))
    const page = encodeRoster({
      type: 'push',
      members: [],
      revocations: [],
      issuerCertificates: [],
      departures: [],
      successions: [],
      isLast: false,
    })
    for (let index = 0; index < 100; index += 1) await frames.send(page).catch(() => {})

    expect(await frames.closed).toMatchObject({ code: 'link_down' })
    expect(node.refusals()).toEqual({ protocol_violation: 1 })
  })

  test('bytes that are no libp2p at all end their socket', async () => {
    const port = portOf(multiaddr(addressOf(node))) ?? 0
    for (const bytes of [
      'GET / HTTP/1.1\r\n\r\n',
      '\0'.repeat(5_000),
      '\x13/multistream/1.0.0\n\x07/noise\n'.padEnd(20_000, 'x'),
    ]) {
      const socket = connect(port, '127.0.0.1')
      const ended = new Promise((resolve) => socket.on('close', resolve))
      socket.on('error', () => {})
      socket.on('data', () => {})
      socket.end(bytes)
      await ended
    }

    await expectAlive(node)
  })

  async function expectAlive(host: MeshHost): Promise<void> {
    const hub = await bench.member(mesh, 'hub')
    expect(await hub.connect(addressOf(host), soon())).toMatchObject({ peerId: host.self.peerId })
    await hub.close()
  }
})

function sendQuietly(stream: { send(data: Uint8Array): boolean }, bytes: Uint8Array): void {
  try {
    stream.send(bytes)
  } catch {
    // It was ended already, which is what these tests are about.
  }
}

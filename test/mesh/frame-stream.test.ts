import { Socket } from 'node:net'
import type { Stream } from '@libp2p/interface'
import { streamPair } from '@libp2p/utils'
import { multiaddr } from '@multiformats/multiaddr'
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'
import { FrameStream } from '../../src/mesh/frame-stream.ts'
import { startHost } from '../../src/mesh/host.ts'
import { Quarantine } from '../../src/mesh/quarantine.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { Bench, streamClosed } from './support.ts'

const clock = systemClock()
const frameMaxBytes = 64 * 1024

describe('frame stream', () => {
  test('passes 5 MiB in 64 KiB frames to a reader that is slow, holding two windows and a frame, no more', async () => {
    await using bench = new Bench()
    const { here, there } = await tcpPair(bench)
    const [sender, reader] = [
      new FrameStream(here, { clock, frameMaxBytes }),
      new FrameStream(there, { clock, frameMaxBytes }),
    ]
    let heldHereBytes = 0
    let heldThereBytes = 0
    const sending = (async () => {
      for (let index = 0; index < 80; index += 1) {
        await sender.send(new Uint8Array(frameMaxBytes).fill(index))
        heldHereBytes = Math.max(heldHereBytes, here.writeBufferLength)
      }
      sender.close()
    })()

    let count = 0
    for await (const frame of reader.frames()) {
      expect(frame.every((byte) => byte === count)).toBe(true)
      count += 1
      heldThereBytes = Math.max(heldThereBytes, there.readBufferLength)
      // A reader that takes a few turns of the event loop over each frame.
      for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    }
    await sending

    expect(count).toBe(80)
    expect(heldHereBytes).toBeLessThanOrEqual(2 * frameMaxBytes)
    expect(heldThereBytes).toBeLessThanOrEqual(1024 * 1024)
    expect([await sender.closed, await reader.closed]).toEqual([undefined, undefined])
  })

  test('a frame is one write to its connection, and nothing is written for it on the way back', async () => {
    await using bench = new Bench()
    const { here, there } = await tcpPair(bench)
    const sender = new FrameStream(here, { clock, frameMaxBytes })
    const reader = new FrameStream(there, { clock, frameMaxBytes })
    await sender.send(new Uint8Array(100))
    await reader.read()
    const single = vi.spyOn(Socket.prototype, '_write')
    const gathered = vi.spyOn(Socket.prototype, '_writev')
    bench.defer(async () => vi.restoreAllMocks())
    await standsStill(() => single.mock.calls.length + gathered.mock.calls.length)
    single.mockClear()
    gathered.mockClear()

    for (let index = 0; index < 5; index += 1) {
      await sender.send(new Uint8Array(100))
      expect(await reader.read()).toHaveLength(100)
    }
    await standsStill(() => single.mock.calls.length + gathered.mock.calls.length)

    expect(gathered).toHaveBeenCalledTimes(5)
    expect(single).not.toHaveBeenCalled()
  })

  test('a reader that never reads stops its sender within one window', async () => {
    await using bench = new Bench()
    const { here, there } = await tcpPair(bench)
    const sender = new FrameStream(here, { clock, frameMaxBytes })
    const reader = new FrameStream(there, { clock, frameMaxBytes })
    let sent = 0
    const sending = (async () => {
      for (;;) {
        await sender.send(new Uint8Array(frameMaxBytes))
        sent += 1
      }
    })()
    const failed = expect(sending).rejects.toMatchObject({ code: 'link_down' })
    await standsStill(() => sent)

    expect(sent * frameMaxBytes).toBeLessThan(2 * 1024 * 1024)
    reader.close(new Error('enough'))
    await failed
  })

  test('frames come out as they went in, however the bytes are cut on the way', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ maxLength: 400 }), { maxLength: 12 }),
        fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 20 }),
        async (frames, cuts) => {
          const [sender, receiver] = await streamPair()
          const reader = new FrameStream(receiver, { clock, frameMaxBytes: 400 })
          const bytes = Buffer.concat(frames.map((frame) => Buffer.concat([lengthOf(frame), frame])))
          for (let at = 0, index = 0; at < bytes.length; index += 1) {
            const step = cuts[index % cuts.length] ?? 1
            sender.send(new Uint8Array(bytes.subarray(at, at + step)))
            at += step
          }
          void sender.close().catch(() => {})

          const received: Uint8Array[] = []
          for await (const frame of reader.frames()) received.push(frame)

          expect(received).toEqual(frames)
        },
      ),
      { numRuns: 60 },
    )
  })

  test.each([
    ['one byte over its limit', [0x91, 0x03], 400],
    ['of 4 GiB', [0xff, 0xff, 0xff, 0xff, 0x0f], 400],
    ['of a length that never ends', [0x80, 0x80, 0x80, 0x80, 0x80, 0x80], 400],
  ])('ends the stream at a frame %s, before any of it is kept', async (_what, header, limit) => {
    const [sender, receiver] = await streamPair()
    const seen: string[] = []
    const onViolation = ({ code }: { readonly code: string }): void => {
      seen.push(code)
    }
    const reader = new FrameStream(receiver, { clock, frameMaxBytes: limit, onViolation })
    sender.send(new Uint8Array([2, 7, 7]))
    sender.send(new Uint8Array(header))

    expect(await reader.read()).toEqual(new Uint8Array([7, 7]))
    expect(await reader.read()).toBeUndefined()

    expect(seen).toEqual(['frame_too_large'])
    expect(reader.violation?.code).toBe('frame_too_large')
    expect(await reader.closed).toMatchObject({ code: 'frame_too_large' })
    await streamClosed(sender)
  })

  test('half a frame at the end of a stream is no frame', async () => {
    const [sender, receiver] = await streamPair()
    const reader = new FrameStream(receiver, { clock, frameMaxBytes: 400 })
    sender.send(new Uint8Array([5, 1, 2]))
    await sender.close()

    expect(await reader.read()).toBeUndefined()
  })

  test('every chunk counts as life, whole frame or not', async () => {
    const [sender, receiver] = await streamPair()
    let nowMs = 5
    const reader = new FrameStream(receiver, { clock: { ...clock, nowMs: () => nowMs }, frameMaxBytes: 400 })
    const arrived = new Promise((resolve) => receiver.addEventListener('message', resolve))
    expect(reader.lastHeardAtMs()).toBe(5)

    nowMs = 9
    sender.send(new Uint8Array([200]))
    await arrived

    expect(reader.lastHeardAtMs()).toBe(9)
  })
})

function lengthOf(frame: Uint8Array): Buffer {
  return frame.length < 0x80 ? Buffer.of(frame.length) : Buffer.of((frame.length & 0x7f) | 0x80, frame.length >> 7)
}

/** Two ends of a stream over real TCP, Noise and yamux, on hosts set up as in use. */
async function tcpPair(bench: Bench): Promise<{ readonly here: Stream; readonly there: Stream }> {
  const accepted = Promise.withResolvers<Stream>()
  const hosts = []
  for (let index = 0; index < 2; index += 1) {
    const key = await generateKey()
    const quarantine = new Quarantine({
      clock,
      ownPeerId: peerIdOf(key),
      isMemberHost: () => true,
      isLinked: () => false,
      onRefusal: () => {},
    })
    const host = await startHost({
      key,
      kind: 'node',
      listen: ['/ip4/127.0.0.1/tcp/0'],
      clock,
      quarantine,
      prepare: async (starting) => {
        starting.addEventListener('connection:open', ({ detail }) => quarantine.admissionOf(detail).pass())
        await starting.handle('/test/1', (stream) => accepted.resolve(stream))
      },
    })
    bench.defer(async () => host.stop())
    hosts.push(host)
  }
  const [one, other] = hosts
  const here = await one?.dialProtocol(multiaddr(other?.getMultiaddrs()[0]?.toString() ?? ''), '/test/1')
  if (here === undefined) throw new Error('no host')
  return { here, there: await accepted.promise }
}

async function standsStill(read: () => number): Promise<void> {
  let last = -1
  for (let quietTurns = 0; quietTurns < 300; ) {
    await new Promise((resolve) => setImmediate(resolve))
    quietTurns = read() === last ? quietTurns + 1 : 0
    last = read()
  }
}

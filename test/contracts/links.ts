import { describe, expect, test } from 'vitest'
import { limits } from '../../src/core/limits.ts'
import type { Link } from '../../src/ports/peers.ts'

/** Two ends of one link, and what can be done to the path between them. */
export interface LinkPair extends AsyncDisposable {
  readonly hub: Link
  readonly node: Link
  /** Ends the link below both ends, without telling either: as a killed process does. */
  cut(): Promise<void> | void
}

/** What every implementation of `Link` keeps to: the in-memory pair, libp2p, the simulator's. */
export function linksContract(name: string, open: () => Promise<LinkPair>): void {
  describe(`links: ${name}`, () => {
    test('frames arrive whole, unchanged and in order, both ways', async () => {
      await using pair = await open()
      const frames = [new Uint8Array(0), filled(1, 1), filled(limits.sessionFrameMaxBytes, 2), filled(300, 3)]

      for (const frame of frames) await pair.hub.send(frame)
      for (const frame of frames) await pair.node.send(frame)

      expect(await take(pair.node, frames.length)).toEqual(frames)
      expect(await take(pair.hub, frames.length)).toEqual(frames)
    })

    test('frames that were sent without waiting keep their order', async () => {
      await using pair = await open()
      const reading = take(pair.node, 200)

      await Promise.all(Array.from({ length: 200 }, (_, index) => pair.hub.send(filled(20, index))))

      expect((await reading).map((frame) => frame[0])).toEqual(Array.from({ length: 200 }, (_, index) => index))
    })

    test('a frame that its sender changes afterwards arrives as it was', async () => {
      await using pair = await open()
      const frame = filled(1000, 7)

      const sent = pair.hub.send(frame)
      await sent
      frame.fill(0)

      expect(await take(pair.node, 1)).toEqual([filled(1000, 7)])
    })

    test('a frame over the limit is refused before anything is sent', async () => {
      await using pair = await open()

      await expect(pair.hub.send(filled(limits.sessionFrameMaxBytes + 1, 1))).rejects.toMatchObject({
        code: 'frame_too_large',
      })
      await pair.hub.send(filled(5, 5))
      expect(await take(pair.node, 1)).toEqual([filled(5, 5)])
    })

    test('a sender waits while the other end does not read, and goes on when it does', async () => {
      await using pair = await open()
      const frame = filled(limits.sessionFrameMaxBytes, 1)
      let sent = 0
      const count = 128
      const sending = (async () => {
        for (let index = 0; index < count; index += 1) {
          await pair.hub.send(frame)
          sent += 1
        }
      })()
      await settled(() => sent)
      expect(sent).toBeLessThan(count / 2)

      const received = await take(pair.node, count)

      await sending
      expect(received).toHaveLength(count)
    })

    test('a received frame counts as life', async () => {
      await using pair = await open()
      const before = pair.node.lastHeardAtMs()

      await pair.hub.send(filled(1, 1))
      await take(pair.node, 1)

      expect(pair.node.lastHeardAtMs()).toBeGreaterThanOrEqual(before)
    })

    test('closing lets what was sent arrive, then ends both ends', async () => {
      await using pair = await open()
      await pair.hub.send(filled(10, 1))

      pair.hub.close()

      const rest: Uint8Array[] = []
      for await (const frame of pair.node.frames()) rest.push(frame)
      expect(rest).toEqual([filled(10, 1)])
      expect(await pair.hub.closed).toBeUndefined()
      expect(await pair.node.closed).toBeUndefined()
      await expect(pair.node.send(filled(1, 1))).rejects.toMatchObject({ code: 'link_down' })
    })

    test('aborting ends both ends, with the reason at the end that did it', async () => {
      await using pair = await open()
      const reason = new Error('no longer wanted')
      const reading = collect(pair.node)

      pair.hub.close(reason)

      expect(await pair.hub.closed).toBe(reason)
      await pair.node.closed
      await reading
      await expect(pair.hub.send(filled(1, 1))).rejects.toMatchObject({ code: 'link_down' })
      await expect(pair.node.send(filled(1, 1))).rejects.toMatchObject({ code: 'link_down' })
    })

    test('a reader and a sender that wait are let go when the link goes down', async () => {
      await using pair = await open()
      const reading = collect(pair.hub)
      const frame = filled(limits.sessionFrameMaxBytes, 1)
      const sending = (async () => {
        for (;;) await pair.hub.send(frame)
      })()
      const failed = expect(sending).rejects.toMatchObject({ code: 'link_down' })

      await pair.cut()

      await failed
      await reading
      await pair.hub.closed
      await pair.node.closed
    })

    test('closing again changes nothing', async () => {
      await using pair = await open()

      pair.hub.close()
      pair.hub.close()
      await pair.hub.closed
      pair.hub.close(new Error('late'))

      expect(await pair.hub.closed).toBeUndefined()
    })
  })
}

export function filled(bytes: number, value: number): Uint8Array {
  return new Uint8Array(bytes).fill(value)
}

/** The next frames of a link, without ending its iteration for good. */
export async function take(link: Link, count: number): Promise<readonly Uint8Array[]> {
  const frames: Uint8Array[] = []
  if (count === 0) return frames
  for await (const frame of link.frames()) {
    frames.push(frame)
    if (frames.length === count) break
  }
  return frames
}

async function collect(link: Link): Promise<readonly Uint8Array[]> {
  const frames: Uint8Array[] = []
  for await (const frame of link.frames()) frames.push(frame)
  return frames
}

/** Waits until a number stands still over many turns of the event loop. */
async function settled(read: () => number): Promise<void> {
  let last = -1
  let quietTurns = 0
  while (quietTurns < 200) {
    await new Promise((resolve) => setImmediate(resolve))
    quietTurns = read() === last ? quietTurns + 1 : 0
    last = read()
  }
}

import type { SeededRandom } from '../../sim/random.ts'
import { NfltrError } from '../../src/core/errors.ts'
import { Session } from '../../src/runtime/session.ts'
import { encodeFrame } from '../../src/wire/session-codec.ts'
import { encodeWork } from '../../src/wire/work-codec.ts'
import { ManualClock, settle } from '../contracts/manual-clock.ts'
import { memoryLinkPair } from '../contracts/memory-link.ts'
import { acceptance, connect, type NodeSide, openHub, openNode, say } from '../runtime/session-harness.ts'
import { frame, work } from '../wire/arbitraries.ts'
import { pool } from './decoders.ts'
import { mutate } from './mutate.ts'
import { Crash, type OpenTarget, type Target } from './target.ts'

/** Stores and sessions are made anew after so many inputs: what they rightly keep is no growth. */
const livesOf = 200

/** A session that is open gets frames that no hub sends. */
const frames: Target = {
  kind: 'live session',
  share: 4,
  open: async (seed) => {
    const valid = pool(seed, frame, encodeFrame)
    return renewed(async () => {
      const clock = new ManualClock()
      const node = await openNode({ clock })
      // Of a hub whose store is new.
      const lanes = (await openHub({ clock })).session.cursors()
      const bug = bugOf(node)
      return async (random) => {
        const bytes = mutate(random, valid)
        const pair = memoryLinkPair({ clock })
        // Some inputs are openings themselves, and raise it.
        const epoch = Math.min(node.session.highestEpoch + 1, Number.MAX_SAFE_INTEGER)
        const opening = random.chance(0.2)
          ? bytes
          : encodeFrame({ type: 'open', hubId: 'hub_1', epoch, sessionNo: 1, lanes, fences: [] })
        const served = serve(node, pair.node)
        await pair.hub.send(opening).catch(() => undefined)
        await settle(4)
        await pair.hub.send(bytes).catch(() => undefined)
        await settle(4)
        pair.hub.close()
        const reason = (await served) ?? (await pair.node.closed)
        const thrown = bug()
        if (thrown !== undefined) throw new Crash(bytes, thrown)
        return codeOf(reason, bytes)
      }
    })
  },
}

/** A hub numbers messages, in sound frames, that no hub says. */
const bodies: Target = {
  kind: 'live message',
  share: 4,
  open: async (seed) => {
    const valid = pool(seed, work, encodeWork)
    return renewed(async () => {
      const clock = new ManualClock()
      let next: Uint8Array | undefined
      const node = await openNode({ clock })
      const { wireCodec } = await import('../../src/runtime/session-options.ts')
      const codec = {
        ...wireCodec,
        encodeWork: (message: Parameters<typeof encodeWork>[0]) => next ?? encodeWork(message),
      }
      const hub = await openHub({ clock, codec })
      await connect(hub, node, { clock })
      const bug = bugOf(node)
      return async (random) => {
        const bytes = mutate(random, valid)
        const before = { applied: node.applied.length, poisons: node.poisons.length }
        next = bytes.length === 0 ? Uint8Array.of(0) : bytes
        await hub.send(say('what was said'))
        next = undefined
        await settle(6)
        const thrown = bug()
        if (thrown !== undefined) throw new Crash(bytes, thrown)
        if (!node.session.isAttached) throw new Crash(bytes, 'the link ended for one message')
        if (node.poisons.length > before.poisons) return 'invalid_frame'
        return node.applied.length > before.applied ? 'taken' : 'unsupported'
      }
    })
  },
}

export const sessions: readonly Target[] = [frames, bodies]

async function serve(node: NodeSide, link: Parameters<typeof Session.readOpen>[0]): Promise<unknown> {
  try {
    const open = await Session.readOpen(link, { signal: new AbortController().signal })
    await node.session.accept(link, open, acceptance)
    return undefined
  } catch (thrown) {
    link.close(thrown instanceof Error ? thrown : new Error(String(thrown)))
    return thrown
  }
}

function codeOf(reason: unknown, input: Uint8Array): string {
  if (reason === undefined) return 'taken'
  if (!(reason instanceof NfltrError) || reason.code === 'internal') throw new Crash(input, reason)
  return reason.code === 'link_down' ? 'taken' : reason.code
}

function bugOf(side: NodeSide): () => Error | undefined {
  let bug: Error | undefined
  void side.engine.failed.then((error) => {
    bug = error
  })
  return () => bug
}

/** A target that is built anew every {@link livesOf} inputs. */
export async function renewed(build: () => Promise<(random: SeededRandom) => Promise<string>>): Promise<OpenTarget> {
  let left = livesOf
  let current = await build()
  return {
    try: async (random) => {
      if (left === 0) {
        current = await build()
        left = livesOf
      }
      left -= 1
      return current(random)
    },
    close: async () => undefined,
  }
}

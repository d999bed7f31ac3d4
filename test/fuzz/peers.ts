import type { SeededRandom } from '../../sim/random.ts'
import type { HubMessage, NodeMessage, WorkMessage } from '../../src/core/messages.ts'
import { kinds } from '../../src/runtime/session-options.ts'
import { decodeWork, encodeWork } from '../../src/wire/work-codec.ts'
import { settle } from '../contracts/manual-clock.ts'
import { TwinHub } from '../hub/support/twin-hub.ts'
import { claim, ref, World } from '../node/world.ts'
import { work } from '../wire/arbitraries.ts'
import { pool } from './decoders.ts'
import { mutate } from './mutate.ts'
import { renewed } from './sessions.ts'
import { Crash, type Target } from './target.ts'

/** A node, whole but for its keepers, whose hub says what is well-formed and makes no sense. */
const node: Target = {
  kind: 'live node',
  share: 3,
  open: async (seed) => {
    const valid = pool(seed, work, encodeWork)
    return renewed(async () => {
      const world = await World.open()
      await world.hub.send(claim('a1'))
      await settle()
      return async (random) => {
        const message = senseless(random, valid, 'node')
        if (message === undefined) return 'invalid_frame'
        await world.hub.send(message as HubMessage)
        await settle(6)
        await world.clock.advance(300)
        const bytes = encodeWork(message)
        if (world.failure !== undefined) throw new Crash(bytes, world.failure)
        if (!world.hub.session.isAttached) throw new Crash(bytes, 'the link ended for one message')
        return world.hub.received.at(-1)?.type === 'declined' ? 'declined' : 'taken'
      }
    })
  },
}

/** A hub, whole, whose node says what is well-formed and makes no sense. */
const hub: Target = {
  kind: 'live hub',
  share: 3,
  open: async (seed) => {
    const valid = pool(seed, work, encodeWork)
    return renewed(async () => {
      const twin = await TwinHub.withNodes({ name: 'vm1' })
      const scripted = twin.node('vm1')
      let failure: unknown
      twin.hub.run().catch((error: unknown) => {
        failure = error
      })
      await twin.spawn()
      await settle()
      return async (random) => {
        const message = senseless(random, valid, 'hub')
        if (message === undefined) return 'invalid_frame'
        // Half of what it says is about work that it really has.
        const known = scripted.claims.at(-1)?.ref
        const said =
          known !== undefined && 'ref' in message && random.chance(0.5) ? { ...message, ref: known } : message
        await scripted.say(said as NodeMessage)
        await settle(6)
        const bytes = encodeWork(said)
        if (failure !== undefined) throw new Crash(bytes, failure)
        await twin.ask('list_agents', {}).catch((error: unknown) => {
          throw new Crash(bytes, error)
        })
        return 'taken'
      }
    })
  },
}

export const peers: readonly Target[] = [node, hub]

/** A message that a peer of ours could send to this side, and would not. */
function senseless(random: SeededRandom, valid: readonly Uint8Array[], to: 'hub' | 'node'): WorkMessage | undefined {
  for (let tries = 0; tries < 20; tries++) {
    try {
      const message = decodeWork(mutate(random, valid))
      if (message.type === 'unknown' || !kinds[to].has(message.type)) continue
      return 'ref' in message && random.chance(0.8) ? { ...message, ref: someRef(random) } : message
    } catch {
      // What does not decode is for the targets that decode.
    }
  }
  return undefined
}

function someRef(random: SeededRandom): ReturnType<typeof ref> {
  const epoch = random.pick([0, 1, 1, 1, 2, 3, Number.MAX_SAFE_INTEGER])
  return ref(random.pick(['a1', 'a1', 'a2', 'a3', '../a4']), {
    agentId: random.pick(['agt_1', 'agt_2', '../agt']),
    epoch,
  })
}

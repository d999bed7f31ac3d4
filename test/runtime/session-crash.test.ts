import { describe, expect, test } from 'vitest'
import type { MemoryDisk } from '../../src/store/memory-disk.ts'
import { ManualClock, settle } from '../contracts/manual-clock.ts'
import { connect, type HubSide, type NodeSide, openHub, openNode, say, tell, textOf } from './session-harness.ts'

const count = 8
const texts = (kind: string): string[] =>
  Array.from({ length: count }, (_, no) => `${kind} ${no}`.padEnd(no === 3 ? 90_000 : 20, '.'))

/** Counts the syncs of a side and kills it at one of them. */
class Fuse {
  left: number
  blow: () => void = () => undefined

  constructor(left: number) {
    this.left = left
  }

  readonly sync = async (): Promise<void> => {
    this.left -= 1
    if (this.left === 0) this.blow()
  }
}

/**
 * Both sides exchange messages; each message of the hub makes the node send one. At sync number `at` the victim dies, with
 * the first `keep` of its unsynced batches on disk, is started again and linked again. What a dead process did not get
 * onto its disk it asks for again, as a caller under an idempotency key would.
 */
async function exchange(victim: 'hub' | 'node', at: number, keep: number) {
  const clock = new ManualClock()
  const fuse = new Fuse(at)
  const react = (
    side: NodeSide,
    tx: Parameters<NodeSide['session']['send']>[0],
    message: Parameters<typeof textOf>[0],
  ): void => side.session.send(tx, tell(`re ${textOf(message)}`))
  const open = {
    hub: (disk?: MemoryDisk): Promise<HubSide> =>
      openHub({ clock, ...(disk === undefined ? {} : { disk }), ...(victim === 'hub' ? { sync: fuse.sync } : {}) }),
    node: (disk?: MemoryDisk): Promise<NodeSide> =>
      openNode({
        clock,
        react,
        ...(disk === undefined ? {} : { disk }),
        ...(victim === 'node' ? { sync: fuse.sync } : {}),
      }),
  }
  const sides = { hub: await open.hub(), node: await open.node() }
  let hasCrashed = false
  fuse.blow = () => {
    hasCrashed = true
    sides[victim].store.crash({ keepUnsynced: keep })
  }
  const linking = connect(sides.hub, sides.node, { clock })
  linking.catch(() => undefined)
  const acknowledged: string[] = []
  for (const text of texts('do')) {
    void sides.hub.send(say(text)).then(
      () => acknowledged.push(text),
      () => undefined,
    )
    await settle(1)
  }
  await settle()
  if (!hasCrashed) return { hasCrashed, acknowledged, sides }

  // The dead process takes its link with it.
  const { disk } = sides[victim].store
  sides[victim].session.close()
  await settle()
  if (victim === 'hub') sides.hub = await open.hub(disk)
  else sides.node = await open.node(disk)
  await connect(sides.hub, sides.node, { clock, epoch: 2 })
  await settle()
  return { hasCrashed, acknowledged, sides }
}

describe('session', () => {
  test.each(['hub', 'node'] as const)(
    'delivers once and in order, whichever sync the %s dies at',
    async (victim) => {
      let crashes = 0
      for (const keep of [0, 1, 2]) {
        for (let at = 1; at < 60; at++) {
          const { hasCrashed, acknowledged, sides } = await exchange(victim, at, keep)
          const { hub, node } = sides

          const done = node.onDisk()
          expect(new Set(done).size, `${at}/${keep}: nothing twice`).toBe(done.length)
          expect(done, `${at}/${keep}: in order`).toEqual(texts('do').filter((text) => done.includes(text)))
          expect(
            acknowledged.filter((text) => !done.includes(text)),
            `${at}/${keep}: nothing lost`,
          ).toEqual([])
          expect(hub.onDisk(), `${at}/${keep}: each answer once`).toEqual(done.map((text) => `re ${text}`))
          expect([hub.session.outbox().entries, node.session.outbox().entries]).toEqual([0, 0])
          expect([hub.session.counts.peerFaults, node.session.counts.peerFaults]).toEqual([0, 0])
          if (!hasCrashed) break
          crashes += 1
        }
      }

      expect(crashes).toBeGreaterThan(20)
    },
    60_000,
  )
})

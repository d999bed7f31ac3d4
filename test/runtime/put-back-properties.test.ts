import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { MemoryDisk } from '../../src/store/memory-disk.ts'
import { ManualClock, settle } from '../contracts/manual-clock.ts'
import type { MemoryLinkPair } from '../contracts/memory-link.ts'
import { connect, type HubSide, type NodeSide, openHub, openNode, say, tell } from './session-harness.ts'

const deeds = [
  'hub sends',
  'node sends',
  'link breaks',
  'sessions open',
  'hub is backed up',
  'node is backed up',
  'hub is put back',
  'node is put back',
  'hub crashes',
  'node crashes',
] as const

/** Two sides whose stores are put back to any earlier time, in any order, and which go on all the same. */
class Sides {
  readonly clock: ManualClock
  hub: HubSide
  node: NodeSide
  #link: MemoryLinkPair | undefined
  readonly #backups: { hub: MemoryDisk; node: MemoryDisk }
  #sent = 0

  private constructor(clock: ManualClock, hub: HubSide, node: NodeSide) {
    this.clock = clock
    this.hub = hub
    this.node = node
    this.#backups = { hub: hub.store.disk.copy(), node: node.store.disk.copy() }
  }

  static async start(): Promise<Sides> {
    const clock = new ManualClock()
    return new Sides(clock, await openHub({ clock }), await openNode({ clock }))
  }

  async act(deed: (typeof deeds)[number]): Promise<void> {
    const backups = this.#backups
    switch (deed) {
      case 'hub sends':
        await this.hub.send(say(`h${this.#sent++}`))
        break
      case 'node sends':
        await this.node.send(tell(`n${this.#sent++}`))
        break
      case 'link breaks':
        this.#link?.cut()
        break
      case 'sessions open':
        await this.open(1)
        break
      case 'hub is backed up':
        backups.hub = this.hub.store.disk.copy()
        break
      case 'node is backed up':
        backups.node = this.node.store.disk.copy()
        break
      case 'hub is put back':
        await this.#restart('hub', backups.hub.copy())
        break
      case 'node is put back':
        await this.#restart('node', backups.node.copy())
        break
      case 'hub crashes':
        await this.#restart('hub')
        break
      case 'node crashes':
        await this.#restart('node')
        break
    }
    await settle(4)
  }

  /** @returns whether the session opened within so many tries */
  async open(tries: number): Promise<boolean> {
    for (let left = tries; left > 0; left--) {
      const link = await connect(this.hub, this.node, { clock: this.clock }).catch(() => undefined)
      if (link === undefined) continue
      this.#link = link
      await settle(6)
      return true
    }
    return false
  }

  async #restart(side: 'hub' | 'node', disk?: MemoryDisk): Promise<void> {
    this.#link?.cut()
    const left = this[side].store.crash()
    const from = { clock: this.clock, disk: disk ?? left }
    if (side === 'hub') this.hub = await openHub(from)
    else this.node = await openNode(from)
  }
}

test('stores that are put back to any time find to each other within three tries, and lose or repeat nothing from then on', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.constantFrom(...deeds), { maxLength: 30 }), async (history) => {
      const sides = await Sides.start()
      for (const deed of history) await sides.act(deed)

      expect(await sides.open(3)).toBe(true)
      const fresh = ['x', 'y', 'z']
      for (const name of fresh) {
        await sides.hub.send(say(`hub ${name}`))
        await sides.node.send(tell(`node ${name}`))
      }
      await settle(8)

      const [atHub, atNode] = [sides.hub.onDisk(), sides.node.onDisk()]
      expect(atHub.slice(-3)).toEqual(fresh.map((name) => `node ${name}`))
      expect(atNode.slice(-3)).toEqual(fresh.map((name) => `hub ${name}`))
      expect(new Set(atHub).size).toBe(atHub.length)
      expect(new Set(atNode).size).toBe(atNode.length)
      expect(sides.hub.session.isCaughtUp).toBe(true)
      expect(sides.node.session.isCaughtUp).toBe(true)
    }),
    { numRuns: 250 },
  )
}, 120_000)

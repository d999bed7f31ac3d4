import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import { limits } from '../../src/core/limits.ts'
import { backoffMs, LinkKeeper } from '../../src/mesh/link-keeper.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { systemRandom } from '../../src/platform/random.ts'
import type { Clock } from '../../src/ports/clock.ts'
import { addressOf, Bench, memberOf, membersMatch, peerDown, peerUp, soon, TestMesh } from './support.ts'

describe('redial', () => {
  let bench: Bench
  let mesh: TestMesh

  beforeEach(async () => {
    bench = new Bench()
    mesh = await TestMesh.create()
  })

  afterEach(() => bench[Symbol.asyncDispose]())

  test('comes back to a peer that restarts on its port', async () => {
    const member = await memberOf(mesh, 'node')
    const node = await bench.start({ ...member })
    const listen = [addressOf(node).replace(/\/p2p\/.*/, '')]
    const hub = await bench.member(mesh, 'hub', { more: { peers: listen } })
    await peerUp(hub)
    const down = peerDown(hub, node.self.peerId)
    await node.close()
    await down

    const up = peerUp(hub)
    const again = await bench.start({ ...member, listen })

    expect((await up).peerId).toBe(again.self.peerId)
  })

  test('a node that comes back at another address finds the hub that it knew', async () => {
    const member = { ...(await memberOf(mesh, 'node')), home: await bench.home() }
    const node = await bench.start({ ...member })
    const hub = await bench.member(mesh, 'hub')
    hub.wantAddress(addressOf(node))
    await peerUp(node)
    const knows = async (): Promise<boolean> =>
      (await member.home.mesh.roster()).some(({ addresses }) =>
        addresses.some(({ peerId }) => peerId === hub.self.peerId),
      )
    await expect.poll(knows).toBe(true)
    const down = peerDown(hub, node.self.peerId)
    await node.close()
    await down

    const again = await bench.start({ ...member })

    expect((await peerUp(again)).peerId).toBe(hub.self.peerId)
  })

  test.each(['hub', 'node'] as const)(
    'a %s keeps in touch with the issuers that it knows, and hears of new members',
    async (kind) => {
      const home = await bench.home()
      const member = { ...(await memberOf(mesh, kind)), home }
      const issuer = await bench.member(mesh, 'issuer', { name: 'laptop', roles: ['owner'] })
      const before = await bench.start(member)
      await before.connect(addressOf(issuer), soon())
      const knows = async (): Promise<boolean> =>
        (await home.mesh.roster()).some(({ addresses }) =>
          addresses.some(({ peerId }) => peerId === issuer.self.peerId),
        )
      await expect.poll(knows).toBe(true)
      const down = peerDown(issuer, before.self.peerId)
      await before.close()
      await down

      const again = await bench.start(member)
      await peerUp(again, (peer) => peer.peerId === issuer.self.peerId)
      const vm = await bench.member(mesh, 'node', { name: 'vm9' })
      await vm.connect(addressOf(issuer), soon())
      await membersMatch(again, (names) => names.includes('vm9'))

      expect(again.connected().map(({ peerId }) => peerId)).toContain(issuer.self.peerId)
    },
  )

  test('dials a peer again after the connection was lost, from the side that wants it', async () => {
    const node = await bench.member(mesh, 'node')
    const { clock, delays } = watched()
    const hub = await bench.start({ ...(await memberOf(mesh, 'hub')), peers: [addressOf(node)], clock })
    await peerUp(hub)
    await peerUp(node)
    const back = new Promise<void>((resolve) => {
      let isDown = false
      hub.watch({
        up: () => {
          if (isDown) resolve()
        },
        down: () => {
          isDown = true
        },
      })
    })

    delays.length = 0
    node.dropConnections(hub.self.peerId)
    await back

    expect(Math.min(...delays)).toBeLessThan(limits.redialFirstMs)
  })

  test('says which addresses were tried while a peer cannot be reached', async () => {
    const node = await bench.member(mesh, 'node')
    const address = addressOf(node)
    await node.close()
    const hub = await bench.member(mesh, 'hub', { more: { peers: [address] } })

    await until(() => hub.whyNotConnected(address) !== undefined)

    expect(hub.whyNotConnected(address)).toMatchObject({ code: 'unreachable', details: { addresses: [address] } })
  })

  test('both sides may want each other and end up connected once, or with the newest in use', async () => {
    const [a, b] = [await bench.member(mesh, 'node', { name: 'a' }), await bench.member(mesh, 'hub', { name: 'b' })]
    const ups = [peerUp(a), peerUp(b)]

    a.wantAddress(addressOf(b))
    b.wantAddress(addressOf(a))
    await Promise.all(ups)

    expect([a.connected().length, b.connected().length]).toEqual([1, 1])
  })

  test('refuses a malformed peer address when it starts, naming it', async () => {
    const { key, standing } = await memberOf(mesh, 'node')

    const start = (peers: readonly string[]): Promise<unknown> => bench.start({ kind: 'node', key, standing, peers })

    for (const address of ['192.0.2.7:4701', '/ip4/192.0.2.7', '/ip4/192.0.2.7/udp/4701', '/ip4/300.1.1.1/tcp/1', '']) {
      await expect(start([address])).rejects.toMatchObject({
        code: 'invalid_argument',
        message: expect.stringContaining(JSON.stringify(address)),
      })
    }
  })

  describe('link keeper', () => {
    test('waits twice as long each time, with jitter, up to the cap', () => {
      const all = Array.from({ length: 12 }, (_, attempt) =>
        backoffMs(attempt, { next: () => 1, bytes: () => new Uint8Array() }),
      )

      expect(all.slice(0, 4)).toEqual([100, 200, 400, 800])
      expect(all.at(-1)).toBe(limits.redialCapMs)
      expect(backoffMs(5, { next: () => 0, bytes: () => new Uint8Array() })).toBe(0)
    })

    test('leaves a target that is reached alone, and dials it within 100 ms when it is lost', async () => {
      const { clock, delays } = watched()
      let isReached = true
      let looks = 0
      let attempts = 0
      const keeper = new LinkKeeper({ clock, random: systemRandom() })
      keeper.want({
        key: 'a',
        isReached: () => {
          looks += 1
          return isReached
        },
        connect: async () => {
          attempts += 1
          isReached = true
        },
      })
      await until(() => looks > 0)
      expect(attempts).toBe(0)

      isReached = false
      delays.length = 0
      keeper.review()
      await until(() => attempts === 1)

      expect(delays[0]).toBeLessThan(limits.redialFirstMs)
      keeper.close()
    })

    test('does not ask a peer that refused sooner than it would listen', async () => {
      const { clock, delays } = watched()
      const keeper = new LinkKeeper({ clock, random: systemRandom() })
      let attempts = 0
      keeper.want({
        key: 'a',
        isReached: () => false,
        connect: async () => {
          attempts += 1
          throw new NfltrError('wrong_mesh', 'no', { details: { refused: true } })
        },
      })
      await until(() => delays.length === 2)

      expect(attempts).toBe(1)
      expect(delays[1]).toBeGreaterThanOrEqual(limits.refusedPeerPauseMs)
      keeper.close()
    })

    test('tries at once when better addresses are known', async () => {
      const { clock, delays } = watched()
      const keeper = new LinkKeeper({ clock, random: { next: () => 0.999, bytes: () => new Uint8Array() } })
      let version = 1
      let attempts = 0
      keeper.want({
        key: 'a',
        isReached: () => false,
        version: () => version,
        connect: async () => {
          attempts += 1
          throw new Error('no')
        },
      })
      await until(() => attempts === 4)

      version = 2
      delays.length = 0
      keeper.review()

      expect(delays[0]).toBeLessThanOrEqual(limits.redialFirstMs)
      keeper.close()
    })
  })
})

function watched(): { readonly clock: Clock; readonly delays: number[] } {
  const delays: number[] = []
  const real = systemClock()
  return {
    delays,
    clock: {
      ...real,
      after: (delayMs, callback) => {
        delays.push(delayMs)
        return real.after(delayMs, callback)
      },
    },
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await turn()
}

import type { Libp2p } from '@libp2p/interface'
import { multiaddr } from '@multiformats/multiaddr'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { limits } from '../../src/core/limits.ts'
import { prefixOf } from '../../src/mesh/addresses.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import { HeldClock } from './held-clock.ts'
import { addressOf, Bench, connectionTo, memberOf, peerUp, soon, streamClosed, TestMesh } from './support.ts'

describe('quarantine', () => {
  let bench: Bench
  let mesh: TestMesh
  let node: MeshHost
  let stranger: Libp2p
  // However slow the machine, nobody who has yet to say hello is out of time before the test says so.
  let clock: HeldClock

  beforeEach(async () => {
    bench = new Bench()
    mesh = await TestMesh.create()
    clock = new HeldClock(limits.helloTimeoutMs)
    node = await bench.start({ ...(await memberOf(mesh, 'node')), clock })
    stranger = await bench.stranger()
  })

  afterEach(() => bench[Symbol.asyncDispose]())

  test.each([
    '/ipfs/id/1.0.0',
    '/ipfs/id/push/1.0.0',
    '/ipfs/ping/1.0.0',
    '/libp2p/circuit/relay/0.2.0/hop',
    '/nfltr/join/1.0.0',
    '/nfltr/artifact/1.0.0',
  ])('answers no stranger at %s', async (protocol) => {
    const connection = await connectionTo(stranger, node)

    await expect(connection.newStream(protocol, soon())).rejects.toThrow()
  })

  test.each(['/nfltr/session/1.0.0', '/nfltr/roster/1.0.0'])(
    'cuts a stranger off that opens %s before hello',
    async (protocol) => {
      const connection = await connectionTo(stranger, node)
      const closed = new Promise((resolve) => connection.addEventListener('close', resolve))

      const stream = await connection.newStream(protocol, soon()).catch(() => undefined)
      if (stream !== undefined) await streamClosed(stream)
      await closed

      expect(node.refusals()).toEqual({ not_a_member: 1 })
    },
  )

  test('cuts a stranger off at its third stream', async () => {
    const connection = await connectionTo(stranger, node)
    const closed = new Promise((resolve) => connection.addEventListener('close', resolve))

    for (let index = 0; index < 3; index += 1) await connection.newStream('/nfltr/hello/1.0.0', soon()).catch(() => {})
    await closed

    expect(node.refusals()['protocol_violation']).toBeGreaterThanOrEqual(1)
    expect(node.connected()).toEqual([])
  })

  test('cuts a stranger off after 16 KiB', async () => {
    const connection = await connectionTo(stranger, node)
    const closed = new Promise((resolve) => connection.addEventListener('close', resolve))
    const stream = await connection.newStream('/nfltr/hello/1.0.0', soon())

    // Announces a frame that hello would take, and sends most of it.
    stream.send(new Uint8Array([0xff, 0xff, 0x3f, ...new Array(limits.helloMaxBytes)]))
    await closed

    expect(node.refusals()).toEqual({ frame_too_large: 1 })
  })

  test('cuts a stranger off that says nothing for five seconds', async () => {
    const connection = await connectionTo(stranger, node)
    const closed = new Promise((resolve) => connection.addEventListener('close', resolve))
    await clock.holds(1)
    expect(connection.status).toBe('open')

    clock.letGo()
    await closed

    expect(node.refusals()).toEqual({ timed_out: 1 })
  })

  test('lets only so many of one network be half-open, and lets others in again once those are gone', async () => {
    const strangers = await Promise.all(Array.from({ length: limits.halfOpenPerPrefixMax + 1 }, () => bench.stranger()))
    // A host of its own for each, because connections to one PeerId are shared.
    const outcomes: string[] = []
    for (const each of strangers) {
      outcomes.push(
        await each.dial(multiaddr(addressOf(node)), soon()).then(
          () => 'in',
          () => 'out',
        ),
      )
    }

    expect(outcomes).toEqual([...Array.from({ length: limits.halfOpenPerPrefixMax }, () => 'in'), 'out'])
    expect(node.refusals()).toEqual({ queue_full: 1 })
    await strangers[0]?.stop()
    const again = await bench.stranger()
    // The end of a connection is noticed a moment later at the other side.
    const dial = (): Promise<string> =>
      again.dial(multiaddr(addressOf(node)), soon()).then(
        () => 'in',
        () => 'out',
      )
    await expect.poll(dial).toBe('in')
  })

  test('members still get in while strangers of their network fill their share', async () => {
    const hub = await bench.member(mesh, 'hub')
    const greeted = peerUp(node)
    await hub.connect(addressOf(node), soon())
    await greeted
    await hub.close()
    for (let index = 0; index < limits.halfOpenPerPrefixMax; index += 1) {
      await (await bench.stranger()).dial(multiaddr(addressOf(node)), soon())
    }
    const second = await bench.member(mesh, 'hub')

    await expect(second.connect(addressOf(node), soon())).resolves.toMatchObject({ kind: 'node' })
  })

  test('counts addresses by the network that one household has', () => {
    expect(prefixOf('192.0.2.77')).toBe('192.0.2')
    expect(prefixOf('2001:db8:1:2ff::9')).toBe(prefixOf('2001:db8:1:201:aaaa::1'))
    expect(prefixOf('2001:db8:1:300::9')).not.toBe(prefixOf('2001:db8:1:2ff::9'))
    expect(prefixOf('::1')).toBe('0000:0000:0000:00')
  })
})

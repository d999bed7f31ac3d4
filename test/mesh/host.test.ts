import { multiaddr } from '@multiformats/multiaddr'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { PeerKind } from '../../src/core/membership.ts'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'
import { announceable, parseListenAddress, parsePeerAddress, portOf } from '../../src/mesh/addresses.ts'
import { startHost } from '../../src/mesh/host.ts'
import { Quarantine } from '../../src/mesh/quarantine.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { addressOf, Bench, memberOf, TestMesh } from './support.ts'

describe('host', () => {
  let bench: Bench

  beforeEach(() => {
    bench = new Bench()
  })

  afterEach(() => bench[Symbol.asyncDispose]())

  test('a second node takes the next free port, and a hub any', async () => {
    const first = await portOfNew('node')
    const second = await portOfNew('node')
    const issuer = await portOfNew('issuer')
    const hub = await portOfNew('hub')

    expect(first).toBeGreaterThanOrEqual(4701)
    expect(second).toBeGreaterThan(first)
    expect(issuer).toBeGreaterThanOrEqual(4702)
    expect([first, second, issuer]).not.toContain(hub)
  })

  test('an address that is taken is named, not passed over, where a person gave it', async () => {
    const mesh = await TestMesh.create()
    const taken = addressOf(await bench.member(mesh, 'node')).replace(/\/p2p\/.*/, '')
    const { key, standing } = await memberOf(mesh, 'node')

    await expect(bench.start({ kind: 'node', key, standing, listen: [taken] })).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(taken),
    })
  })

  test.each([
    '/ip4/127.0.0.1',
    'localhost:4701',
    '/dns4/example.org/tcp/4701',
    '/ip4/127.0.0.1/tcp/4701/wss',
    '/ip4/1.2.3/tcp/1',
  ])('cannot listen on %s', (text) => {
    expect(() => parseListenAddress(text)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
  })

  test('takes addresses of peers with and without a PeerId, and host names', () => {
    const peerId = '12D3KooWA2WEn4emtqXT91CkcG1VxVbpPK2hvzf1vmwCNWd6C5ED'

    for (const text of [
      '/ip4/192.0.2.7/tcp/4701',
      `/ip6/2001:db8::1/tcp/4701/p2p/${peerId}`,
      '/dns4/example.org/tcp/4701',
    ]) {
      expect(parsePeerAddress(text).toString()).toBe(text)
    }
    expect(() => parsePeerAddress('/ip4/192.0.2.7/tcp/0')).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    )
    expect(() => parsePeerAddress(`/p2p/${peerId}`)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
  })

  test('tells others private addresses first, at most eight, link-local never, loopback only if there is nothing else', () => {
    const tell = (...hosts: readonly string[]): readonly string[] =>
      announceable(hosts.map((host) => multiaddr(`/${host.includes(':') ? 'ip6' : 'ip4'}/${host}/tcp/1`))).map(
        (address) => address.getComponents()[0]?.value ?? '',
      )

    expect(tell('127.0.0.1', '203.0.113.9', '169.254.1.1', 'fe80::1', '192.168.1.2', '10.0.0.3')).toEqual([
      '192.168.1.2',
      '10.0.0.3',
      '203.0.113.9',
    ])
    expect(tell('127.0.0.1', '::1')).toEqual(['127.0.0.1', '::1'])
    expect(tell(...Array.from({ length: 20 }, (_, index) => `10.0.0.${index + 1}`))).toHaveLength(8)
  })

  async function portOfNew(kind: PeerKind): Promise<number> {
    const key = await generateKey()
    const clock = systemClock()
    const quarantine = new Quarantine({
      clock,
      ownPeerId: peerIdOf(key),
      isMemberHost: () => false,
      isLinked: () => false,
      onRefusal: () => {},
    })
    const host = await startHost({
      key,
      kind,
      listen: undefined,
      interfaces: ['/ip4/127.0.0.1'],
      clock,
      quarantine,
      prepare: async () => {},
    })
    bench.defer(async () => host.stop())
    return portOf(host.getMultiaddrs()[0] ?? multiaddr('/ip4/0.0.0.0')) ?? 0
  }
})

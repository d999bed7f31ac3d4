import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ProcessCertificate } from '../../src/core/membership.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../../src/identity/keys.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import type { HandshakeMessage, Hello } from '../../src/wire/handshake-codec.ts'
import { freezablePath, sayByHand } from './by-hand.ts'
import { addressOf, Bench, certificate, day, memberOf, peerDown, peerUp, soon, TestMesh } from './support.ts'

describe('hello', () => {
  let bench: Bench
  let mesh: TestMesh

  beforeEach(async () => {
    bench = new Bench()
    mesh = await TestMesh.create()
  })

  afterEach(() => bench[Symbol.asyncDispose]())

  test('a hub and a node of one mesh welcome each other, with the facts of their memberships', async () => {
    const node = await bench.member(mesh, 'node', {
      name: 'vm1',
      roles: ['node'],
      more: { highestEpochSeen: (hubId) => (hubId === 'hub_test' ? 7 : undefined) },
    })
    const hub = await bench.member(mesh, 'hub', { name: 'laptop', roles: ['hub'] })
    const atNode = peerUp(node)

    const facts = await hub.connect(addressOf(node), soon())

    expect(facts).toMatchObject({ peerId: node.self.peerId, name: 'vm1', kind: 'node', roles: ['node'], path: 'lan' })
    expect(facts.highestEpochSeen).toBe(7)
    const hubFacts = await atNode
    expect(hubFacts).toMatchObject({ peerId: hub.self.peerId, name: 'laptop', kind: 'hub', hubId: 'hub_test' })
    expect(hubFacts.machinePeerId).not.toBe(hubFacts.peerId)
    expect([node.refusals(), hub.refusals()]).toEqual([{}, {}])
  })

  test('either side is told when the other goes away', async () => {
    const node = await bench.member(mesh, 'node')
    const hub = await bench.member(mesh, 'hub')
    await hub.connect(addressOf(node), soon())
    await peerUp(node)
    const down = peerDown(hub, node.self.peerId)

    await node.close()

    expect((await down).peerId).toBe(node.self.peerId)
    expect(hub.connected()).toEqual([])
  })

  test('a probe is answered without any protocol of ours', async () => {
    const node = await bench.member(mesh, 'node')
    const hub = await bench.member(mesh, 'hub')
    await hub.connect(addressOf(node), soon())

    const rttMs = await hub.probe(node.self.peerId, soon())

    expect(rttMs).toBeGreaterThanOrEqual(0)
    await expect(hub.probe(hub.self.peerId, soon())).rejects.toMatchObject({ code: 'link_down' })
  })

  test('a member of another mesh is refused as that', async () => {
    const node = await bench.member(mesh, 'node')
    const foreigner = await bench.member(await TestMesh.create(), 'hub')

    await expect(foreigner.connect(addressOf(node), soon())).rejects.toMatchObject({ code: 'wrong_mesh' })
    expect(node.connected()).toEqual([])
  })

  test('a machine without a membership is refused, and so is a peer that it dials', async () => {
    const node = await bench.member(mesh, 'node')
    const newcomer = await bench.start({ kind: 'node', key: await generateKey() })

    await expect(newcomer.connect(addressOf(node), soon())).rejects.toMatchObject({ code: 'link_down' })
    await expect(node.connect(addressOf(newcomer), soon())).rejects.toMatchObject({ code: 'no_mesh' })
  })

  test('a forged membership is refused', async () => {
    const node = await bench.member(mesh, 'node')
    const key = await generateKey()
    const forger = await TestMesh.create()
    // Signed by a key of its own, but named as of this mesh: its own side cannot be told so, so it is started by hand.
    const standing = {
      meshId: mesh.id,
      membership: await forger.membership(key, { meshId: mesh.id, issuerId: mesh.id }),
    }

    await expect(bench.start({ kind: 'node', key, standing })).rejects.toMatchObject({ code: 'bad_signature' })
    await expect(hello(node, key, { ...(await honest(key)), ...standing })).resolves.toMatchObject({
      code: 'bad_signature',
    })
  })

  test.each([
    [
      'the membership of another machine',
      'bad_certificate',
      async () => {
        const key = await generateKey()
        return { key, claim: { ...(await honest(key)), membership: await mesh.membership(await generateKey()) } }
      },
    ],
    [
      'an expired membership',
      'membership_expired',
      async () => {
        const key = await generateKey()
        const membership = await mesh.membership(key, {
          issuedAtMs: Date.now() - 2 * day,
          expiresAtMs: Date.now() - day,
        })
        return { key, claim: { ...(await honest(key)), membership } }
      },
    ],
    [
      'a membership from tomorrow',
      'membership_expired',
      async () => {
        const key = await generateKey()
        const membership = await mesh.membership(key, {
          issuedAtMs: Date.now() + day,
          expiresAtMs: Date.now() + 2 * day,
        })
        return { key, claim: { ...(await honest(key)), membership } }
      },
    ],
    [
      'a node that its membership does not allow',
      'wrong_role',
      async () => {
        const key = await generateKey()
        return {
          key,
          claim: { ...(await honest(key)), membership: await mesh.membership(key, { roles: ['hub', 'owner'] }) },
        }
      },
    ],
    ['a hub on a machine that may only be a node', 'wrong_role', async () => claimOf('hub', { roles: ['node'] })],
    [
      'an issuer on a machine that is no owner',
      'wrong_role',
      async () => claimOf('issuer', { roles: ['node', 'hub'] }),
    ],
    [
      'a hub without a certificate',
      'bad_certificate',
      async () => {
        const { key, claim } = await claimOf('hub', {})
        const { processCertificate: _, ...rest } = claim
        return { key, claim: rest }
      },
    ],
    [
      'the certificate of another process of its machine',
      'bad_certificate',
      async () => {
        const { claim } = await claimOf('hub', {})
        return { key: await generateKey(), claim }
      },
    ],
    [
      'a certificate that another machine signed',
      'bad_signature',
      async () => {
        const { key, claim } = await claimOf('hub', {})
        const other = await claimOf('hub', {})
        return { key, claim: { ...claim, processCertificate: other.claim.processCertificate ?? new Uint8Array() } }
      },
    ],
    [
      'a certificate for another hub',
      'bad_certificate',
      async () => {
        const { key, claim } = await claimOf('hub', {})
        return { key, claim: { ...claim, hubId: 'hub_other' } }
      },
    ],
    [
      'a certificate of another kind',
      'bad_certificate',
      async () => {
        const { key, claim } = await claimOf('hub', {})
        return { key, claim: { ...claim, kind: 'cli' } satisfies Hello }
      },
    ],
    [
      'a certificate for longer than 30 days',
      'bad_certificate',
      async () => claimOf('hub', {}, { expiresAtMs: Date.now() + 31 * day }),
    ],
    [
      'a certificate that has expired',
      'bad_certificate',
      async () => claimOf('hub', {}, { issuedAtMs: Date.now() - 2 * day, expiresAtMs: Date.now() - day }),
    ],
    [
      'a wire revision of the future',
      'unsupported',
      async () => {
        const key = await generateKey()
        return { key, claim: { ...(await honest(key)), revisions: [2] } }
      },
    ],
  ] satisfies [string, string, () => Promise<{ key: PrivateKey; claim: Hello }>][])(
    'refuses %s: %s',
    async (_what, code, claimant) => {
      const node = await bench.member(mesh, 'node')
      const { key, claim } = await claimant()

      const answer = await hello(node, key, claim)

      expect(answer).toMatchObject({ type: 'refused', code })
      expect(node.refusals()).toEqual({ [code]: 1 })
      expect(node.connected()).toEqual([])
    },
  )

  test('turns a refused PeerId away for the next minute, before it can say anything', async () => {
    const node = await bench.member(mesh, 'node')
    const key = await generateKey()
    await hello(node, key, { ...(await honest(key)), membership: await mesh.membership(await generateKey()) })

    await expect(hello(node, key, await honest(key))).rejects.toThrow()

    expect(node.refusals()).toEqual({ bad_certificate: 1, not_a_member: 1 })
  })

  test('refuses its own PeerId, dialled or dialling', async () => {
    const { key, standing } = await memberOf(mesh, 'node')
    const node = await bench.start({ kind: 'node', key, standing })
    const copy = await bench.start({ kind: 'node', key, standing })
    const address = addressOf(node).replace(/\/p2p\/.*/, '')

    await expect(node.connect(address, soon())).rejects.toMatchObject({ code: 'own_peer_id' })
    await expect(copy.connect(address, soon())).rejects.toMatchObject({ code: 'own_peer_id' })
    expect(node.connected()).toEqual([])
  })

  test('refuses a second live process with the key of one that is connected and alive', async () => {
    const hub = await bench.member(mesh, 'hub')
    const { key, standing } = await memberOf(mesh, 'node')
    const first = await bench.start({ kind: 'node', key, standing })
    const second = await bench.start({ kind: 'node', key, standing })
    await first.connect(addressOf(hub), soon())
    await peerUp(hub)

    await expect(second.connect(addressOf(hub), soon())).rejects.toMatchObject({ code: 'duplicate_identity' })

    expect(hub.connected()).toHaveLength(1)
    expect(hub.refusals()).toEqual({ duplicate_identity: 1 })
    const words = expect.stringMatching(/^Another process with the key of [a-z0-9-]+ is connected and alive\.$/)
    expect(hub.refusalNotices()).toEqual([{ code: 'duplicate_identity', message: words, isByPeer: false }])
    expect(second.refusalNotices()).toEqual([{ code: 'duplicate_identity', message: words, isByPeer: true }])
  })

  test('lets a machine in at once that starts anew after a copy of it was refused', async () => {
    const hub = await bench.member(mesh, 'hub')
    const { key, standing } = await memberOf(mesh, 'node')
    const first = await bench.start({ kind: 'node', key, standing })
    const copy = await bench.start({ kind: 'node', key, standing })
    await first.connect(addressOf(hub), soon())
    await peerUp(hub)
    await expect(copy.connect(addressOf(hub), soon())).rejects.toMatchObject({ code: 'duplicate_identity' })
    await expect(copy.connect(addressOf(hub), soon())).rejects.toThrow()
    expect(hub.refusals()).toEqual({ duplicate_identity: 1, not_a_member: 1 })
    await copy.close()

    const down = peerDown(hub, first.self.peerId)
    await first.close()
    await down
    const again = await bench.start({ kind: 'node', key, standing })

    await expect(again.connect(addressOf(hub), soon())).resolves.toMatchObject({ kind: 'hub' })
  })

  test('a second process with the key of one that has gone silent takes its place', async () => {
    const hub = await bench.member(mesh, 'hub')
    const { key, standing } = await memberOf(mesh, 'node')
    const path = await freezablePath(bench, hub)
    const first = await bench.start({ kind: 'node', key, standing })
    const second = await bench.start({ kind: 'node', key, standing })
    await first.connect(path.address, soon())
    await peerUp(hub)
    const down = peerDown(hub, first.self.peerId)
    path.freeze()

    await second.connect(addressOf(hub), soon())

    await down
    expect(hub.connected()).toMatchObject([{ peerId: second.self.peerId }])
    expect(hub.refusals()).toEqual({})
  })

  test('names another key at the address than was asked for', async () => {
    const node = await bench.member(mesh, 'node')
    const hub = await bench.member(mesh, 'hub')
    const swapped = addressOf(node).replace(/[^/]*$/, peerIdOf(await generateKey()))

    await expect(hub.connect(swapped, soon())).rejects.toMatchObject({ code: 'bad_certificate' })
    expect(hub.connected()).toEqual([])
  })

  test('names every address that was tried when nobody answers', async () => {
    const node = await bench.member(mesh, 'node')
    const hub = await bench.member(mesh, 'hub')
    const address = addressOf(node)
    await node.close()

    await expect(hub.connect(address, soon())).rejects.toMatchObject({
      code: 'unreachable',
      details: { addresses: [address] },
    })
  })

  async function honest(key: PrivateKey): Promise<Hello> {
    return {
      type: 'hello',
      revisions: [1],
      meshId: mesh.id,
      revocationVersions: [],
      membership: await mesh.membership(key),
      issuerCertificates: [],
      successions: [],
      incarnation: 'aa',
      kind: 'node',
      softwareVersion: '0.1.0',
      limits: { frameMaxBytes: 65536 },
      nowMs: Date.now(),
    }
  }

  async function claimOf(
    kind: 'hub' | 'issuer',
    membership: Parameters<TestMesh['membership']>[1],
    fields: Partial<ProcessCertificate> = {},
  ): Promise<{ key: PrivateKey; claim: Hello }> {
    const [machineKey, key] = [await generateKey(), await generateKey()]
    const hubId = kind === 'hub' ? { hubId: 'hub_test' } : {}
    const named = { meshId: mesh.id, processPeerId: peerIdOf(key), kind, ...hubId }
    const processCertificate = await certificate(machineKey, { ...named, ...fields })
    const shown = { ...(await honest(machineKey)), membership: await mesh.membership(machineKey, membership) }
    return { key, claim: { ...shown, kind, processCertificate, ...hubId } }
  }

  function hello(node: MeshHost, key: PrivateKey, claim: Hello): Promise<HandshakeMessage> {
    return sayByHand(bench, node, { key, hello: claim })
  }
})

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { signIssuerCertificate, signRevocations } from '../../src/identity/envelopes.ts'
import { meshIssuer } from '../../src/identity/issuer-key.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../../src/identity/keys.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import { revoke } from '../../src/mesh/revoking.ts'
import { Trust } from '../../src/mesh/trust.ts'
import type { Home } from '../../src/ports/home.ts'
import type { Revocation } from '../../src/wire/record-codec.ts'
import { sayByHand } from './by-hand.ts'
import { addressOf, Bench, day, memberOf, membersFit, peerDown, peerUp, soon, TestMesh } from './support.ts'

let bench: Bench
let mesh: TestMesh

beforeEach(async () => {
  bench = new Bench()
  mesh = await TestMesh.create()
})

afterEach(() => bench[Symbol.asyncDispose]())

const list = (version: number, entries: readonly Revocation[], key: PrivateKey = mesh.key, issuerId = mesh.id) =>
  signRevocations(key, { meshId: mesh.id, issuerId, version, entries })

const entry = (peerId: string, serial = 1_000): Revocation => ({ peerId, serial, atMs: Date.now() })

async function trustOf(home: Home): Promise<Trust> {
  const trust = await Trust.load({ meshId: mesh.id, files: home.mesh, onNews: () => {}, onRefused: () => {} })
  bench.defer(async () => trust.close())
  return trust
}

/** What the owner's machine does: publishes a list in a home; every process of the home hears of it. */
async function publish(home: Home, entries: readonly Omit<Revocation, 'atMs'>[]): Promise<void> {
  const trust = await trustOf(home)
  await revoke({ trust, book: home.issuer, signer: meshIssuer(mesh.key), nowMs: Date.now() }, entries)
}

const revokedIn = (host: MeshHost, peerId: string): Promise<void> =>
  membersFit(host, (members) => members.some((one) => one.machinePeerId === peerId && one.revokedAtMs !== undefined))

describe('a revoked member', () => {
  test('is cut off at once by every process of the home in which it was revoked', async () => {
    const home = await bench.home()
    const hub = await bench.member(mesh, 'hub', { home })
    const node = await bench.member(mesh, 'node')
    await hub.connect(addressOf(node), soon())
    const down = peerDown(hub, node.self.peerId)

    await publish(home, [{ peerId: node.self.machinePeerId, serial: 1_000 }])

    expect((await down).peerId).toBe(node.self.peerId)
    // The node may have dialled back by now, and been refused once more.
    expect(hub.refusals()['revoked']).toBeGreaterThanOrEqual(1)
    expect(hub.members().find((one) => one.name === node.self.name)?.revokedAtMs).toBeGreaterThan(0)
  })

  test('is cut off by a third machine that hears of it from the roster', async () => {
    const home = await bench.home()
    const owner = await bench.member(mesh, 'hub', { home })
    const other = await bench.member(mesh, 'node')
    const hub = await bench.member(mesh, 'hub')
    await hub.connect(addressOf(other), soon())
    await owner.connect(addressOf(other), soon())
    const down = peerDown(other, hub.self.peerId)

    await publish(home, [{ peerId: hub.self.machinePeerId, serial: 1_000 }])

    await down
    await revokedIn(other, hub.self.machinePeerId)
    expect(other.connected().map(({ peerId }) => peerId)).toEqual([owner.self.peerId])
  })

  test('is refused by a machine that was away when it was revoked, and hears of it in hello from any member', async () => {
    const ownersHome = await bench.home()
    const hub = await bench.member(mesh, 'hub')
    await publish(ownersHome, [{ peerId: hub.self.machinePeerId, serial: 1_000 }])
    const owner = await bench.member(mesh, 'cli', { home: ownersHome })
    const node = await bench.member(mesh, 'node')

    await owner.connect(addressOf(node), soon())

    await expect(hub.connect(addressOf(node), soon())).rejects.toMatchObject({ code: 'revoked' })
    expect(node.connected().map(({ peerId }) => peerId)).toEqual([owner.self.peerId])
  })

  test('is refused by the very hello that brings the list', async () => {
    const home = await bench.home()
    const revoked = await memberOf(mesh, 'node')
    const node = await bench.start({ ...revoked, home })
    const owner = await bench.member(mesh, 'cli')
    const trust = await trustOf(home)
    await trust.takeLists([await list(1, [entry(peerIdOf(revoked.machineKey))])])

    await expect(owner.connect(addressOf(node), soon())).rejects.toMatchObject({ code: 'revoked' })
    expect(owner.connected()).toEqual([])
  })

  test('stays out after a restart, and is not looked for', async () => {
    const home = await bench.home()
    const node = await bench.member(mesh, 'node')
    const first = await bench.member(mesh, 'hub', { home })
    await first.connect(addressOf(node), soon())
    await publish(home, [{ peerId: node.self.machinePeerId, serial: 1_000 }])
    await revokedIn(first, node.self.machinePeerId)
    await first.close()

    const second = await bench.member(mesh, 'hub', { home })
    second.want(node.self.machinePeerId)

    await expect(second.connect(addressOf(node), soon())).rejects.toMatchObject({ code: 'revoked' })
    expect(second.whyNotConnected(node.self.machinePeerId)).toBeUndefined()
  })

  test('has what it heard of itself on disk when it has closed, and writes nothing afterwards', async () => {
    const home = await bench.home()
    const [begun, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const written: string[] = []
    const saveRevocations: Home['mesh']['saveRevocations'] = async (record) => {
      begun.resolve()
      await goOn.promise
      written.push(record.issuerId)
      return home.mesh.saveRevocations(record)
    }
    const node = await bench.member(mesh, 'node', { more: { files: { ...home.mesh, saveRevocations } } })
    const ownersHome = await bench.home()
    await publish(ownersHome, [{ peerId: peerIdOf(await generateKey()), serial: 1_000 }])
    const owner = await bench.member(mesh, 'cli', { home: ownersHome })
    owner.connect(addressOf(node), soon()).catch(() => {})
    await begun.promise

    const closed = node.close().then(() => written.push('closed'))
    goOn.resolve()
    await closed

    expect(written).toEqual([mesh.id, 'closed'])
    expect(await home.mesh.revocations()).toHaveLength(1)
  })

  test('comes back under a membership with a higher serial', async () => {
    const home = await bench.home()
    const hub = await bench.member(mesh, 'hub', { home })
    const key = await generateKey()
    const membership = await mesh.membership(key, { serial: 5 })
    const peerId = peerIdOf(key)
    await publish(home, [{ peerId, serial: 5 }])
    const before = await bench.start({ kind: 'node', key, standing: { meshId: mesh.id, membership } })
    await expect(hub.connect(addressOf(before), soon())).rejects.toMatchObject({ code: 'revoked' })
    await before.close()

    const renewed = await mesh.membership(key, { serial: 6 })
    const after = await bench.start({ kind: 'node', key, standing: { meshId: mesh.id, membership: renewed } })

    await expect(hub.connect(addressOf(after), soon())).resolves.toMatchObject({ peerId })
  })

  test('is refused though a list longer than a stranger may send comes before its name', async () => {
    const home = await bench.home()
    const trust = await trustOf(home)
    const strangers = await Promise.all(Array.from({ length: 600 }, async () => entry(peerIdOf(await generateKey()))))
    const hub = await bench.member(mesh, 'hub')
    const large = await list(7, [...strangers, entry(hub.self.machinePeerId)])
    expect(large.length).toBeGreaterThan(16 * 1024)
    await trust.takeLists([large])
    const owner = await bench.member(mesh, 'cli', { home })
    const node = await bench.member(mesh, 'node')

    await owner.connect(addressOf(node), soon())

    await expect(hub.connect(addressOf(node), soon())).rejects.toMatchObject({ code: 'revoked' })
    expect(node.refusals()['revoked']).toBeGreaterThanOrEqual(1)
  })
})

describe('a list of what was revoked', () => {
  test('is never lowered, by whatever is offered and in whatever order', async () => {
    const home = await bench.home()
    const trust = await trustOf(home)
    const [one, two, three] = [
      await list(1, []),
      await list(2, [entry('12D3KooX')]),
      await list(3, [entry('12D3KooY')]),
    ]

    expect(await trust.takeLists([two])).toBe(true)
    expect(await trust.takeLists([one])).toBe(false)
    expect(trust.revocationOf('12D3KooX', 1)).toBeDefined()
    expect(await trust.takeLists([three, two, one])).toBe(true)
    expect(trust.versions()).toMatchObject([{ issuerId: mesh.id, version: 3 }])
    // Also not by a process of the home that comes late with an older one.
    await home.mesh.saveRevocations({ issuerId: mesh.id, version: 2, envelope: two })
    expect((await trustOf(home)).versions()).toMatchObject([{ version: 3 }])
  })

  test('counts only when its own issuer signed it', async () => {
    const trust = await trustOf(await bench.home())
    const stranger = await generateKey()

    expect(await trust.takeLists([await list(9, [entry('12D3KooX')], stranger)])).toBe(false)
    expect(await trust.takeLists([await list(9, [entry('12D3KooX')], stranger, peerIdOf(stranger))])).toBe(false)
    expect(trust.versions()).toEqual([])
  })

  test('names entries up to a serial, and no later membership', async () => {
    const trust = await trustOf(await bench.home())
    await trust.takeLists([await list(1, [entry('12D3KooX', 4)])])

    expect(trust.revocationOf('12D3KooX', 4)).toBeDefined()
    expect(trust.revocationOf('12D3KooX', 3)).toBeDefined()
    expect(trust.revocationOf('12D3KooX', 5)).toBeUndefined()
    expect(trust.revocationOf('12D3KooY', 1)).toBeUndefined()
  })

  test('of two versions that were made at once by two processes of one home, neither is lost', async () => {
    const home = await bench.home()

    await Promise.all(['12D3KooA', '12D3KooB', '12D3KooC'].map((peerId) => publish(home, [{ peerId, serial: 1 }])))

    const trust = await trustOf(home)
    expect(trust.versions()).toMatchObject([{ version: 3 }])
    for (const peerId of ['12D3KooA', '12D3KooB', '12D3KooC']) expect(trust.revocationOf(peerId, 1)).toBeDefined()
  })

  test('of the same version with other content closes its issuer until a newer one comes', async () => {
    const home = await bench.home()
    const trust = await trustOf(home)
    const refused: string[] = []
    const watching = await Trust.load({
      meshId: mesh.id,
      files: home.mesh,
      onNews: () => {},
      onRefused: (error) => refused.push(error.message),
    })
    bench.defer(async () => watching.close())
    await watching.takeLists([await list(4, [entry('12D3KooX')])])
    await watching.takeLists([await list(4, [entry('12D3KooY')])])
    const membership = await watching.openMembership(await mesh.membership(await generateKey()))

    expect(watching.alarms()).toEqual([{ issuerId: mesh.id, version: 4 }])
    expect(refused).toEqual(['An issuer published two lists of version 4.'])
    expect(watching.objectionTo(membership)).toMatchObject({ code: 'revoked', details: { issuer_id: mesh.id } })
    await trust.reload()
    expect(trust.alarms()).toHaveLength(1)
    expect((await trustOf(home)).alarms()).toHaveLength(1)
    for (const peerId of ['12D3KooX', '12D3KooY']) expect(trust.revocationOf(peerId, 1)).toBeDefined()

    await trust.takeLists([await list(5, [entry('12D3KooX')])])
    expect(trust.alarms()).toEqual([])
    expect(trust.objectionTo(membership)).toBeUndefined()
  })

  test('that contradicts another is noticed when two machines meet, and both close their issuer', async () => {
    const [left, right] = [await bench.home(), await bench.home()]
    await (await trustOf(left)).takeLists([await list(4, [entry('12D3KooX')])])
    await (await trustOf(right)).takeLists([await list(4, [entry('12D3KooY')])])
    const node = await bench.member(mesh, 'node', { home: left })
    const hub = await bench.member(mesh, 'hub', { home: right })

    await expect(hub.connect(addressOf(node), soon())).rejects.toMatchObject({ code: 'revoked' })

    expect(node.alarms()).toEqual([{ issuerId: mesh.id, version: 4 }])
    expect(hub.alarms()).toEqual([{ issuerId: mesh.id, version: 4 }])
  })

  test('forgets entries once no membership that they void can be valid any more', async () => {
    const home = await bench.home()
    const trust = await trustOf(home)
    const signer = meshIssuer(mesh.key)
    const nowMs = Date.now()
    await revoke({ trust, book: home.issuer, signer, nowMs: nowMs - (365 + 91) * day }, [
      { peerId: '12D3KooOld', serial: 1 },
    ])

    await revoke({ trust, book: home.issuer, signer, nowMs }, [{ peerId: '12D3KooNew', serial: 2 }])

    expect(trust.revocationOf('12D3KooOld', 1)).toBeUndefined()
    expect(trust.revocationOf('12D3KooNew', 2)).toBeDefined()
  })

  test('says who has applied it', async () => {
    const home = await bench.home()
    const owner = await bench.member(mesh, 'cli', { home })
    const node = await bench.member(mesh, 'node')
    await owner.connect(addressOf(node), soon())
    const up = peerUp(owner)
    await publish(home, [{ peerId: '12D3KooX', serial: 1 }])
    await up

    await expect.poll(() => owner.appliedBy(node.self.peerId)?.revocations.get(mesh.id)).toBe(1)
  })
})

describe('a further owner', () => {
  let ownerKey: PrivateKey
  let certificate: Uint8Array

  beforeEach(async () => {
    ownerKey = await generateKey()
    const keyPeerId = peerIdOf(ownerKey)
    const nowMs = Date.now() - 1_000
    certificate = await signIssuerCertificate(mesh.key, {
      meshId: mesh.id,
      issuerId: keyPeerId,
      keyPeerId,
      issuedAtMs: nowMs,
      expiresAtMs: nowMs + day,
    })
  })

  const by = (version: number, entries: readonly Revocation[]) => list(version, entries, ownerKey, peerIdOf(ownerKey))

  test('revokes with a list of its own, which is united with those of others', async () => {
    const trust = await trustOf(await bench.home())
    await trust.takeCertificates([certificate])

    await trust.takeLists([await list(1, [entry('12D3KooX')]), await by(1, [entry('12D3KooY')])])
    await trust.takeLists([await by(2, [])])

    expect(trust.revocationOf('12D3KooX', 1)).toBeDefined()
    expect(trust.revocationOf('12D3KooY', 1)).toBeUndefined()
  })

  test('that was revoked signs nothing any more, and what it had revoked stays revoked', async () => {
    const home = await bench.home()
    const trust = await trustOf(home)
    await trust.takeCertificates([certificate])
    await trust.takeLists([await by(1, [entry('12D3KooY')])])
    const serial = Number.MAX_SAFE_INTEGER

    await trust.takeLists([await list(1, [entry(peerIdOf(ownerKey), serial)])])

    expect(await trust.takeLists([await by(2, [])])).toBe(false)
    expect(trust.certificateEnvelopes()).toEqual([])
    const membership = await mesh.membershipBy(ownerKey, await generateKey())
    await expect(trust.openMembership(membership)).rejects.toMatchObject({ code: 'bad_signature' })
    const restarted = await trustOf(home)
    expect(restarted.revocationOf('12D3KooY', 1)).toBeDefined()
    await expect(restarted.openMembership(membership)).rejects.toMatchObject({ code: 'bad_signature' })
  })

  test('lets in members that every other member takes for such, whoever they meet first', async () => {
    const ownersHome = await bench.home()
    await (await trustOf(ownersHome)).takeCertificates([certificate])
    const memberKey = await generateKey()
    const membership = await mesh.membershipBy(ownerKey, memberKey)
    const standing = { meshId: mesh.id, membership, certificates: [certificate] }
    const member = await bench.start({ kind: 'node', key: memberKey, standing })
    const hub = await bench.member(mesh, 'hub')

    await expect(hub.connect(addressOf(member), soon())).resolves.toMatchObject({ peerId: peerIdOf(memberKey) })

    const third = await bench.member(mesh, 'cli')
    await third.connect(addressOf(hub), soon())
    await membersFit(third, (members) => members.some((one) => one.machinePeerId === peerIdOf(memberKey)))
  })
})

describe('a stranger that claims to have newer lists', () => {
  test('gets no more room than they have', async () => {
    const node = await bench.member(mesh, 'node')
    const key = await generateKey()
    const membership = await mesh.membership(key)
    const hello = {
      type: 'hello',
      revisions: [1],
      meshId: mesh.id,
      revocationVersions: [{ issuerId: mesh.id, version: 99 }],
      membership,
      issuerCertificates: [],
      successions: [],
      incarnation: 'x',
      kind: 'node',
      softwareVersion: '0.1.0',
      limits: { frameMaxBytes: 65_536 },
      nowMs: Date.now(),
    } as const

    await expect(sayByHand(bench, node, { key, hello })).resolves.toMatchObject({ type: 'welcome' })
    expect(node.refusals()).toEqual({})
  })
})

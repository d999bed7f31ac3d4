import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openMembership } from '../../src/identity/envelopes.ts'
import { findIssuerKey, loadIssuerKey, meshIssuer } from '../../src/identity/issuer-key.ts'
import { generateKey, keyToBytes, type PrivateKey, peerIdOf } from '../../src/identity/keys.ts'
import { loadMachine } from '../../src/identity/mesh-setup.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import type { Home, InviteRecord } from '../../src/ports/home.ts'
import { addressOf, Bench, certificate, membersFit, peerDown, soon, TestMesh } from './support.ts'

let bench: Bench
let mesh: TestMesh
let firstHome: Home
let first: MeshHost

beforeEach(async () => {
  bench = new Bench()
  mesh = await TestMesh.create()
  firstHome = await bench.home()
  const issuer = { book: firstHome.issuer, signer: meshIssuer(mesh.key) }
  first = await bench.member(mesh, 'issuer', { home: firstHome, name: 'laptop', more: { issuer } })
})

afterEach(() => bench[Symbol.asyncDispose]())

const asFirst = () => ({ book: firstHome.issuer, signer: meshIssuer(mesh.key) })

/** A node that was made an owner: its home as a machine's own, its node running. */
async function secondOwner(): Promise<{ readonly home: Home; readonly node: MeshHost; readonly key: PrivateKey }> {
  const home = await bench.home()
  const key = await generateKey()
  await home.keys.create('machine', keyToBytes(key))
  const membership = await mesh.membership(key, { name: 'desk', roles: ['node'] })
  await home.mesh.saveMembership({ meshId: mesh.id, membership, issuerCertificates: [], relays: [] })
  const node = await bench.start({ kind: 'node', key, home, standing: { meshId: mesh.id, membership } })
  await node.connect(addressOf(first), soon())
  await membersFit(first, (members) => members.some((one) => one.name === 'desk'))
  await first.renew(asFirst(), { machinePeerId: peerIdOf(key), roles: ['node', 'owner'] })
  await expect.poll(async () => (await findIssuerKey(home))?.issuerId).toBe(peerIdOf(key))
  await expect.poll(async () => (await loadMachine(home)).membership.roles).toContain('owner')
  return { home, node, key }
}

/** The issuer's process of that machine. */
async function issuerOf(owner: { readonly home: Home; readonly key: PrivateKey }): Promise<MeshHost> {
  const key = await generateKey()
  const { membership } = (await loadMachine(owner.home)).files
  const of = { meshId: mesh.id, processPeerId: peerIdOf(key), kind: 'issuer' } as const
  const standing = { meshId: mesh.id, membership, certificate: await certificate(owner.key, of) }
  const issuer = { book: owner.home.issuer, signer: await loadIssuerKey(owner.home) }
  return await bench.start({ kind: 'issuer', key, home: owner.home, standing, issuer })
}

const knock = (at: MeshHost) => ({
  address: addressOf(at),
  accepts: (meshId: string) => meshId === mesh.id,
  roles: ['node'] as const,
  name: 'vm1',
  os: 'linux',
  arch: 'x64',
  signal: AbortSignal.timeout(10_000),
})

const approved = (peerId: string, name = 'vm1') =>
  ({ peerId, isApproved: true, roles: ['node'], name, atMs: Date.now() }) as const

describe('a member that was promoted', () => {
  test('lets machines in, that members which never met it take for such', async () => {
    const owner = await secondOwner()
    const issuer = await issuerOf(owner)
    const key = await generateKey()
    await owner.home.issuer.answerKnock(approved(peerIdOf(key)))
    const home = await bench.home()
    const newcomer = await bench.start({ kind: 'node', key, home })

    const membership = await newcomer.knock(knock(issuer))

    expect(membership).toMatchObject({ name: 'vm1', issuerId: peerIdOf(owner.key), roles: ['node'] })
    expect(membership.serial).toBeGreaterThan(first.directory().length - 1)
    const hub = await bench.member(mesh, 'hub')
    await expect(hub.connect(addressOf(newcomer), soon())).resolves.toMatchObject({ name: 'vm1' })
    await home.keys.create('machine', keyToBytes(key))
    expect((await loadMachine(home)).membership).toEqual(membership)
  })

  test('gives nobody the name of a live member that another owner let in', async () => {
    const owner = await secondOwner()
    const issuer = await issuerOf(owner)
    await membersFit(issuer, (members) => members.some((one) => one.name === 'laptop'))
    const key = await generateKey()
    await owner.home.issuer.answerKnock(approved(peerIdOf(key), 'laptop'))
    const newcomer = await bench.start({ kind: 'node', key })

    await expect(newcomer.knock(knock(issuer))).rejects.toMatchObject({ code: 'name_taken' })
  })

  test('revokes with a list of its own, which counts everywhere', async () => {
    const owner = await secondOwner()
    const issuer = await issuerOf(owner)
    const hub = await bench.member(mesh, 'hub')
    const victim = await bench.member(mesh, 'node', { name: 'victim' })
    await hub.connect(addressOf(victim), soon())
    await hub.connect(addressOf(issuer), soon())
    await membersFit(issuer, (members) => members.some((one) => one.name === 'victim'))
    const down = peerDown(hub, victim.self.peerId)

    const role = { book: owner.home.issuer, signer: await loadIssuerKey(owner.home) }
    await issuer.revoke(role, [victim.self.peerId])

    await down
    // The node may have dialled back by now, and been refused once more.
    expect(hub.refusals()['revoked']).toBeGreaterThanOrEqual(1)
  })

  test('makes no owners itself', async () => {
    const owner = await secondOwner()
    const issuer = await issuerOf(owner)
    const role = { book: owner.home.issuer, signer: await loadIssuerKey(owner.home) }
    const key = await generateKey()
    await owner.home.issuer.answerKnock({ ...approved(peerIdOf(key)), roles: ['owner'] })
    const newcomer = await bench.start({ kind: 'node', key })

    await expect(newcomer.knock(knock(issuer))).rejects.toMatchObject({ code: 'not_owner' })
    await expect(role.signer.issuerId).not.toBe(mesh.id)
  })

  test('and then revoked, leaves the members that it let in to the owner that revoked it', async () => {
    const owner = await secondOwner()
    const issuer = await issuerOf(owner)
    const key = await generateKey()
    await owner.home.issuer.answerKnock(approved(peerIdOf(key)))
    const home = await bench.home()
    const newcomer = await bench.start({ kind: 'node', key, home })
    await newcomer.knock(knock(issuer))
    await newcomer.connect(addressOf(first), soon())
    const isIn = (one: { readonly name: string }): boolean => one.name === 'vm1'
    await membersFit(first, (members) => members.some(isIn))

    await first.revoke(asFirst(), [peerIdOf(owner.key)])

    await expect
      .poll(async () => {
        const kept = await home.mesh.loadMembership()
        const opened = await openMembership(kept?.membership ?? new Uint8Array(), { meshId: mesh.id }).catch(
          () => undefined,
        )
        return opened?.issuerId
      })
      .toBe(mesh.id)
    const hub = await bench.member(mesh, 'hub')
    await hub.connect(addressOf(first), soon())
    await membersFit(hub, (members) => members.some(isIn))
    await expect(hub.connect(addressOf(newcomer), soon())).resolves.toMatchObject({ name: 'vm1' })
  })

  test('and then revoked while a member that it let in was off: that one is taken for the member that it was made anew', async () => {
    const owner = await secondOwner()
    const issuer = await issuerOf(owner)
    const key = await generateKey()
    await owner.home.issuer.answerKnock(approved(peerIdOf(key)))
    const home = await bench.home()
    const newcomer = await bench.start({ kind: 'node', key, home })
    await newcomer.knock(knock(issuer))
    await newcomer.connect(addressOf(first), soon())
    await membersFit(first, (members) => members.some((one) => one.name === 'vm1'))
    await newcomer.close()
    const hub = await bench.member(mesh, 'hub')
    await first.revoke(asFirst(), [peerIdOf(owner.key)])
    await hub.connect(addressOf(first), soon())
    await membersFit(hub, (members) => members.some((one) => one.name === 'desk' && one.revokedAtMs !== undefined))
    await membersFit(hub, (members) => members.some((one) => one.name === 'vm1'))

    const { membership } = (await home.mesh.loadMembership()) ?? { membership: new Uint8Array() }
    const standing = { meshId: mesh.id, membership }
    const back = await bench.start({ kind: 'node', key, home, standing })
    await expect(back.connect(addressOf(hub), soon())).resolves.toMatchObject({ kind: 'hub' })
    await expect(hub.connect(addressOf(back), soon())).resolves.toMatchObject({ name: 'vm1' })

    const issuerOfKept = async (): Promise<string | undefined> => {
      const kept = await home.mesh.loadMembership()
      const opened = openMembership(kept?.membership ?? new Uint8Array(), { meshId: mesh.id })
      return (await opened.catch(() => undefined))?.issuerId
    }
    await expect.poll(issuerOfKept).toBe(mesh.id)
    await back.close()

    // It had heard of the revocation and not of its own new membership: it starts all the same, and asks for it.
    await home.mesh.saveMembership({ meshId: mesh.id, membership, issuerCertificates: [], relays: [] })
    await home.mesh.removeMember(peerIdOf(key))
    const again = await bench.start({ kind: 'node', key, home, standing })
    await expect.poll(issuerOfKept).toBe(mesh.id)
    await again.close()
  })

  test('and then revoked, is no issuer any more, with whatever key it kept', async () => {
    const owner = await secondOwner()
    const issuer = await issuerOf(owner)
    const hub = await bench.member(mesh, 'hub')
    await hub.connect(addressOf(first), soon())
    await membersFit(hub, (members) => members.some((one) => one.name === 'desk' && one.roles.includes('owner')))
    const role = { book: owner.home.issuer, signer: await loadIssuerKey(owner.home) }

    await first.revoke(asFirst(), [peerIdOf(owner.key)])
    await membersFit(hub, (members) => members.some((one) => one.name === 'desk' && one.revokedAtMs !== undefined))
    const own = await mesh.membershipBy(owner.key, owner.key, { serial: 10_000, roles: ['owner', 'hub', 'node'] })
    const back = await bench.start({
      kind: 'node',
      key: owner.key,
      standing: {
        meshId: mesh.id,
        membership: own,
        certificates: (await owner.home.mesh.certificates()).map(({ envelope }) => envelope),
      },
    })

    await expect(back.connect(addressOf(hub), soon())).rejects.toThrow()
    expect(hub.connected().map(({ peerId }) => peerId)).toEqual([first.self.peerId])
    await issuer.connect(addressOf(first), soon()).catch(() => undefined)
    await expect.poll(() => issuer.members().find((one) => one.name === 'desk')?.revokedAtMs).toBeGreaterThan(0)
    await expect(issuer.revoke(role, [hub.self.machinePeerId])).rejects.toMatchObject({ code: 'revoked' })
  })
})

describe('a name', () => {
  const invite = async (more: Partial<InviteRecord> = {}): Promise<InviteRecord> => {
    const inviteId = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString('hex')
    const record = { inviteId, secret: new Uint8Array(16), roles: ['node'] as const, ...more }
    const written = { ...record, createdAtMs: Date.now(), expiresAtMs: Date.now() + 60_000 }
    await firstHome.issuer.addInvite(written)
    return written
  }

  const join = async (record: InviteRecord): Promise<MeshHost> => {
    const host = await bench.start({ kind: 'node', key: await generateKey() })
    const addresses = first.listenAddresses()
    const { inviteId, secret, expiresAtMs } = record
    await host.join(
      { meshId: mesh.id, issuerPeerId: first.self.peerId, addresses, relays: [], inviteId, secret, expiresAtMs },
      { name: 'vm1', os: 'linux', arch: 'x64', signal: AbortSignal.timeout(10_000) },
    )
    return host
  }

  test('that is taken over with an invite leaves the machine that had it out of the mesh', async () => {
    const before = await join(await invite())
    await expect(join(await invite())).rejects.toMatchObject({ code: 'name_taken' })
    const down = peerDown(first, before.self.peerId)

    const after = await join(await invite({ replaces: 'vm1' }))

    await down
    expect(after.self.name).toBe('vm1')
    const named = first.members().filter((one) => one.name === 'vm1')
    expect(named.filter((one) => one.revokedAtMs === undefined).map((one) => one.machinePeerId)).toEqual([
      after.self.peerId,
    ])
  })

  test('of a machine that was revoked is free for another', async () => {
    const before = await join(await invite())
    await first.revoke(asFirst(), [before.self.peerId])

    await expect(join(await invite())).resolves.toMatchObject({ self: { name: 'vm1' } })
  })
})

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  openMembership,
  openRevocations,
  signIssuerCertificate,
  signRevocations,
  signSuccession,
} from '../../src/identity/envelopes.ts'
import { findIssuerKey, type IssuerKey, meshIssuer } from '../../src/identity/issuer-key.ts'
import { fingerprintOf, generateKey, keyToBytes, type PrivateKey, peerIdOf } from '../../src/identity/keys.ts'
import { loadMachine } from '../../src/identity/mesh-setup.ts'
import type { MeshHost, Standing } from '../../src/mesh/peers.ts'
import type { Home } from '../../src/ports/home.ts'
import { addressOf, Bench, certificate, day, membersFit, peerDown, soon, TestMesh } from './support.ts'

let bench: Bench
let mesh: TestMesh
let firstHome: Home
let first: MeshHost
/** The issuer's role as `first` plays it; its key follows what the home says. */
let role: { readonly book: Home['issuer']; signer: IssuerKey }

beforeEach(async () => {
  bench = new Bench()
  mesh = await TestMesh.create()
  firstHome = await bench.home()
  role = { book: firstHome.issuer, signer: meshIssuer(mesh.key) }
  first = await bench.member(mesh, 'issuer', { home: firstHome, name: 'desk', more: { issuer: role } })
})

afterEach(() => bench[Symbol.asyncDispose]())

/** A node, in a home of its own that is a machine's. */
interface Node {
  readonly home: Home
  readonly key: PrivateKey
  readonly standing: Standing
  readonly host: MeshHost
}

async function nodeOf(name: string): Promise<Node> {
  const home = await bench.home()
  const key = await generateKey()
  await home.keys.create('machine', keyToBytes(key))
  const membership = await mesh.membership(key, { name, roles: ['node', 'hub'] })
  await home.mesh.saveMembership({ meshId: mesh.id, membership, issuerCertificates: [], relays: [] })
  const standing = { meshId: mesh.id, membership }
  return { home, key, standing, host: await bench.start({ kind: 'node', key, home, standing }) }
}

async function again({ home, key }: Node): Promise<MeshHost> {
  const { membership } = (await loadMachine(home)).files
  return await bench.start({ kind: 'node', key, home, standing: { meshId: mesh.id, membership } })
}

/** Puts another key in the place of the mesh key, by the issuer that knows of all. */
async function replaced(successor: PrivateKey): Promise<ReturnType<MeshHost['replaceKey']>> {
  const change = { predecessor: meshIssuer(mesh.key), successor, members: await firstHome.mesh.roster() }
  const done = await first.replaceKey(firstHome.issuer, change)
  role.signer = done.signer
  return done
}

const succession = (successor: PrivateKey, predecessor: PrivateKey = mesh.key): Promise<Uint8Array> =>
  signSuccession(predecessor, { meshId: mesh.id, successorPeerId: peerIdOf(successor), atMs: Date.now() })

/** Somebody who has the former key lets a machine of his own in. */
async function thief(more: Partial<Standing> = {}): Promise<MeshHost> {
  const machineKey = await generateKey()
  const key = await generateKey()
  const membership = await mesh.membership(machineKey, { name: 'stranger', serial: 1, issuedAtMs: Date.now() - day })
  const of = { meshId: mesh.id, processPeerId: peerIdOf(key), kind: 'hub', hubId: 'hub_thief' } as const
  const standing = { meshId: mesh.id, membership, certificate: await certificate(machineKey, of), ...more }
  return await bench.start({ kind: 'hub', hubId: 'hub_thief', key, standing })
}

async function issuerKept(home: Home): Promise<string> {
  const { membership } = await loadMachine(home)
  return membership.issuerId
}

describe('a mesh key that was replaced', () => {
  test('is followed by every member that hears of it, who stay members and connected', async () => {
    const [one, other] = [await nodeOf('vm1'), await nodeOf('vm2')]
    await one.host.connect(addressOf(first), soon())
    await other.host.connect(addressOf(first), soon())
    await membersFit(one.host, (members) => members.length === 3)
    await membersFit(first, (members) => members.length === 3)
    const successor = await generateKey()

    const { carried, leftOut } = await replaced(successor)

    expect(carried.map(({ name, issuerId }) => [name, issuerId]).sort()).toEqual(
      ['desk', 'vm1', 'vm2'].map((name) => [name, peerIdOf(successor)]),
    )
    expect(leftOut).toEqual([])
    for (const { home } of [one, other]) await expect.poll(() => issuerKept(home)).toBe(peerIdOf(successor))
    await expect(one.host.connect(addressOf(other.host), soon())).resolves.toMatchObject({ name: 'vm2' })
    expect(
      first
        .connected()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(['vm1', 'vm2'])
    expect(one.host.refusals()).toEqual({})
  })

  test('lets nobody in any more, whatever date it writes, where the new one is known', async () => {
    const node = await nodeOf('vm1')
    await node.host.connect(addressOf(first), soon())
    await membersFit(first, (members) => members.length === 2)
    await replaced(await generateKey())
    await expect.poll(() => issuerKept(node.home)).not.toBe(mesh.id)
    const stranger = await thief()

    await expect(stranger.connect(addressOf(node.host), soon())).rejects.toMatchObject({ code: 'bad_signature' })

    expect(node.host.members().map(({ name }) => name)).not.toContain('stranger')
  })

  test('ends the links of whoever it let in and nobody made a member anew', async () => {
    const node = await nodeOf('vm1')
    await node.host.connect(addressOf(first), soon())
    await membersFit(first, (members) => members.length === 2)
    const stranger = await thief()
    await stranger.connect(addressOf(node.host), soon())
    const known = (await firstHome.mesh.roster()).filter(({ peerId }) => peerId !== stranger.self.machinePeerId)
    const down = [peerDown(node.host, stranger.self.peerId), peerDown(stranger, node.host.self.peerId)]

    const change = { predecessor: meshIssuer(mesh.key), successor: await generateKey(), members: known }
    await first.replaceKey(firstHome.issuer, change)

    await Promise.all(down)
    await expect(stranger.connect(addressOf(node.host), soon())).rejects.toMatchObject({ code: 'bad_signature' })
    expect(node.host.connected().map(({ name }) => name)).toEqual(['desk'])
  }, 30_000)

  test('is known to a member that was off from its first hello, in which it is taken for the member that it was made anew', async () => {
    const [off, on] = [await nodeOf('vm1'), await nodeOf('vm2')]
    for (const { host } of [off, on]) await host.connect(addressOf(first), soon())
    await membersFit(first, (members) => members.length === 3)
    await off.host.close()
    const successor = await generateKey()
    await replaced(successor)
    const issuers = (): readonly string[] => on.host.directory().map(({ membership }) => membership.body.issuerId)
    await expect.poll(issuers).toEqual([successor, successor, successor].map(peerIdOf))

    const back = await again(off)
    await expect(back.connect(addressOf(on.host), soon())).resolves.toMatchObject({ name: 'vm2' })

    await expect.poll(() => issuerKept(off.home)).toBe(peerIdOf(successor))
    const stranger = await thief()
    await expect(stranger.connect(addressOf(back), soon())).rejects.toMatchObject({ code: 'bad_signature' })
  })

  test('stays so after a restart, also where it was heard of and the new membership was not', async () => {
    const node = await nodeOf('vm1')
    await node.host.connect(addressOf(first), soon())
    await membersFit(first, (members) => members.length === 2)
    await node.host.close()
    const successor = await generateKey()
    await replaced(successor)
    await node.home.mesh.saveSuccession({ predecessorPeerId: mesh.id, envelope: await succession(successor) })

    const back = await again(node)
    await expect(back.connect(addressOf(first), soon())).resolves.toMatchObject({ name: 'desk' })

    await expect.poll(() => issuerKept(node.home)).toBe(peerIdOf(successor))
    await back.close()
    const third = await again(node)
    const stranger = await thief()
    await expect(stranger.connect(addressOf(third), soon())).rejects.toMatchObject({ code: 'bad_signature' })
  })

  test('revokes nobody any more, and what it had revoked stays so', async () => {
    const node = await nodeOf('vm1')
    const gone = await nodeOf('gone')
    for (const { host } of [node, gone]) await host.connect(addressOf(first), soon())
    await membersFit(first, (members) => members.length === 3)
    await first.revoke(role, [peerIdOf(gone.key)])
    const successor = await generateKey()
    const { version } = await replaced(successor)
    const applied = () => first.appliedBy(node.host.self.peerId)?.revocations.get(peerIdOf(successor))
    await expect.poll(applied).toBe(version)
    await expect.poll(() => issuerKept(node.home)).toBe(peerIdOf(successor))

    const entries = [{ peerId: peerIdOf(node.key), serial: 9_999, atMs: Date.now() }]
    const forged = { meshId: mesh.id, issuerId: mesh.id, version: 99, entries }
    const envelope = await signRevocations(mesh.key, forged)
    const issuers = { meshId: mesh.id, meshKeys: [peerIdOf(successor)] }
    await expect(openRevocations(envelope, issuers)).rejects.toMatchObject({ code: 'bad_signature' })
    await expect(gone.host.connect(addressOf(node.host), soon())).rejects.toMatchObject({ code: 'revoked' })
    expect(node.host.members().find(({ name }) => name === 'gone')?.revokedAtMs).toBeGreaterThan(0)
  })

  test('is replaced once by whoever is interrupted at any point', async () => {
    const node = await nodeOf('vm1')
    await node.host.connect(addressOf(first), soon())
    await membersFit(first, (members) => members.length === 2)
    await firstHome.mesh.saveMembership({
      meshId: mesh.id,
      membership: (await firstHome.mesh.member(first.self.machinePeerId))?.membership ?? new Uint8Array(),
      issuerCertificates: [],
      relays: [],
    })
    const successor = await generateKey()
    const members = await firstHome.mesh.roster()
    // It named the successor, and was killed after that.
    await firstHome.mesh.saveSuccession({ predecessorPeerId: mesh.id, envelope: await succession(successor) })
    await firstHome.keys.create('mesh-1', keyToBytes(successor))
    await firstHome.keys.create('mesh', keyToBytes(mesh.key))
    expect((await findIssuerKey(firstHome))?.issuerId).toBe(peerIdOf(successor))

    const done = await first.replaceKey(firstHome.issuer, { predecessor: undefined, successor, members })

    expect(done.carried.map(({ name }) => name).sort()).toEqual(['desk', 'vm1'])
    await expect.poll(() => issuerKept(node.home)).toBe(peerIdOf(successor))
  })

  test('is shown to a machine that joins by the first key, which is the mesh’s name for good', async () => {
    const successor = await generateKey()
    await replaced(successor)
    const home = await bench.home()
    const key = await generateKey()
    await firstHome.issuer.answerKnock({
      peerId: peerIdOf(key),
      isApproved: true,
      roles: ['node'],
      name: 'vm1',
      atMs: Date.now(),
    })
    const newcomer = await bench.start({ kind: 'node', key, home })

    const joined = await newcomer.knock({
      address: addressOf(first),
      accepts: (meshId) => meshId === mesh.id,
      roles: ['node'],
      name: 'vm1',
      os: 'linux',
      arch: 'x64',
      signal: AbortSignal.timeout(10_000),
    })

    expect(joined).toMatchObject({ name: 'vm1', issuerId: peerIdOf(successor), meshId: mesh.id })
  })
})

describe('a successor', () => {
  test('is not named by a key that was replaced meanwhile: that would close the mesh', async () => {
    const successor = await generateKey()
    await replaced(successor)
    const change = { predecessor: meshIssuer(mesh.key), successor: await generateKey(), members: [] }

    await expect(first.replaceKey(firstHome.issuer, change)).rejects.toMatchObject({ code: 'not_owner' })

    expect(first.alarms()).toEqual([])
    expect(await firstHome.mesh.successions()).toMatchObject([{ predecessorPeerId: mesh.id }])
  })

  test.each([
    ['by a key that never was the mesh’s', async () => succession(await generateKey(), await generateKey())],
    [
      'of another mesh',
      async () =>
        signSuccession(mesh.key, { meshId: peerIdOf(await generateKey()), successorPeerId: mesh.id, atMs: 1 }),
    ],
    ['that is no key', async () => signSuccession(mesh.key, { meshId: mesh.id, successorPeerId: 'somebody', atMs: 1 })],
    [
      'spelt as another thing',
      async () => {
        const term = { issuedAtMs: 1, expiresAtMs: Date.now() + day }
        return signIssuerCertificate(mesh.key, { meshId: mesh.id, issuerId: 'x', keyPeerId: mesh.id, ...term })
      },
    ],
  ])('%s is passed over', async (_what, forge) => {
    const node = await nodeOf('vm1')
    const envelope = await forge()
    const stranger = await thief({ successions: [envelope] })

    await expect(stranger.connect(addressOf(node.host), soon())).resolves.toMatchObject({ name: 'vm1' })

    expect(await node.home.mesh.successions()).toEqual([])
    await expect(node.host.connect(addressOf(first), soon())).resolves.toMatchObject({ name: 'desk' })
  })

  test('that contradicts another closes the mesh wherever both are known, for good', async () => {
    const [one, other] = [await nodeOf('vm1'), await nodeOf('vm2')]
    for (const { host } of [one, other]) await host.connect(addressOf(first), soon())
    await membersFit(one.host, (members) => members.length === 3)
    const down = peerDown(first, one.host.self.peerId)
    const [ours, theirs] = [await generateKey(), await generateKey()]
    await replaced(ours)
    await expect.poll(() => issuerKept(one.home)).toBe(peerIdOf(ours))

    const stranger = await thief({ successions: [await succession(theirs)] })
    await stranger.connect(addressOf(one.host), soon()).catch(() => undefined)

    await down
    for (const host of [one.host, first, other.host]) {
      const successors = [peerIdOf(ours), peerIdOf(theirs)].sort()
      await expect.poll(() => host.alarms()).toEqual([{ issuerId: mesh.id, successors }])
      await expect.poll(() => host.connected()).toEqual([])
    }
    // Neither of the two lets anybody in, nor the key that named them.
    for (const signer of [mesh.key, ours, theirs]) {
      const key = await generateKey()
      const issuerId = peerIdOf(signer)
      const membership = await mesh.membershipBy(signer, key, { issuerId, serial: 10_000, roles: ['node'] })
      const late = await bench
        .start({ kind: 'node', key, standing: { meshId: mesh.id, membership, successions: [await succession(ours)] } })
        .catch(() => undefined)
      await expect(
        late?.connect(addressOf(one.host), soon()) ?? Promise.reject(new Error('no standing')),
      ).rejects.toThrow()
    }
    await one.host.close()
    const back = await again(one)
    expect(back.alarms()).toHaveLength(1)
    await expect(back.connect(addressOf(other.host), soon())).rejects.toThrow()
    expect(back.connected()).toEqual([])
    expect(await findIssuerKey(one.home)).toBeUndefined()
  }, 30_000)

  test('of a mesh in which further owners sign certifies them anew', async () => {
    const owner = await nodeOf('second')
    await owner.host.connect(addressOf(first), soon())
    await membersFit(first, (members) => members.length === 2)
    await first.renew(role, { machinePeerId: peerIdOf(owner.key), roles: ['node', 'owner'] })
    await expect.poll(async () => (await findIssuerKey(owner.home))?.issuerId).toBe(peerIdOf(owner.key))
    const theirs = await mesh.membershipBy(owner.key, await generateKey(), { name: 'vm9' })
    const successor = await generateKey()

    const { carried, formerOwners } = await replaced(successor)

    expect(formerOwners).toEqual([])
    expect(carried.find(({ name }) => name === 'second')?.roles).toContain('owner')
    await expect.poll(() => issuerKept(owner.home)).toBe(peerIdOf(successor))
    await expect.poll(async () => (await findIssuerKey(owner.home))?.issuerId).toBe(peerIdOf(owner.key))
    const { meshKeys, certificates } = await loadMachine(owner.home)
    expect(meshKeys).toEqual([peerIdOf(successor)])
    await expect(openMembership(theirs, { meshId: mesh.id, meshKeys, certificates })).resolves.toMatchObject({
      name: 'vm9',
    })
    expect(fingerprintOf(peerIdOf(successor))).not.toBe(fingerprintOf(mesh.id))
  })
})

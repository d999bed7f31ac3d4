import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { clockToleranceMs } from '../../src/core/membership.ts'
import { openMembership } from '../../src/identity/envelopes.ts'
import { meshIssuer } from '../../src/identity/issuer-key.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../../src/identity/keys.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { Home } from '../../src/ports/home.ts'
import { HeldClock } from './held-clock.ts'
import { addressOf, Bench, certificate, day, membersFit, peerDown, soon, TestMesh } from './support.ts'

let bench: Bench
let mesh: TestMesh

beforeEach(async () => {
  bench = new Bench()
  mesh = await TestMesh.create()
})

afterEach(() => bench[Symbol.asyncDispose]())

async function issuerOf(home: Home): Promise<MeshHost> {
  const more = { issuer: { book: home.issuer, signer: meshIssuer(mesh.key) } }
  return await bench.member(mesh, 'issuer', { home, name: 'laptop', more })
}

/** A clock whose wall shows another time. */
const wallAt = (wallMs: () => number): Clock => ({ ...systemClock(), wallMs })

/** A clock on which a minute is over at once: what waits that long looks again. */
const hurried = (): Clock => {
  const clock = systemClock()
  return { ...clock, after: (delayMs, callback) => clock.after(delayMs >= 60_000 ? 100 : delayMs, callback) }
}

interface Term {
  readonly issuedAtMs: number
  readonly expiresAtMs: number
}

async function nodeWith(term: Term, options: { readonly key?: PrivateKey; readonly home?: Home } = {}) {
  const { key = await generateKey(), home = await bench.home() } = options
  const membership = await mesh.membership(key, { name: 'vm1', roles: ['node'], ...term })
  await home.mesh.saveMembership({ meshId: mesh.id, membership, issuerCertificates: [], relays: [] })
  const standing = { meshId: mesh.id, membership }
  return { key, home, membership, start: () => bench.start({ kind: 'node', key, home, standing }) }
}

const lastThird = (): Term => ({ issuedAtMs: Date.now() - 70 * day, expiresAtMs: Date.now() + 30 * day })
const over = (): Term => ({ issuedAtMs: Date.now() - 370 * day, expiresAtMs: Date.now() - 5 * day })

/** The term that a member has by now, as its home keeps it. */
const renewedIn = (host: MeshHost, peerId: string): Promise<void> =>
  membersFit(host, (members) =>
    members.some((one) => one.machinePeerId === peerId && one.expiresAtMs > Date.now() + 300 * day),
  )

describe('a membership', () => {
  test('in its last third is renewed by the issuer that the member meets, and kept', async () => {
    const issuer = await issuerOf(await bench.home())
    const { home, membership, start, key } = await nodeWith(lastThird())
    const node = await start()

    await node.connect(addressOf(issuer), soon())

    await renewedIn(node, peerIdOf(key))
    await expect.poll(async () => (await home.mesh.loadMembership())?.membership).not.toEqual(membership)
    const renewed = node.members().find((one) => one.machinePeerId === peerIdOf(key))
    expect(renewed).toMatchObject({ name: 'vm1', roles: ['node'] })
    // Its name is its own for as long as before (rule 17).
    expect(renewed?.namedAtMs).toBe((await openMembership(membership, { meshId: mesh.id })).issuedAtMs)
    expect(node.connected()).toHaveLength(1)
  })

  test('that is younger is left alone', async () => {
    const issuer = await issuerOf(await bench.home())
    const term = { issuedAtMs: Date.now() - 50 * day, expiresAtMs: Date.now() + 50 * day }
    const node = await (await nodeWith(term)).start()
    await node.connect(addressOf(issuer), soon())
    await membersFit(node, (members) => members.length === 2)

    const again = await (await nodeWith(lastThird())).start()
    await again.connect(addressOf(issuer), soon())
    await renewedIn(issuer, again.self.peerId)

    expect(issuer.members().find((one) => one.machinePeerId === node.self.peerId)).toMatchObject(term)
  })

  test('reaches its member through a third machine, and counts there before the member shows it', async () => {
    const ownersHome = await bench.home()
    const issuer = await issuerOf(ownersHome)
    const hub = await bench.member(mesh, 'hub')
    const { start, key } = await nodeWith(lastThird())
    const node = await start()
    await node.connect(addressOf(hub), soon())
    await hub.connect(addressOf(issuer), soon())
    const peerId = peerIdOf(key)
    await membersFit(issuer, (members) => members.some((one) => one.machinePeerId === peerId))

    await issuer.renew({ book: ownersHome.issuer, signer: meshIssuer(mesh.key) }, { machinePeerId: peerId })

    await renewedIn(node, peerId)
  })

  test('that is over gives its member nothing but a new one, from an issuer that it knew', async () => {
    const home = await bench.home()
    const issuer = await issuerOf(home)
    const { start, home: own, key } = await nodeWith(over())
    await rememberIssuer(own, home)
    const peerId = peerIdOf(key)
    // What the issuer's roster has of it, from when it was a member.
    const known = await own.mesh.loadMembership()
    await home.mesh.saveMember({ peerId, serial: 1, membership: known?.membership ?? new Uint8Array(), addresses: [] })
    await membersFit(issuer, (members) => members.some((one) => one.machinePeerId === peerId))
    const hub = await bench.member(mesh, 'hub')

    const node = await start()
    await expect(node.connect(addressOf(hub), soon())).rejects.toMatchObject({ code: 'membership_expired' })
    await renewedIn(node, peerId)

    const later = await bench.member(mesh, 'hub')
    await expect(node.connect(addressOf(later), soon())).resolves.toMatchObject({ kind: 'hub' })
  })

  test('that is over, of a machine that is only a hub, is asked for under its machine’s key once nobody else has that', async () => {
    const home = await bench.home()
    const issuer = await issuerOf(home)
    const [own, machineKey] = [await bench.home(), await generateKey()]
    const membership = await mesh.membership(machineKey, { name: 'desk', roles: ['hub'], ...over() })
    await own.mesh.saveMembership({ meshId: mesh.id, membership, issuerCertificates: [], relays: [] })
    await rememberIssuer(own, home)
    const machine = peerIdOf(machineKey)
    await home.mesh.saveMember({ peerId: machine, serial: 1, membership, addresses: [] })
    await membersFit(issuer, (members) => members.some((one) => one.machinePeerId === machine))
    const key = await generateKey()
    const process = { meshId: mesh.id, processPeerId: peerIdOf(key), kind: 'hub', hubId: 'hub_test' } as const
    const standing = { meshId: mesh.id, membership, certificate: await certificate(machineKey, process) }
    let borrowed = 0
    const events: string[] = []
    const hub = await bench.start({
      kind: 'hub',
      hubId: 'hub_test',
      key,
      home: own,
      standing,
      clock: hurried(),
      borrowMachineKey: async () => {
        borrowed += 1
        if (borrowed === 1) return undefined
        events.push('taken')
        return { key: machineKey, giveBack: async () => void events.push('given back') }
      },
    })

    await renewedIn(hub, machine)

    await expect.poll(() => events).toEqual(['taken', 'given back'])
    const node = await bench.member(mesh, 'node')
    await expect(hub.connect(addressOf(node), soon())).resolves.toMatchObject({ kind: 'node' })
  })

  test('that is over and was revoked is not renewed', async () => {
    const home = await bench.home()
    const issuer = await issuerOf(home)
    const { membership, key } = await nodeWith(over())
    const peerId = peerIdOf(key)
    await home.mesh.saveMember({ peerId, serial: 1, membership, addresses: [] })
    await membersFit(issuer, (members) => members.some((one) => one.machinePeerId === peerId))
    await issuer.revoke({ book: home.issuer, signer: meshIssuer(mesh.key) }, [peerId])
    const asking = await bench.start({ kind: 'node', key })

    await expect(
      asking.knock({
        address: addressOf(issuer),
        accepts: () => true,
        roles: ['node'],
        os: 'linux',
        arch: 'x64',
        signal: AbortSignal.timeout(10_000),
      }),
    ).rejects.toMatchObject({ code: 'knock_pending' })
  })

  test('is not renewed under a name that went to another machine', async () => {
    const home = await bench.home()
    const issuer = await issuerOf(home)
    const { start, key } = await nodeWith(lastThird())
    await home.issuer.takeName('vm1', peerIdOf(await generateKey()))
    const node = await start()
    await node.connect(addressOf(issuer), soon())

    await expect.poll(() => issuer.refusals()).toMatchObject({ name_taken: 1 })
    expect(issuer.members().find((one) => one.machinePeerId === peerIdOf(key))?.expiresAtMs).toBeLessThan(
      Date.now() + 31 * day,
    )
  })

  test('ends a live link when it runs out', async () => {
    const minuteMs = 60_000
    const clock = new HeldClock((delayMs) => delayMs > minuteMs && delayMs <= 5 * minuteMs + 1)
    const hub = await bench.member(mesh, 'hub', { more: { clock } })
    // The tolerance for clocks that differ is part of the term.
    const expiresAtMs = Date.now() - clockToleranceMs + 5 * minuteMs
    const { start } = await nodeWith({ issuedAtMs: Date.now() - day, expiresAtMs })
    const node = await start()
    await hub.connect(addressOf(node), soon())
    const gone = peerDown(hub, node.self.peerId)
    await clock.holds(1)

    clock.stepWall(5 * minuteMs)
    clock.letGo()

    expect((await gone).peerId).toBe(node.self.peerId)
    expect(hub.refusals()).toMatchObject({ membership_expired: 1 })
  })
})

describe('a clock', () => {
  test('at 1970 is not believed below what was seen before', async () => {
    const home = await bench.home()
    const seen = await bench.member(mesh, 'node', { home })
    await expect.poll(() => home.mesh.seenTimeMs()).toBeGreaterThan(Date.now() - day)
    await seen.close()
    const hub = await bench.member(mesh, 'hub')

    const node = await bench.member(mesh, 'node', { home, more: { clock: wallAt(() => 1_000) } })

    await expect(node.connect(addressOf(hub), soon())).resolves.toMatchObject({ kind: 'hub' })
    await expect(hub.connect(addressOf(node), soon())).resolves.toMatchObject({ kind: 'node' })
  })

  test('at 1970 of a machine that has seen nothing refuses, and does not take anybody in', async () => {
    const hub = await bench.member(mesh, 'hub')
    const key = await generateKey()
    const membership = await mesh.membership(key, { issuedAtMs: 0, expiresAtMs: 10 * day })
    const clock = wallAt(() => 1_000)
    const node = await bench.start({ kind: 'node', key, standing: { meshId: mesh.id, membership }, clock })

    await expect(node.connect(addressOf(hub), soon())).rejects.toMatchObject({ code: 'membership_expired' })
  })

  test('that is set back makes no expired membership valid again', async () => {
    const home = await bench.home()
    await home.mesh.raiseSeenTime(Date.now())
    const expired = await (await nodeWith(over())).start()
    const clock = wallAt(() => Date.now() - 30 * day)
    const hub = await bench.member(mesh, 'hub', { home, more: { clock } })

    await expect(hub.connect(addressOf(expired), soon())).rejects.toMatchObject({ code: 'membership_expired' })
  })
})

describe('a process', () => {
  test('renews its own certificate before it runs out', async () => {
    const machineKey = await generateKey()
    const key = await generateKey()
    const membership = await mesh.membership(machineKey)
    const of = { meshId: mesh.id, processPeerId: peerIdOf(key), kind: 'hub', hubId: 'hub_test' } as const
    const term = { issuedAtMs: Date.now() - 29 * day, expiresAtMs: Date.now() - day }
    const standing = { meshId: mesh.id, membership, certificate: await certificate(machineKey, { ...of, ...term }) }
    const made: number[] = []
    const hub = await bench.start({
      kind: 'hub',
      hubId: 'hub_test',
      key,
      standing,
      certify: (nowMs) => {
        made.push(nowMs)
        return certificate(machineKey, of)
      },
    })

    await expect.poll(() => made.length).toBe(1)
    const node = await bench.member(mesh, 'node')

    await expect(hub.connect(addressOf(node), soon())).resolves.toMatchObject({ kind: 'node' })
  })
})

/** Where an issuer was last found, as a member's roster keeps it. */
async function rememberIssuer(own: Home, issuers: Home): Promise<void> {
  for (const record of await issuers.mesh.roster()) await own.mesh.saveMember(record)
}

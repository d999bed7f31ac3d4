import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { signDeparture } from '../../src/identity/envelopes.ts'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import { Trust } from '../../src/mesh/trust.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { Clock } from '../../src/ports/clock.ts'
import { addressOf, Bench, memberOf, membersFit, peerDown, soon, TestMesh } from './support.ts'

let bench: Bench
let mesh: TestMesh

beforeEach(async () => {
  bench = new Bench()
  mesh = await TestMesh.create()
})

afterEach(() => bench[Symbol.asyncDispose]())

const leftIn = (host: MeshHost, machinePeerId: string): Promise<void> =>
  membersFit(host, (members) => members.some((one) => one.machinePeerId === machinePeerId && one.hasLeft === true))

describe('a member that leaves', () => {
  test('is told that it was heard, and is then cut off; a third machine that was away hears of it from the second', async () => {
    const { key, ...leaver } = await memberOf(mesh, 'node')
    const node = await bench.start({ key, ...leaver })
    const hub = await bench.member(mesh, 'hub')
    const away = await bench.member(mesh, 'hub')
    await hub.connect(addressOf(node), soon())
    const down = peerDown(hub, node.self.peerId)

    const serial = await node.depart(key)

    await leftIn(hub, node.self.peerId)
    await expect.poll(() => node.appliedBy(hub.self.peerId)?.departures.get(node.self.peerId)).toBe(serial)
    await down
    await away.connect(addressOf(hub), soon())
    await leftIn(away, node.self.peerId)
    await expect(away.connect(addressOf(node), soon())).rejects.toMatchObject({ code: 'revoked' })
  })

  test('is cut off also where the timer for it is a moment early', async () => {
    const real = systemClock()
    const early: Clock = {
      ...real,
      after: (delayMs, callback) => real.after(delayMs - (delayMs > 1_500 ? 5 : 0), callback),
    }
    const { key, ...leaver } = await memberOf(mesh, 'node')
    const node = await bench.start({ key, ...leaver })
    const hub = await bench.member(mesh, 'hub', { more: { clock: early } })
    await hub.connect(addressOf(node), soon())
    const down = peerDown(hub, node.self.peerId)

    await node.depart(key)

    await down
  })

  test('is one again with a later membership, and is so after a restart of whoever heard that it left', async () => {
    const { key, standing } = await memberOf(mesh, 'node')
    const home = await bench.home()
    const hub = await bench.member(mesh, 'hub', { home })
    const first = await bench.start({ kind: 'node', key, standing })
    await hub.connect(addressOf(first), soon())
    await first.depart(key)
    await leftIn(hub, peerIdOf(key))
    await first.close()

    const membership = await mesh.membership(key)
    const second = await bench.start({ kind: 'node', key, standing: { meshId: mesh.id, membership } })
    await hub.close()
    const restarted = await bench.member(mesh, 'hub', { home })
    expect(restarted.members().find(({ machinePeerId }) => machinePeerId === peerIdOf(key))?.hasLeft).toBe(true)
    await restarted.connect(addressOf(second), soon())

    const known = restarted.members().find(({ machinePeerId }) => machinePeerId === peerIdOf(key))
    expect(known?.hasLeft).toBeUndefined()
    expect(known?.revokedAtMs).toBeUndefined()
  })
})

describe('a departure', () => {
  test('counts only where the machine itself signed it, for this mesh, and is a member', async () => {
    const [machine, other] = [await generateKey(), await generateKey()]
    const home = await bench.home()
    const trust = await Trust.load({ meshId: mesh.id, files: home.mesh, onNews: () => {}, onRefused: () => {} })
    bench.defer(async () => trust.close())
    const departure = { meshId: mesh.id, machinePeerId: peerIdOf(machine), serial: 7, atMs: Date.now() }

    const byOther = await trust.takeDepartures([await signDeparture(other, departure)], () => true)
    const elsewhere = await trust.takeDepartures(
      [await signDeparture(machine, { ...departure, meshId: peerIdOf(other) })],
      () => true,
    )
    const stranger = await trust.takeDepartures([await signDeparture(machine, departure)], () => false)
    expect([byOther, elsewhere, stranger]).toEqual([false, false, false])
    expect(await home.mesh.departures()).toEqual([])

    await trust.takeDepartures([await signDeparture(machine, departure)], () => true)
    expect(trust.departureOf(peerIdOf(machine), 7)).toMatchObject({ atMs: departure.atMs })
    expect(trust.departureOf(peerIdOf(machine), 8)).toBeUndefined()
    expect(await home.mesh.departures()).toMatchObject([{ machinePeerId: peerIdOf(machine), serial: 7 }])
  })
})

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openMembership, signAddressRecord } from '../../src/identity/envelopes.ts'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'
import { Roster } from '../../src/mesh/roster.ts'
import { openersFor } from '../../src/mesh/standing.ts'
import type { Home } from '../../src/ports/home.ts'
import { addressOf, Bench, membersFit, membersMatch, peerUp, soon, TestMesh } from './support.ts'

describe('roster', () => {
  let bench: Bench
  let mesh: TestMesh

  beforeEach(async () => {
    bench = new Bench()
    mesh = await TestMesh.create()
  })

  afterEach(() => bench[Symbol.asyncDispose]())

  test('two members that know each other learn of a third through the one that meets it', async () => {
    const a = await bench.member(mesh, 'node', { name: 'a' })
    const b = await bench.member(mesh, 'node', { name: 'b' })
    const hub = await bench.member(mesh, 'hub', { name: 'laptop' })
    await hub.connect(addressOf(a), soon())

    await hub.connect(addressOf(b), soon())

    const all = (names: readonly string[]): boolean => names.length === 3
    await Promise.all([membersMatch(a, all), membersMatch(b, all), membersMatch(hub, all)])
    const address = addressOf(b).replace(/\/p2p\/.*/, '')
    await membersFit(a, (members) => members.some((member) => member.addresses.includes(address)))
    const known = a.members().find((member) => member.name === 'b')
    expect(known?.addresses).toEqual([address])
    expect(known?.machinePeerId).toBe(b.self.peerId)
  })

  test('a member that was learnt of can be wanted and is dialled at its address', async () => {
    const a = await bench.member(mesh, 'node', { name: 'a' })
    const b = await bench.member(mesh, 'node', { name: 'b' })
    await a.connect(addressOf(b), soon())
    const hub = await bench.member(mesh, 'hub')
    const up = peerUp(hub, (peer) => peer.name === 'b')
    hub.want(b.self.peerId)
    expect(hub.connected()).toEqual([])

    await hub.connect(addressOf(a), soon())

    expect((await up).peerId).toBe(b.self.peerId)
  })

  test('is there after a restart, with when a member was last seen', async () => {
    const home = await bench.home()
    const node = await bench.member(mesh, 'node', { name: 'vm1' })
    const hub = await bench.member(mesh, 'hub', { home })
    await hub.connect(addressOf(node), soon())
    await membersMatch(hub, (names) => names.includes('vm1'))
    await hub.close()

    const again = await bench.member(mesh, 'hub', { home })

    const vm1 = again.members().find((member) => member.name === 'vm1')
    expect(vm1?.lastSeenAtMs).toBeGreaterThan(Date.now() - 60_000)
  })

  test('processes of one home learn of each other’s members through its files', async () => {
    const home = await bench.home()
    const node = await bench.member(mesh, 'node', { name: 'vm1' })
    const hub = await bench.member(mesh, 'hub', { home })
    const sibling = await bench.member(mesh, 'hub', { home })
    await hub.connect(addressOf(node), soon())

    await membersMatch(sibling, (names) => names.includes('vm1'))

    expect(sibling.connected()).toEqual([])
  })

  describe('by itself', () => {
    let home: Home
    let roster: Roster

    beforeEach(async () => {
      home = await bench.home()
      roster = await Roster.load(
        home.mesh,
        openersFor(mesh.id, { openMembership: (envelope) => openMembership(envelope, { meshId: mesh.id }) }),
      )
      bench.defer(() => roster.close())
    })

    test('keeps the newest membership and the newest addresses, whatever the order they come in', async () => {
      const key = await generateKey()
      const [older, newer] = [await mesh.membership(key, { name: 'old' }), await mesh.membership(key, { name: 'new' })]
      const records = [await addresses(key, 1), await addresses(key, 3), await addresses(key, 2)]

      const news: boolean[] = []
      for (const membership of [newer, older]) {
        for (const record of records) news.push(await roster.take({ membership, addressRecords: [record] }))
      }

      expect(news).toEqual([true, true, false, false, false, false])
      expect(roster.members()).toMatchObject([{ name: 'new', addresses: ['/ip4/192.0.2.3/tcp/4701'] }])
    })

    test('takes nothing that does not prove itself', async () => {
      const key = await generateKey()
      const foreign = await TestMesh.create()
      const membership = await mesh.membership(key)
      const broken = membership.slice()
      broken[40] = (broken[40] ?? 0) ^ 1

      const offers = [
        { membership: await foreign.membership(key), addressRecords: [] },
        { membership: await foreign.membership(key, { meshId: mesh.id, issuerId: mesh.id }), addressRecords: [] },
        { membership: broken, addressRecords: [] },
        { membership, addressRecords: [membership] },
        { membership: new Uint8Array(0), addressRecords: [] },
      ]
      for (const offer of offers) await expect(roster.take(offer)).rejects.toMatchObject({ code: 'bad_signature' })

      expect(roster.members()).toEqual([])
    })

    test('takes the addresses of another process only from that process', async () => {
      const [machine, process] = [await generateKey(), await generateKey()]
      const offer = { membership: await mesh.membership(machine), addressRecords: [await addresses(process, 1)] }

      await roster.take(offer)
      expect(recordsOf(machine)).toEqual([])

      await roster.take(offer, { vouched: peerIdOf(process) })
      expect(recordsOf(machine)).toEqual([peerIdOf(process)])
      await roster.take({ ...offer, addressRecords: [await addresses(process, 2)] })
      expect(roster.entryOf(peerIdOf(machine))?.records.get(peerIdOf(process))?.body.seq).toBe(2)
    })

    test('keeps a bounded number of processes of one machine, and the machine’s own among them', async () => {
      const machine = await generateKey()
      const membership = await mesh.membership(machine)
      await roster.take({ membership, addressRecords: [await addresses(machine, 1)] })

      for (let index = 0; index < 20; index += 1) {
        const process = await generateKey()
        await roster.take({ membership, addressRecords: [await addresses(process, 1)] }, { vouched: peerIdOf(process) })
      }

      expect(recordsOf(machine)).toHaveLength(16)
      expect(recordsOf(machine)).toContain(peerIdOf(machine))
    })

    test('what is taken is on disk once it was taken', async () => {
      const key = await generateKey()

      await roster.take({
        membership: await mesh.membership(key, { name: 'vm1' }),
        addressRecords: [await addresses(key, 5)],
      })

      const again = await Roster.load(
        home.mesh,
        openersFor(mesh.id, { openMembership: (envelope) => openMembership(envelope, { meshId: mesh.id }) }),
      )
      expect(again.members()).toEqual(roster.members())
      await again.close()
    })

    function recordsOf(machine: Awaited<ReturnType<typeof generateKey>>): readonly string[] {
      return [...(roster.entryOf(peerIdOf(machine))?.records.keys() ?? [])]
    }

    function addresses(key: Awaited<ReturnType<typeof generateKey>>, seq: number): Promise<Uint8Array> {
      return signAddressRecord(key, {
        meshId: mesh.id,
        peerId: peerIdOf(key),
        kind: 'node',
        addresses: [`/ip4/192.0.2.${seq}/tcp/4701`],
        relays: [],
        seq,
      })
    }
  })
})

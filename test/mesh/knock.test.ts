import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { meshIssuer } from '../../src/identity/issuer-key.ts'
import { fingerprintOf, generateKey, peerIdOf } from '../../src/identity/keys.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import type { Home, IssuerBook } from '../../src/ports/home.ts'
import { addressOf, Bench, membersFit, TestMesh } from './support.ts'

let bench: Bench
let mesh: TestMesh
let book: IssuerBook
let issuer: MeshHost

beforeEach(async () => {
  bench = new Bench()
  mesh = await TestMesh.create()
  const home = await bench.home()
  book = home.issuer
  issuer = await issuerOf(mesh, home)
})

afterEach(() => bench[Symbol.asyncDispose]())

const issuerOf = (of: TestMesh, home: Home): Promise<MeshHost> =>
  bench.member(of, 'issuer', { home, more: { issuer: { book: home.issuer, signer: meshIssuer(of.key) } } })

async function newcomer(): Promise<{ readonly host: MeshHost; readonly peerId: string; readonly home: Home }> {
  const key = await generateKey()
  const home = await bench.home()
  return { host: await bench.start({ kind: 'node', key, home }), peerId: peerIdOf(key), home }
}

const knock = (more: Partial<Parameters<MeshHost['knock']>[0]> = {}): Parameters<MeshHost['knock']>[0] => ({
  address: addressOf(issuer),
  accepts: (meshId) => meshId === mesh.id,
  roles: ['node'],
  name: 'vm1',
  os: 'linux',
  arch: 'x64',
  signal: AbortSignal.timeout(10_000),
  ...more,
})

const approve = (peerId: string, name = 'vm1') =>
  book.answerKnock({ peerId, isApproved: true, roles: ['node'], name, atMs: Date.now() })

describe('a machine without an invite', () => {
  test('waits for an owner, and is a member once one has approved it', async () => {
    const { host, peerId, home } = await newcomer()

    await expect(host.knock(knock())).rejects.toMatchObject({ code: 'knock_pending' })
    const [waiting] = await book.knocks(Date.now())
    await approve(peerId)
    const membership = await host.knock(knock())

    expect(waiting).toMatchObject({ peerId, fingerprint: fingerprintOf(peerId), name: 'vm1', roles: ['node'] })
    expect(waiting?.address).toBe(host.listenAddresses()[0]?.split('/p2p/')[0])
    expect(membership).toMatchObject({ machinePeerId: peerId, name: 'vm1', roles: ['node'] })
    expect(await book.knocks(Date.now())).toEqual([])
    expect((await home.mesh.loadMembership())?.meshId).toBe(mesh.id)
    await membersFit(issuer, (members) => members.some((one) => one.machinePeerId === peerId))
    await expect.poll(() => issuer.connected().map((one) => one.peerId)).toEqual([peerId])
  })

  test('gets what the owner typed, whatever it asks for, also when it asks for something else later', async () => {
    const { host, peerId } = await newcomer()
    await expect(host.knock(knock({ name: 'harmless' }))).rejects.toMatchObject({ code: 'knock_pending' })

    const later = knock({ name: 'laptop', roles: ['hub', 'owner'] })
    await expect(host.knock(later)).rejects.toMatchObject({ code: 'knock_pending' })
    const [seen] = await book.knocks(Date.now())
    await approve(peerId, seen?.name)

    expect(seen).toMatchObject({ name: 'harmless', roles: ['node'] })
    expect(await host.knock(later)).toMatchObject({ name: 'harmless', roles: ['node'] })
  })

  test('gets the same membership again when its first answer was lost', async () => {
    const key = await generateKey()
    await approve(peerIdOf(key))
    const first = await bench.start({ kind: 'node', key })
    const one = await first.knock(knock())
    await first.close()

    const again = await bench.start({ kind: 'node', key })

    expect(await again.knock(knock())).toEqual(one)
  })

  test('is told when the owner said no', async () => {
    const { host, peerId, home } = await newcomer()
    await expect(host.knock(knock())).rejects.toMatchObject({ code: 'knock_pending' })

    await book.answerKnock({ peerId, isApproved: false, roles: [], name: '', atMs: Date.now() })

    await expect(host.knock(knock())).rejects.toMatchObject({ code: 'knock_denied', details: { refused: true } })
    expect(await home.mesh.loadMembership()).toBeUndefined()
  })

  test('asks with a name that steers a terminal, and none is shown', async () => {
    const { host } = await newcomer()

    await expect(host.knock(knock({ name: '\u001b[2Jlaptop' }))).rejects.toMatchObject({ code: 'knock_pending' })

    const [waiting] = await book.knocks(Date.now())
    expect(waiting).not.toHaveProperty('name')
  })

  test('says nothing to a mesh that is not the one it means, though its issuer is sound', async () => {
    const impostors = await TestMesh.create()
    const home = await bench.home()
    const impostor = await issuerOf(impostors, home)
    const { host, home: own } = await newcomer()

    await expect(host.knock(knock({ address: addressOf(impostor) }))).rejects.toMatchObject({
      code: 'wrong_mesh',
      details: { mesh_fingerprint: fingerprintOf(impostors.id) },
    })

    expect(await home.issuer.knocks(Date.now())).toEqual([])
    expect(await own.mesh.loadMembership()).toBeUndefined()
  })

  test('learns which mesh is at an address without saying anything of itself', async () => {
    const { host } = await newcomer()
    const at = { address: addressOf(issuer), os: 'linux', arch: 'x64', signal: AbortSignal.timeout(10_000) }

    expect(await host.meshAt(at)).toBe(mesh.id)
    expect(await book.knocks(Date.now())).toEqual([])
  })

  test('is not let in under a name that another machine got meanwhile', async () => {
    const { host, peerId } = await newcomer()
    await approve(peerId)
    await book.takeName('vm1', peerIdOf(await generateKey()))

    await expect(host.knock(knock())).rejects.toMatchObject({ code: 'name_taken' })
  })

  test('does not reach an issuer at a process that is none', async () => {
    const { host } = await newcomer()
    const node = await bench.member(mesh, 'node')

    await expect(host.knock(knock({ address: addressOf(node) }))).rejects.toMatchObject({ code: 'unreachable' })
  })
})

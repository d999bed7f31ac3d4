import { randomBytes } from 'node:crypto'
import { multiaddr } from '@multiformats/multiaddr'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openMembership } from '../../src/identity/envelopes.ts'
import type { Invite } from '../../src/identity/invites.ts'
import { meshIssuer } from '../../src/identity/issuer-key.ts'
import { fingerprintOf, generateKey, type PrivateKey } from '../../src/identity/keys.ts'
import type { JoinWish, MeshHost } from '../../src/mesh/peers.ts'
import type { Home, InviteRecord } from '../../src/ports/home.ts'
import { addressOf, Bench, memberOf, membersMatch, peerUp, soon, TestMesh } from './support.ts'

describe('join', () => {
  let bench: Bench
  let mesh: TestMesh
  let home: Home
  let issuer: MeshHost

  beforeEach(async () => {
    bench = new Bench()
    mesh = await TestMesh.create()
    home = await bench.home()
    issuer = await bench.member(mesh, 'issuer', {
      name: 'laptop',
      roles: ['owner', 'hub'],
      home,
      more: { issuer: { book: home.issuer, signer: meshIssuer(mesh.key) } },
    })
  })

  afterEach(() => bench[Symbol.asyncDispose]())

  test('makes a machine a member, which then says hello and is in the roster of both', async () => {
    const { joiner, joinerHome } = await newcomer()
    const greeted = peerUp(issuer)

    const membership = await joiner.join(await invite({ roles: ['node'], name: 'vm1' }), wish())

    expect(membership).toMatchObject({
      name: 'vm1',
      roles: ['node'],
      meshId: mesh.id,
      machinePeerId: joiner.self.peerId,
    })
    expect(joiner.self).toMatchObject({ name: 'vm1', roles: ['node'] })
    expect(await greeted).toMatchObject({ machinePeerId: joiner.self.peerId, kind: 'node' })
    const kept = await joinerHome.mesh.loadMembership()
    expect(await openMembership(kept?.membership ?? new Uint8Array(), { meshId: mesh.id })).toEqual(membership)
    await membersMatch(joiner, (names) => names.includes('laptop'))
    const [stored] = (await home.mesh.roster()).filter((record) => record.peerId === joiner.self.peerId)
    expect(stored?.addresses.map((record) => record.peerId)).toEqual([joiner.self.peerId])
    expect(issuer.members().find((member) => member.name === 'vm1')?.addresses).toEqual([
      addressOf(joiner).replace(/\/p2p\/.*/, ''),
    ])
    expect(issuer.refusals()).toEqual({})
  })

  test('takes the name that the joiner wants where the owner chose none', async () => {
    const { joiner } = await newcomer()

    const membership = await joiner.join(await invite({}), wish({ name: 'build-2' }))

    expect(membership.name).toBe('build-2')
  })

  test('tells who used an invite and when, and gives the user of it the same membership again', async () => {
    const key = await generateKey()
    const text = await invite({ name: 'vm1' })
    const { joiner } = await newcomer(key)
    const first = await joiner.join(text, wish())
    await joiner.close()

    const { joiner: again } = await newcomer(key)
    const { joiner: thief } = await newcomer()

    await expect(thief.join(text, wish({ name: 'vm2' }))).rejects.toMatchObject({
      code: 'invite_used',
      details: { used_by: fingerprintOf(key.publicKey), used_at_ms: first.issuedAtMs },
    })
    expect(await again.join(text, wish())).toEqual(first)
    expect(issuer.refusals()).toEqual({ invite_used: 1 })
  })

  test('of machines that race for one invite exactly one becomes a member', async () => {
    const text = await invite({})
    const joiners = await Promise.all([newcomer(), newcomer(), newcomer()])

    const outcomes = await Promise.allSettled(
      joiners.map(({ joiner }, index) => joiner.join(text, wish({ name: `racer-${index}` }))),
    )

    const codes = outcomes.map((outcome) => (outcome.status === 'fulfilled' ? 'joined' : outcome.reason.code))
    expect(codes.sort()).toEqual(['invite_used', 'invite_used', 'joined'])
    expect(issuer.members().filter((member) => member.name.startsWith('racer'))).toHaveLength(1)
  })

  test('refuses an invite after its time', async () => {
    const text = await invite({ createdAtMs: Date.now() - 20_000, expiresAtMs: Date.now() - 1_000 })
    const { joiner } = await newcomer()

    await expect(joiner.join(text, wish())).rejects.toMatchObject({ code: 'invite_expired' })
    expect(joiner.self.roles).toEqual([])
  })

  test('says that an invite expired rather than that nobody answered', async () => {
    const text = await invite({ createdAtMs: Date.now() - 20_000, expiresAtMs: Date.now() - 1_000 })
    await issuer.close()
    const { joiner } = await newcomer()

    await expect(joiner.join(text, wish())).rejects.toMatchObject({ code: 'invite_expired' })
  })

  test('names the addresses tried when the issuer is not there', async () => {
    const text = await invite({})
    await issuer.close()
    const { joiner } = await newcomer()

    await expect(joiner.join(text, wish())).rejects.toMatchObject({
      code: 'unreachable',
      details: { addresses: [`${text.addresses[0]}/p2p/${text.issuerPeerId}`] },
    })
  })

  test('refuses an invite that the issuer does not know, or with another secret', async () => {
    const known = await invite({})
    const { joiner } = await newcomer()

    await expect(joiner.join({ ...known, inviteId: '00'.repeat(16) }, wish())).rejects.toMatchObject({
      code: 'invite_invalid',
    })
    await expect(joiner.join({ ...known, secret: randomBytes(16) }, wish())).rejects.toMatchObject({
      code: 'invite_invalid',
    })
    expect(joiner.self.roles).toEqual([])
  })

  test('refuses an invite of another mesh', async () => {
    const { joiner } = await newcomer()
    const foreign = await TestMesh.create()

    await expect(joiner.join({ ...(await invite({})), meshId: foreign.id }, wish())).rejects.toMatchObject({
      code: 'wrong_mesh',
    })
  })

  test('a joiner takes no membership from an impostor that knows neither invite nor mesh key', async () => {
    const text = await invite({})
    const impostorHome = await bench.home()
    const foreign = await TestMesh.create()
    const { key, standing } = await memberOf(foreign, 'issuer')
    const book = { ...impostorHome.issuer, findInvite: async () => ({ ...record({}), secret: randomBytes(16) }) }
    const impostor = await bench.start({
      kind: 'issuer',
      key,
      standing,
      home: impostorHome,
      issuer: { book, signer: meshIssuer(foreign.key) },
    })
    const { joiner } = await newcomer()
    const misled = { ...text, issuerPeerId: impostor.self.peerId, addresses: [addressOf(impostor)] }

    await expect(joiner.join(misled, wish())).rejects.toMatchObject({ code: 'wrong_mesh' })
    await expect(joiner.join({ ...misled, meshId: foreign.id }, wish())).rejects.toMatchObject({
      code: 'invite_invalid',
    })
  })

  test('a name that another machine has does not cost the invite', async () => {
    await (await newcomer()).joiner.join(await invite({ name: 'vm1' }), wish())
    const text = await invite({})
    const { joiner } = await newcomer()

    await expect(joiner.join(text, wish({ name: 'vm1' }))).rejects.toMatchObject({ code: 'name_taken' })
    await expect(joiner.join(text, wish({ name: 'No Name' }))).rejects.toMatchObject({ code: 'invalid_argument' })
    expect((await joiner.join(text, wish({ name: 'vm2' }))).name).toBe('vm2')
  })

  test('an invite that replaces a member gives its name to the new machine', async () => {
    await (await newcomer()).joiner.join(await invite({ name: 'vm1' }), wish())
    const { joiner } = await newcomer()

    const membership = await joiner.join(await invite({ name: 'vm1', replaces: 'vm1' }), wish())

    expect(membership.name).toBe('vm1')
    expect(await home.issuer.ownerOfName('vm1')).toBe(joiner.self.peerId)
  })

  test('a member does not join again', async () => {
    const { joiner } = await newcomer()
    await joiner.join(await invite({ name: 'vm1' }), wish())

    await expect(joiner.join(await invite({}), wish({ name: 'vm2' }))).rejects.toMatchObject({ code: 'already_exists' })
  })

  test('a machine that joins without becoming a node says hello too, under a certificate of its own making', async () => {
    const joiner = await bench.start({ kind: 'cli', key: await generateKey() })
    const greeted = peerUp(issuer)

    await joiner.join(await invite({ roles: ['hub'], name: 'desk' }), wish())

    expect(await greeted).toMatchObject({
      name: 'desk',
      kind: 'cli',
      roles: ['hub'],
      machinePeerId: joiner.self.peerId,
    })
    expect(issuer.refusals()).toEqual({})
  })

  test('a machine that has joined knows at once all that its issuer knows, since the issuer may be gone a moment later', async () => {
    const other = await bench.member(mesh, 'node', { name: 'vm9' })
    await other.connect(addressOf(issuer), soon())
    await membersMatch(issuer, (names) => names.includes('vm9'))
    const joiner = await bench.start({ kind: 'cli', key: await generateKey() })

    await joiner.join(await invite({ roles: ['hub'], name: 'desk' }), wish())

    expect(joiner.members().find((member) => member.name === 'vm9')?.addresses).toEqual([
      addressOf(other).replace(/\/p2p\/.*/, ''),
    ])
  })

  test('a node that got no role of a node is not refused for saying hello as one', async () => {
    const { joiner } = await newcomer()

    await joiner.join(await invite({ roles: ['hub'], name: 'desk' }), wish())

    expect(issuer.refusals()).toEqual({})
    expect(joiner.self.roles).toEqual(['hub'])
  })

  test('a process that is no issuer takes no joiners', async () => {
    const node = await bench.member(mesh, 'node')
    const { joiner } = await newcomer()
    const text = { ...(await invite({})), issuerPeerId: node.self.peerId, addresses: [addressOf(node)] }

    await expect(joiner.join(text, wish())).rejects.toMatchObject({ code: 'unreachable' })
    const stranger = await bench.stranger()
    const connection = await stranger.dial(multiaddr(addressOf(node)))
    await expect(connection.newStream('/nfltr/join/1.0.0')).rejects.toThrow()
  })

  async function newcomer(key?: PrivateKey): Promise<{ joiner: MeshHost; joinerHome: Home }> {
    const joinerHome = await bench.home()
    const joiner = await bench.start({ kind: 'node', key: key ?? (await generateKey()), home: joinerHome })
    return { joiner, joinerHome }
  }

  function record(fields: Partial<InviteRecord>): InviteRecord {
    const nowMs = Date.now()
    return {
      inviteId: randomBytes(16).toString('hex'),
      secret: new Uint8Array(randomBytes(16)),
      roles: ['node'],
      createdAtMs: nowMs,
      expiresAtMs: nowMs + 60_000,
      ...fields,
    }
  }

  async function invite(fields: Partial<InviteRecord>): Promise<Invite> {
    const made = record(fields)
    await home.issuer.addInvite(made)
    const { inviteId, secret, expiresAtMs } = made
    const addresses = [addressOf(issuer).replace(/\/p2p\/.*/, '')]
    return { meshId: mesh.id, issuerPeerId: issuer.self.peerId, addresses, relays: [], inviteId, secret, expiresAtMs }
  }

  function wish(fields: { readonly name?: string } = {}): JoinWish {
    return { os: 'linux', arch: 'x64', signal: AbortSignal.timeout(10_000), ...fields }
  }
})

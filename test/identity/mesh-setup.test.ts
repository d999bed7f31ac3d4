import { describe, expect, test } from 'vitest'
import { certificateMaxMs, judgeClaimant } from '../../src/core/membership.ts'
import { openProcessCertificate } from '../../src/identity/envelopes.ts'
import { fingerprintOf, generateKey, peerIdOf } from '../../src/identity/keys.ts'
import { certifyProcess, createMesh, ensureKey, loadMachine } from '../../src/identity/mesh-setup.ts'
import type { Home } from '../../src/ports/home.ts'
import { openHome } from '../../src/store/home/home.ts'
import { temporaryHome } from '../store/home/temporary-home.ts'

const nowMs = 1_800_000_000_000

describe('mesh create', () => {
  test('makes this machine owner, hub and node of a mesh that is named by a new key', async () => {
    const home = temporaryHome()

    const created = await createMesh(home, { name: 'laptop', nowMs })

    const machine = await loadMachine(home)
    expect(created).toEqual({
      meshId: machine.meshId,
      meshFingerprint: fingerprintOf(machine.meshId),
      machine: 'laptop',
      peerId: machine.peerId,
      fingerprint: fingerprintOf(machine.peerId),
      roles: ['owner', 'hub', 'node'],
    })
    expect(machine.membership).toMatchObject({ name: 'laptop', serial: 1, issuedAtMs: nowMs, issuerId: created.meshId })
    expect((await home.mesh.roster()).map(({ peerId }) => peerId)).toEqual([created.peerId])
    expect(await home.mesh.seenTimeMs()).toBe(nowMs)
    // Three keys: the mesh's is nobody's transport identity.
    const ids = await Promise.all(
      (['machine', 'mesh', 'issuer'] as const).map(async (name) => peerIdOf(await ensureKey(home, name))),
    )
    expect(new Set(ids).size).toBe(3)
  })

  test('a second time is refused and changes nothing', async () => {
    const home = temporaryHome()
    const created = await createMesh(home, { name: 'laptop', nowMs })

    await expect(createMesh(home, { name: 'other', nowMs })).rejects.toMatchObject({
      code: 'already_exists',
      details: { mesh_id: created.meshId },
    })
    expect((await loadMachine(home)).membership.name).toBe('laptop')
  })

  test('a second time is refused for the same reason while the node of the first holds its keys', async () => {
    const home = temporaryHome()
    await createMesh(home, { name: 'laptop', nowMs })
    const held = await home.issuer.lock()

    try {
      await expect(createMesh(home, { name: 'other', nowMs })).rejects.toMatchObject({ code: 'already_exists' })
    } finally {
      await held.release()
    }
  })

  test('twice at once makes one mesh', async () => {
    const home = temporaryHome()
    const other = openHome({ home: home.root, env: {} })

    const both = await Promise.allSettled([home, other].map((each) => createMesh(each, { name: 'laptop', nowMs })))

    expect(both.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  test.each(['saveMember', 'raiseSeenTime', 'saveMembership'] as const)(
    'that was interrupted at %s is taken up with the same mesh key',
    async (step) => {
      const home = temporaryHome()
      const broken: Home = { ...home, mesh: { ...home.mesh, [step]: () => Promise.reject(new Error('power cut')) } }
      await expect(createMesh(broken, { name: 'laptop', nowMs })).rejects.toThrow('power cut')
      const meshId = peerIdOf(await ensureKey(home, 'mesh'))

      expect((await createMesh(home, { name: 'laptop', nowMs })).meshId).toBe(meshId)
    },
  )

  test('refuses what cannot be a name, and says so before anything is made', async () => {
    const home = temporaryHome()

    await expect(createMesh(home, { name: 'My Laptop', nowMs })).rejects.toMatchObject({ code: 'invalid_argument' })
    expect(await home.keys.load('mesh')).toBeUndefined()
  })
})

describe('a machine', () => {
  test('without a mesh is told what to do', async () => {
    await expect(loadMachine(temporaryHome())).rejects.toMatchObject({
      code: 'no_mesh',
      hint: expect.any(String) as string,
    })
  })

  test('whose key was swapped does not pass as a member', async () => {
    const home = temporaryHome()
    await createMesh(home, { name: 'laptop', nowMs })
    const thief = temporaryHome()
    await ensureKey(thief, 'machine')
    const stolen = await home.mesh.loadMembership()
    if (stolen === undefined) throw new Error('no membership')
    await thief.mesh.saveMembership(stolen)

    await expect(loadMachine(thief)).rejects.toMatchObject({ code: 'bad_certificate' })
  })
})

describe('a process certificate', () => {
  test('lets a hub of the machine speak for it, for its own key and kind only', async () => {
    const home = temporaryHome()
    await createMesh(home, { name: 'laptop', nowMs })
    const machine = await loadMachine(home)
    const hubPeerId = peerIdOf(await generateKey())
    const hub = { peerId: hubPeerId, kind: 'hub', hubId: 'h1', nowMs } as const

    const certificate = await openProcessCertificate(await certifyProcess(machine, hub), {
      machinePeerId: machine.peerId,
    })

    expect(certificate.expiresAtMs - certificate.issuedAtMs).toBe(certificateMaxMs)
    const claimant = {
      remotePeerId: hubPeerId,
      ownPeerId: 'me',
      meshId: machine.meshId,
      membership: machine.membership,
      certificate,
      claimedKind: 'hub',
      claimedHubId: 'h1',
      wallMs: nowMs,
    } as const
    expect(judgeClaimant(claimant)).toBeUndefined()
    expect(judgeClaimant({ ...claimant, remotePeerId: 'thief' })).toBe('bad_certificate')
    expect(judgeClaimant({ ...claimant, claimedHubId: 'h2' })).toBe('bad_certificate')
    expect(judgeClaimant({ ...claimant, claimedKind: 'issuer' })).toBe('bad_certificate')
    expect(judgeClaimant({ ...claimant, membership: { ...machine.membership, roles: ['node'] } })).toBe('wrong_role')
  })
})

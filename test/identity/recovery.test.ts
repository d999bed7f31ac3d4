import { describe, expect, test } from 'vitest'
import { openMembership } from '../../src/identity/envelopes.ts'
import { keyFromBytes, peerIdOf } from '../../src/identity/keys.ts'
import { createMesh, loadMachine } from '../../src/identity/mesh-setup.ts'
import { exportMeshKey, importMeshKey } from '../../src/identity/recovery.ts'
import { openRecovery } from '../../src/identity/recovery-file.ts'
import type { Home } from '../../src/ports/home.ts'
import { temporaryHome } from '../store/home/temporary-home.ts'

const nowMs = 1_800_000_000_000
const passphrase = 'correct horse battery staple'

async function owner(): Promise<{ readonly home: Home; readonly meshId: string }> {
  const home = await temporaryHome()
  const { meshId } = await createMesh(home, { name: 'laptop', nowMs })
  return { home, meshId }
}

// A passphrase costs half a second of a processor by design, and a test asks for up to five.
describe('a recovery file', { timeout: 60_000 }, () => {
  test('makes another machine an owner of the mesh, under a name of its own', async () => {
    const lost = await owner()
    const { text } = await exportMeshKey(lost.home, passphrase)
    const home = await temporaryHome()

    const made = await importMeshKey(home, { text, passphrase, name: 'desk', nowMs: nowMs + 1_000 })

    expect(made).toMatchObject({ meshId: lost.meshId, machine: 'desk', roles: ['hub', 'node', 'owner'] })
    const machine = await loadMachine(home)
    expect(machine.membership).toMatchObject({ issuerId: lost.meshId, name: 'desk', machinePeerId: machine.peerId })
    expect(machine.membership.serial).toBeGreaterThan((await loadMachine(lost.home)).membership.serial)
    const key = keyFromBytes((await home.keys.load('mesh')) ?? new Uint8Array())
    expect(peerIdOf(key)).toBe(lost.meshId)
    const names = await Promise.all(
      (await home.mesh.roster()).map(async ({ membership }) => (await openMembership(membership, machine)).name),
    )
    expect(names.toSorted()).toEqual(['desk', 'laptop'])
  })

  test('brings what was revoked with it', async () => {
    const lost = await owner()
    const list = { issuerId: lost.meshId, version: 7, envelope: new Uint8Array([1, 2, 3]) }
    await lost.home.mesh.saveRevocations(list)
    const { text } = await exportMeshKey(lost.home, passphrase)
    const home = await temporaryHome()

    await importMeshKey(home, { text, passphrase, name: 'desk', nowMs })

    expect(await home.mesh.revocations()).toEqual([list])
  })

  test('shows nothing of the key, and opens with no other passphrase', async () => {
    const lost = await owner()
    const { text } = await exportMeshKey(lost.home, passphrase)
    const key = Buffer.from((await lost.home.keys.load('mesh')) ?? [])

    expect(text).not.toContain(key.toString('base64').slice(4, 40))
    await expect(openRecovery(text, 'correct horse battery stapler')).rejects.toMatchObject({
      code: 'invalid_argument',
      details: { argument: 'passphrase' },
    })
  })

  test('is refused when any part of it was changed', async () => {
    const { home } = await owner()
    const { text } = await exportMeshKey(home, passphrase)
    const file = JSON.parse(text) as { kdf: object; cipher: object; payload: string; mesh_id: string }
    const altered = [
      { ...file, mesh_id: `${file.mesh_id}x` },
      { ...file, payload: `AAAA${file.payload.slice(4)}` },
      { ...file, kdf: { ...file.kdf, n: 2 ** 15 } },
      { ...file, kdf: { ...file.kdf, n: 2 ** 30 } },
      { ...file, kdf: { ...file.kdf, n: 65_535 } },
      { ...file, cipher: { ...file.cipher, tag: '' } },
      { ...file, nfltr: 'something' },
      {},
    ]

    for (const one of altered) {
      await expect(openRecovery(JSON.stringify(one), passphrase)).rejects.toMatchObject({ code: 'invalid_argument' })
    }
    await expect(openRecovery('not json', passphrase)).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  test('is not made with a passphrase that is too short, nor by a machine without the key', async () => {
    const { home } = await owner()

    await expect(exportMeshKey(home, 'short')).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(exportMeshKey(await temporaryHome(), passphrase)).rejects.toMatchObject({ code: 'not_owner' })
  })

  test('changes nothing on a machine of another mesh, or where the name belongs to a member', async () => {
    const lost = await owner()
    const other = await owner()
    const { text } = await exportMeshKey(lost.home, passphrase)
    const fresh = await temporaryHome()

    await expect(importMeshKey(other.home, { text, passphrase, name: 'desk', nowMs })).rejects.toMatchObject({
      code: 'wrong_mesh',
    })
    await expect(importMeshKey(lost.home, { text, passphrase, name: 'desk', nowMs })).rejects.toMatchObject({
      code: 'already_exists',
    })
    await expect(importMeshKey(fresh, { text, passphrase, name: 'laptop', nowMs })).rejects.toMatchObject({
      code: 'name_taken',
    })
    expect(await fresh.keys.load('mesh')).toBeUndefined()
    expect(await fresh.mesh.loadMembership()).toBeUndefined()
  })
})

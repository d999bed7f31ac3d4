import { NfltrError } from '../core/errors.ts'
import { isMachineName, type Role } from '../core/membership.ts'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import type { CertificateRecord, Home, RevocationRecord, RosterRecord, SuccessionRecord } from '../ports/home.ts'
import { signNew } from './admission.ts'
import { openMembership } from './envelopes.ts'
import { meshIssuer, openCertificates } from './issuer-key.ts'
import { fingerprintOf, keyFromBytes, keyToBytes, type PrivateKey, peerIdOf } from './keys.ts'
import { findMeshKey, keepMeshKey, loadMeshLine, meshClosed } from './mesh-keys.ts'
import { type CreatedMesh, ensureKey } from './mesh-setup.ts'
import { openRecovery, sealRecovery } from './recovery-file.ts'

/** The mesh key, and what its owner knows of the mesh: whom to find, what was revoked, and which serials were given. */
interface Recovery {
  readonly key: Uint8Array
  readonly serial: number
  readonly members: readonly RosterRecord[]
  readonly revocations: readonly RevocationRecord[]
  readonly certificates: readonly CertificateRecord[]
  /** Absent where the key of the mesh was never replaced. */
  readonly successions?: readonly SuccessionRecord[]
}

/** @throws {NfltrError} `not_owner` where the mesh key is not here; `mesh_closed`; `invalid_argument` for the passphrase */
export async function exportMeshKey(home: Home, passphrase: string): Promise<{ meshId: string; text: string }> {
  const own = await home.mesh.loadMembership()
  const line = own === undefined ? undefined : await loadMeshLine(home, own.meshId, own.successions)
  if (line?.dispute !== undefined) throw meshClosed(line.dispute)
  const key = line === undefined ? undefined : await findMeshKey(home, line)
  if (line === undefined || key === undefined) {
    throw new NfltrError('not_owner', 'The key of the mesh is not on this machine.', {
      hint: 'Export it on the machine that made the mesh, or that imported or replaced its key.',
    })
  }
  const members = await home.mesh.roster()
  const successions = await home.mesh.successions()
  const recovery: Recovery = {
    key: keyToBytes(key),
    serial: Math.max(0, ...members.map(({ serial }) => serial)),
    members,
    revocations: await home.mesh.revocations(),
    certificates: await home.mesh.certificates(),
    ...(successions.length === 0 ? {} : { successions }),
  }
  const { meshId } = line
  return { meshId, text: await sealRecovery(encodeRecord(recovery), { meshId, passphrase }) }
}

/**
 * Makes this machine an owner with the key of a mesh: one that is no member becomes one; one that is keeps its name.
 *
 * @throws {NfltrError} `invalid_argument` for file or passphrase; `already_exists` where a mesh key is here; `wrong_mesh` where
 *   the machine belongs to another; `name_taken`
 */
export async function importMeshKey(
  home: Home,
  given: { readonly text: string; readonly passphrase: string; readonly name: string; readonly nowMs: number },
): Promise<CreatedMesh> {
  const { meshId, payload } = await openRecovery(given.text, given.passphrase)
  const recovery = decodeRecord<Recovery>(payload)
  const key = keyFromBytes(recovery.key)
  const lock = await home.issuer.lock()
  try {
    const existing = await home.mesh.loadMembership()
    if (existing !== undefined && existing.meshId !== meshId) {
      throw new NfltrError(
        'wrong_mesh',
        `This machine belongs to mesh ${existing.meshId}, and the key is of another.`,
        {
          hint: 'Another mesh needs another home: --home DIR or NFLTR_HOME.',
        },
      )
    }
    await refuseKey(home, { key, meshId, recovery })
    const peerId = peerIdOf(await ensureKey(home, 'machine'))
    await ensureKey(home, 'issuer')
    await restoreDirectory(home, recovery)
    const own = await ownPlace(home, { meshId, peerId, name: given.name })
    await keepMeshKey(home, key)
    await home.issuer.takeName(own.name, peerId)
    const { envelope, membership } = await signNew(home.issuer, meshIssuer(key, meshId), {
      machinePeerId: peerId,
      name: own.name,
      roles: own.roles,
      nowMs: Math.max(given.nowMs, await home.mesh.seenTimeMs()),
      serialAbove: Math.max(recovery.serial, own.highestSerial),
    })
    const addresses = (await home.mesh.member(peerId))?.addresses ?? []
    await home.mesh.saveMember({ peerId, serial: membership.serial, membership: envelope, addresses })
    const kept = existing ?? { meshId, issuerCertificates: [], relays: [] }
    await home.mesh.saveMembership({ ...kept, membership: envelope })
    const fingerprints = { meshFingerprint: fingerprintOf(meshId), fingerprint: fingerprintOf(peerId) }
    return { meshId, machine: own.name, peerId, roles: own.roles, ...fingerprints }
  } finally {
    await lock.release()
  }
}

/** @throws {NfltrError} `already_exists`; `invalid_argument` for a key that was replaced; `bad_signature`, `mesh_closed` */
async function refuseKey(
  home: Home,
  given: { readonly key: PrivateKey; readonly meshId: string; readonly recovery: Recovery },
): Promise<void> {
  const { key, meshId, recovery } = given
  const shown = (recovery.successions ?? []).flatMap(({ envelope, conflict }) => [
    envelope,
    ...(conflict === undefined ? [] : [conflict]),
  ])
  const line = await loadMeshLine(home, meshId, shown)
  if (line.dispute !== undefined) throw meshClosed(line.dispute)
  const peerId = peerIdOf(key)
  if (!line.keys.includes(peerId)) {
    throw new NfltrError('bad_signature', 'The file names another mesh than its key.')
  }
  if (peerId !== line.current) {
    throw new NfltrError('invalid_argument', 'The key in the file was replaced: it lets nobody in any more.', {
      hint: 'Take a file that was exported after that, from the machine that replaced the key.',
      details: { argument: 'file' },
    })
  }
  if ((await findMeshKey(home, line)) !== undefined) {
    throw new NfltrError('already_exists', 'The mesh key is on this machine already.')
  }
}

/** What is newer here stays: the file may be old. */
async function restoreDirectory(home: Home, recovery: Recovery): Promise<void> {
  for (const record of recovery.successions ?? []) await home.mesh.saveSuccession(record)
  for (const record of recovery.members) {
    const known = await home.mesh.member(record.peerId)
    if (known === undefined || known.serial < record.serial) await home.mesh.saveMember(record)
  }
  for (const record of recovery.revocations) await home.mesh.saveRevocations(record)
  for (const record of recovery.certificates) await home.mesh.saveCertificate(record)
}

async function ownPlace(
  home: Home,
  self: { readonly meshId: string; readonly peerId: string; readonly name: string },
): Promise<{ readonly name: string; readonly roles: readonly Role[]; readonly highestSerial: number }> {
  const { meshId, peerId } = self
  const former = { meshId, meshKeys: (await loadMeshLine(home, meshId)).keys }
  const issuers = { ...former, certificates: await openCertificates(home, former) }
  const records = await home.mesh.roster()
  const opened = await Promise.all(
    records.map((record) => openMembership(record.membership, issuers).catch(() => undefined)),
  )
  const members = opened.filter((member) => member !== undefined)
  const own = members.find((member) => member.machinePeerId === peerId)
  const name = own?.name ?? self.name
  if (!isMachineName(name)) {
    throw new NfltrError('invalid_argument', `${JSON.stringify(name)} cannot be a machine's name.`, {
      hint: 'Choose one with --name: 1 to 63 of a-z, 0-9 and -.',
      details: { argument: '--name' },
    })
  }
  if (members.some((member) => member.name === name && member.machinePeerId !== peerId)) {
    throw new NfltrError('name_taken', `The name ${name} belongs to another machine of the mesh.`, {
      hint: 'Choose another with --name.',
      details: { name },
    })
  }
  const roles = [...new Set<Role>([...(own?.roles ?? ['hub', 'node']), 'owner'])]
  return { name, roles, highestSerial: Math.max(0, ...members.map((member) => member.serial)) }
}

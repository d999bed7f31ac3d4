import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { certificateMaxMs, isMachineName, type Membership, type PeerKind } from '../core/membership.ts'
import { countingKeys, type MeshLine } from '../core/mesh-line.ts'
import type { Home, KeyName, OwnMembership } from '../ports/home.ts'
import type { Random } from '../ports/random.ts'
import {
  type Issuers,
  openIssuerCertificate,
  openMembership,
  type SignedCertificate,
  signMembership,
  signProcessCertificate,
} from './envelopes.ts'
import { openCertificates } from './issuer-key.ts'
import { fingerprintOf, generateKey, keyFromBytes, keyToBytes, type PrivateKey, peerIdOf } from './keys.ts'
import { loadMeshLine } from './mesh-keys.ts'

export interface CreatedMesh {
  /** PeerId of the mesh key. */
  readonly meshId: string
  readonly meshFingerprint: string
  readonly machine: string
  readonly peerId: string
  readonly fingerprint: string
  readonly roles: readonly string[]
}

/**
 * Makes this machine the owner of a new mesh: its keys, its own membership with every role it needs, and the issuer's
 * book. An attempt that was interrupted is taken up where it ended, with the same mesh key.
 *
 * @throws {NfltrError} `already_exists` where this home belongs to a mesh; `key_held` where another process makes one
 */
export async function createMesh(
  home: Home,
  options: { readonly name: string; readonly nowMs: number; readonly random?: Random },
): Promise<CreatedMesh> {
  const { name, nowMs, random } = options
  if (!isMachineName(name)) {
    throw new NfltrError('invalid_argument', `${JSON.stringify(name)} cannot be a machine's name.`, {
      hint: 'Use 1 to 63 of a-z, 0-9 and -.',
      details: { argument: '--name' },
    })
  }
  // Its node holds the issuer's key while it runs: what there is to say of this home does not wait for that.
  await assertNoMesh(home)
  const lock = await home.issuer.lock()
  try {
    await assertNoMesh(home)
    await clearFormerMesh(home)
    const machineKey = await ensureKey(home, 'machine', random)
    await ensureKey(home, 'issuer', random)
    const meshKey = await ensureKey(home, 'mesh', random)
    const meshId = peerIdOf(meshKey)
    const peerId = peerIdOf(machineKey)
    await home.issuer.takeName(name, peerId)
    const membership: Membership = {
      meshId,
      issuerId: meshId,
      machinePeerId: peerId,
      name,
      roles: ['owner', 'hub', 'node'],
      issuedAtMs: nowMs,
      expiresAtMs: nowMs + limits.membershipTermMs,
      serial: await home.issuer.nextSerial(),
    }
    const envelope = await signMembership(meshKey, membership)
    await home.mesh.saveMember({ peerId, serial: membership.serial, membership: envelope, addresses: [] })
    await home.mesh.raiseSeenTime(nowMs)
    // Last: from here on this home has a mesh.
    await home.mesh.saveMembership({ meshId, membership: envelope, issuerCertificates: [], relays: [] })
    return {
      meshId,
      meshFingerprint: fingerprintOf(meshId),
      machine: name,
      peerId,
      fingerprint: fingerprintOf(peerId),
      roles: membership.roles,
    }
  } finally {
    await lock.release()
  }
}

async function assertNoMesh(home: Home): Promise<void> {
  const existing = await home.mesh.loadMembership()
  if (existing !== undefined) throw belongsTo(existing.meshId)
}

/** This machine as a member: its key and what its membership says. */
export interface Machine {
  readonly key: PrivateKey
  readonly peerId: string
  readonly meshId: string
  readonly membership: Membership
  /** Opened certificates of further owners, for checking other members. */
  readonly certificates: readonly SignedCertificate[]
  /** The mesh keys that count now. */
  readonly meshKeys: readonly string[]
  /** Every key of the mesh, as this home knows them. */
  readonly line: MeshLine
  readonly files: OwnMembership
}

/**
 * Reads this machine's key and membership, and checks that they belong together.
 *
 * @throws {NfltrError} `no_mesh` where this home belongs to none; `bad_signature`, `bad_certificate` where the files
 *   do not fit each other; `insecure_permissions`
 */
export async function loadMachine(home: Home): Promise<Machine> {
  const machine = await loadAnyMachine(home)
  if (await isLeaving(home, machine)) throw leaving()
  return machine
}

/** As `loadMachine`, also where the machine is about to leave its mesh. */
export async function loadAnyMachine(home: Home): Promise<Machine> {
  const files = await home.mesh.loadMembership()
  const bytes = await home.keys.load('machine')
  if (files === undefined || bytes === undefined) {
    throw new NfltrError('no_mesh', 'This machine belongs to no mesh.', {
      hint: 'Make one with `nfltr mesh create`, or join one with an invite.',
    })
  }
  const key = keyFromBytes(bytes)
  const { meshId } = files
  const line = await loadMeshLine(home, meshId, files.successions)
  // A key that was replaced since grants nothing, and what it signed still says which machine this is.
  const former: Issuers = { meshId, meshKeys: line.keys }
  const certificates = [...(await openCertificates(home, former))]
  for (const envelope of files.issuerCertificates) certificates.push(await openIssuerCertificate(envelope, former))
  const membership = await openMembership(files.membership, { ...former, certificates })
  const peerId = peerIdOf(key)
  if (membership.machinePeerId !== peerId) {
    throw new NfltrError('bad_certificate', "This machine's membership was made for another key.", {
      hint: 'Restore keys/machine.key from a copy, or join again.',
    })
  }
  const counting = certificates.filter(({ meshKey }) => meshKey === line.current)
  return { key, peerId, meshId, membership, certificates: counting, meshKeys: countingKeys(line), line, files }
}

/** Whether this machine has given its membership up, and what it knew of the mesh is still to be removed. */
export async function isLeaving(home: Home, machine: Pick<Machine, 'peerId' | 'membership'>): Promise<boolean> {
  const { peerId, membership } = machine
  const departures = await home.mesh.departures()
  return departures.some(({ machinePeerId, serial }) => machinePeerId === peerId && serial >= membership.serial)
}

function leaving(): NfltrError {
  return new NfltrError('no_mesh', 'This machine has left its mesh, and was interrupted at it.', {
    hint: 'Finish with: nfltr node leave',
  })
}

/**
 * Removes what an earlier mesh left behind in a home of no mesh, where whoever removed it was killed in the middle.
 *
 * @throws {NfltrError} `no_mesh` while a departure is not finished
 */
export async function clearFormerMesh(home: Home): Promise<void> {
  if ((await home.mesh.loadMembership()) === undefined) await home.mesh.forget()
  else if (await isLeaving(home, await loadAnyMachine(home))) throw leaving()
}

/** Reads a key of this home, making it first where there is none; safe against another process that does the same. */
export async function ensureKey(home: Home, name: KeyName, random?: Random): Promise<PrivateKey> {
  const found = await home.keys.load(name)
  if (found !== undefined) return keyFromBytes(found)
  const made = await generateKey(random)
  try {
    await home.keys.create(name, keyToBytes(made))
    return made
  } catch (error) {
    if (!(error instanceof NfltrError) || error.code !== 'already_exists') throw error
    const other = await home.keys.load(name)
    if (other === undefined) throw error
    return keyFromBytes(other)
  }
}

/** Lets a process of this machine speak for it, for at most 30 days (rule 10). */
export function certifyProcess(
  machine: { readonly key: PrivateKey; readonly meshId: string },
  process: { readonly peerId: string; readonly kind: PeerKind; readonly hubId?: string; readonly nowMs: number },
): Promise<Uint8Array> {
  const { peerId, kind, hubId, nowMs } = process
  return signProcessCertificate(machine.key, {
    meshId: machine.meshId,
    machinePeerId: peerIdOf(machine.key),
    processPeerId: peerId,
    kind,
    issuedAtMs: nowMs,
    expiresAtMs: nowMs + certificateMaxMs,
    ...(hubId === undefined ? {} : { hubId }),
  })
}

function belongsTo(meshId: string): NfltrError {
  return new NfltrError('already_exists', `This machine belongs to mesh ${meshId} already.`, {
    hint: 'See `nfltr mesh show`; another mesh needs another NFLTR_HOME.',
    details: { mesh_id: meshId },
  })
}

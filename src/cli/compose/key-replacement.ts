import { NfltrError } from '../../core/errors.ts'
import { loadIssuerKey } from '../../identity/issuer-key.ts'
import { fingerprintOf } from '../../identity/keys.ts'
import { ensureSuccessorKey } from '../../identity/mesh-keys.ts'
import { loadMachine } from '../../identity/mesh-setup.ts'
import type { KeyChange } from '../../mesh/replacing-key.ts'
import type { Home } from '../../ports/home.ts'
import type { Context } from '../compose.ts'
import { openMeshProcess } from './mesh-process.ts'
import { listenFirstMs, otherMembers, whoHeard } from './revocation.ts'
import { untilHeard } from './until-heard.ts'

type Document = Readonly<Record<string, unknown>>

/**
 * `nfltr mesh key replace`: puts another key in the place of the mesh key, for when somebody else may have that. Every member
 * that is known here stays one, and hears of it from whoever it meets.
 *
 * @throws {NfltrError} `not_owner` where the mesh key is not here; `mesh_closed` where it has named another key; `queue_full`
 */
export async function replaceKey(context: Context, home: Home): Promise<Document> {
  const former = await loadIssuerKey(home)
  if (!former.isMeshKey) {
    throw new NfltrError('not_owner', 'Only the key of the mesh names its successor, and it is not on this machine.', {
      hint: 'Bring it here first, from its recovery file: nfltr mesh key import FILE',
    })
  }
  const around = await openMeshProcess(context, { home, kind: 'cli' })
  try {
    const { mesh, machine } = around
    // Who was let in or revoked elsewhere is not to be forgotten.
    await untilHeard(mesh, otherMembers(mesh, machine.peerId), () => true, { withinMs: listenFirstMs, firstPassMs: 0 })
    const { line } = await loadMachine(home)
    const isBegun = line.keys.length > 1 && !(await hasList(home, former.issuerId))
    const change: KeyChange = {
      predecessor: isBegun ? undefined : former,
      successor: isBegun ? former.key : await ensureSuccessorKey(home, line),
      members: await home.mesh.roster(),
    }
    const replaced = await mesh.replaceKey(home.issuer, change)
    const { signer, version, carried, formerOwners, leftOut } = replaced
    const told = await whoHeard({ mesh, machine }, { issuerId: signer.issuerId, version })
    return {
      mesh_id: machine.meshId,
      mesh_fingerprint: fingerprintOf(machine.meshId),
      mesh_key_fingerprint: fingerprintOf(signer.issuerId),
      members: carried.map(({ name, machinePeerId, roles }) => ({ name, peer_id: machinePeerId, roles })),
      former_owners: formerOwners,
      left_out: leftOut,
      ...told,
    }
  } finally {
    await around.close()
  }
}

/** The first list of a key goes out last: without it, whoever replaced the one before was interrupted. */
async function hasList(home: Home, issuerId: string): Promise<boolean> {
  return (await home.mesh.revocations()).some((record) => record.issuerId === issuerId)
}

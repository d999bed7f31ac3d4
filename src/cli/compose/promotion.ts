import { NfltrError } from '../../core/errors.ts'
import { loadIssuerKey } from '../../identity/issuer-key.ts'
import { onlyMeshKey } from '../../mesh/owners.ts'
import type { Home } from '../../ports/home.ts'
import type { Context } from '../compose.ts'
import { findMember } from './find-member.ts'
import { openMeshProcess } from './mesh-process.ts'
import { membershipDocument } from './renewing.ts'
import { untilHeard } from './until-heard.ts'

type Document = Readonly<Record<string, unknown>>

/**
 * `nfltr mesh promote`: makes a member an owner beside this one. It signs with its own key, under a certificate of the mesh
 * key (rule 17).
 *
 * @throws {NfltrError} `not_owner` where the mesh key is not here; `not_found`, `revoked`, `invalid_argument` for this machine
 */
export async function promoteMember(context: Context, home: Home, name: string): Promise<Document> {
  const signer = await loadIssuerKey(home)
  if (!signer.isMeshKey) throw onlyMeshKey()
  const around = await openMeshProcess(context, { home, kind: 'cli' })
  try {
    const { mesh, machine } = around
    const member = findMember(mesh.members(), name)
    const { machinePeerId } = member
    if (machinePeerId === machine.peerId) {
      throw new NfltrError('invalid_argument', 'This machine is an owner already: it has the mesh key.', {
        details: { argument: 'name' },
      })
    }
    const roles = [...new Set([...member.roles, 'owner' as const])]
    const promoted = await mesh.renew({ book: home.issuer, signer }, { machinePeerId, roles })
    const heard = await untilHeard(mesh, [machinePeerId], (said) => said.ownSerial >= promoted.serial)
    return { promoted: membershipDocument(promoted), delivered: heard.has(machinePeerId) }
  } finally {
    await around.close()
  }
}

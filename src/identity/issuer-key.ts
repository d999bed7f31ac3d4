import { NfltrError } from '../core/errors.ts'
import { countingKeys, type MeshLine } from '../core/mesh-line.ts'
import type { Home } from '../ports/home.ts'
import { type Issuers, openIssuerCertificate, type SignedCertificate } from './envelopes.ts'
import { keyFromBytes, type PrivateKey, peerIdOf } from './keys.ts'
import { findMeshKey, loadMeshLine, meshClosed } from './mesh-keys.ts'

/** What signs memberships and revocations in the name of one issuer: the mesh key, or the key of a further owner. */
export interface IssuerKey {
  readonly meshId: string
  /** The PeerId of the mesh key, which is the mesh's id unless it was replaced; for a further owner that of its machine. */
  readonly issuerId: string
  readonly key: PrivateKey
  /** Only the mesh key makes owners, and names a successor. */
  readonly isMeshKey: boolean
}

/** The mesh key as an issuer: the first one, or one that took its place. */
export function meshIssuer(key: PrivateKey, meshId: string = peerIdOf(key)): IssuerKey {
  return { meshId, issuerId: peerIdOf(key), key, isMeshKey: true }
}

/** Who may sign, as far as this issuer's own memberships go. */
export function issuersOf({ meshId, issuerId, key, isMeshKey }: IssuerKey): Issuers {
  if (isMeshKey) return { meshId, meshKeys: [issuerId] }
  const always = { issuedAtMs: 0, expiresAtMs: Number.MAX_SAFE_INTEGER }
  return { meshId, certificates: [{ meshId, issuerId, keyPeerId: peerIdOf(key), ...always }] }
}

/**
 * The key with which this home issues: the mesh key where it is here, else the machine's key where a certificate of the
 * mesh key lets it (rule 17).
 *
 * @throws {NfltrError} `not_owner` where neither is so; `mesh_closed`; `insecure_permissions`
 */
export async function loadIssuerKey(home: Home): Promise<IssuerKey> {
  const found = await findIssuerKey(home)
  if (found !== undefined) return found
  const own = await home.mesh.loadMembership()
  const dispute = own === undefined ? undefined : (await loadMeshLine(home, own.meshId, own.successions)).dispute
  if (dispute !== undefined) throw meshClosed(dispute)
  throw new NfltrError('not_owner', 'This machine is no owner of the mesh: it has neither its key nor a certificate.', {
    hint: 'Run it on a machine whose `nfltr mesh show` says is_owner.',
  })
}

/** As `loadIssuerKey`; `undefined` on a machine that owns nothing. */
export async function findIssuerKey(home: Home): Promise<IssuerKey | undefined> {
  const own = await home.mesh.loadMembership()
  if (own === undefined) {
    const bytes = await home.keys.load('mesh')
    return bytes === undefined ? undefined : meshIssuer(keyFromBytes(bytes))
  }
  const { meshId } = own
  const line = await loadMeshLine(home, meshId, own.successions)
  const meshKey = await findMeshKey(home, line)
  if (meshKey !== undefined) return meshIssuer(meshKey, meshId)
  const machineKey = await home.keys.load('machine')
  if (machineKey === undefined) return undefined
  const key = keyFromBytes(machineKey)
  const certificate = await certificateOf(home, { line, keyPeerId: peerIdOf(key), nowMs: Date.now() })
  return certificate === undefined ? undefined : { meshId, issuerId: certificate.issuerId, key, isMeshKey: false }
}

async function certificateOf(
  home: Home,
  of: { readonly line: MeshLine; readonly keyPeerId: string; readonly nowMs: number },
): Promise<SignedCertificate | undefined> {
  const { line, keyPeerId, nowMs } = of
  const certificates = await openCertificates(home, { meshId: line.meshId, meshKeys: countingKeys(line) })
  return certificates.find((certificate) => certificate.keyPeerId === keyPeerId && certificate.expiresAtMs >= nowMs)
}

/** Every certificate of a further owner that this home keeps; one that does not prove itself is passed over. */
export async function openCertificates(
  home: Home,
  expected: Pick<Issuers, 'meshId' | 'meshKeys'>,
): Promise<readonly SignedCertificate[]> {
  const opened: SignedCertificate[] = []
  for (const { envelope } of await home.mesh.certificates()) {
    try {
      opened.push(await openIssuerCertificate(envelope, expected))
    } catch (error) {
      if (!(error instanceof NfltrError)) throw error
    }
  }
  return opened
}

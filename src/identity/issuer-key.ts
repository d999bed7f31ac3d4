import { NfltrError } from '../core/errors.ts'
import type { Home } from '../ports/home.ts'
import type { IssuerCertificate } from '../wire/record-codec.ts'
import { type Issuers, openIssuerCertificate } from './envelopes.ts'
import { keyFromBytes, type PrivateKey, peerIdOf } from './keys.ts'

/** What signs memberships and revocations in the name of one issuer: the mesh key, or the key of a further owner. */
export interface IssuerKey {
  readonly meshId: string
  /** The mesh's id for the mesh key; for a further owner the PeerId of its machine. */
  readonly issuerId: string
  readonly key: PrivateKey
}

/** The mesh key as an issuer. */
export function meshIssuer(key: PrivateKey): IssuerKey {
  const meshId = peerIdOf(key)
  return { meshId, issuerId: meshId, key }
}

/** Who may sign, as far as this issuer's own memberships go. */
export function issuersOf({ meshId, issuerId, key }: IssuerKey): Issuers {
  if (issuerId === meshId) return { meshId }
  const always = { issuedAtMs: 0, expiresAtMs: Number.MAX_SAFE_INTEGER }
  return { meshId, certificates: [{ meshId, issuerId, keyPeerId: peerIdOf(key), ...always }] }
}

/**
 * The key with which this home issues: the mesh key where it is here, else the machine's key where a certificate of the
 * mesh key lets it (rule 17).
 *
 * @throws {NfltrError} `not_owner` where neither is so; `insecure_permissions`
 */
export async function loadIssuerKey(home: Home): Promise<IssuerKey> {
  const found = await findIssuerKey(home)
  if (found !== undefined) return found
  throw new NfltrError('not_owner', 'This machine is no owner of the mesh: it has neither its key nor a certificate.', {
    hint: 'Run it on a machine whose `nfltr mesh show` says is_owner.',
  })
}

/** As `loadIssuerKey`; `undefined` on a machine that owns nothing. */
export async function findIssuerKey(home: Home): Promise<IssuerKey | undefined> {
  const meshKey = await home.keys.load('mesh')
  if (meshKey !== undefined) return meshIssuer(keyFromBytes(meshKey))
  const own = await home.mesh.loadMembership()
  const machineKey = await home.keys.load('machine')
  if (own === undefined || machineKey === undefined) return undefined
  const key = keyFromBytes(machineKey)
  const certificate = await certificateOf(home, { meshId: own.meshId, keyPeerId: peerIdOf(key), nowMs: Date.now() })
  return certificate === undefined ? undefined : { meshId: own.meshId, issuerId: certificate.issuerId, key }
}

async function certificateOf(
  home: Home,
  of: { readonly meshId: string; readonly keyPeerId: string; readonly nowMs: number },
): Promise<IssuerCertificate | undefined> {
  for (const certificate of await openCertificates(home, of.meshId)) {
    if (certificate.keyPeerId === of.keyPeerId && certificate.expiresAtMs >= of.nowMs) return certificate
  }
  return undefined
}

/** Every certificate of a further owner that this home keeps; one that does not prove itself is passed over. */
export async function openCertificates(home: Home, meshId: string): Promise<readonly IssuerCertificate[]> {
  const opened: IssuerCertificate[] = []
  for (const { envelope } of await home.mesh.certificates()) {
    try {
      opened.push(await openIssuerCertificate(envelope, { meshId }))
    } catch (error) {
      if (!(error instanceof NfltrError)) throw error
    }
  }
  return opened
}

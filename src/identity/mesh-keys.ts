import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { type MeshLine, meshLine } from '../core/mesh-line.ts'
import type { Home, KeyName } from '../ports/home.ts'
import { openSuccession } from './envelopes.ts'
import { fingerprintOf, generateKey, keyFromBytes, keyToBytes, type PrivateKey, peerIdOf } from './keys.ts'

/**
 * The keys of a mesh as this home knows them.
 *
 * @param more - envelopes of successions beside those that the home keeps; what does not prove itself is passed over
 * @throws {NfltrError} `store_damaged` where a kept one does not read: that a key was replaced must not be forgotten
 */
export async function loadMeshLine(
  home: Pick<Home, 'mesh'>,
  meshId: string,
  more: readonly Uint8Array[] = [],
): Promise<MeshLine> {
  const kept = await home.mesh.successions()
  const envelopes = kept.flatMap(({ envelope, conflict }) =>
    conflict === undefined ? [envelope] : [envelope, conflict],
  )
  return await lineOf(meshId, [...envelopes, ...more])
}

/** The keys of a mesh as these successions name them; what does not prove itself is passed over. */
export async function lineOf(meshId: string, envelopes: readonly Uint8Array[]): Promise<MeshLine> {
  const opened = await Promise.all(
    envelopes.map((envelope) =>
      openSuccession(envelope, { meshId }).catch((error: unknown) => {
        if (error instanceof NfltrError) return undefined
        throw error
      }),
    ),
  )
  return meshLine(
    meshId,
    opened.filter((one) => one !== undefined),
  )
}

/** Keys are never overwritten: each key of a mesh has a file of its own. */
const meshKeyNames: readonly KeyName[] = [
  'mesh',
  'mesh-1',
  'mesh-2',
  'mesh-3',
  'mesh-4',
  'mesh-5',
  'mesh-6',
  'mesh-7',
  'mesh-8',
]

/**
 * The mesh key that signs now, where it is in this home.
 *
 * @throws {NfltrError} `insecure_permissions`
 */
export async function findMeshKey(home: Pick<Home, 'keys'>, line: MeshLine): Promise<PrivateKey | undefined> {
  for (const key of await meshKeysHere(home)) if (peerIdOf(key) === line.current) return key
  return undefined
}

/** Every mesh key of this home, former ones too. @throws {NfltrError} `insecure_permissions` */
export async function meshKeysHere(home: Pick<Home, 'keys'>): Promise<readonly PrivateKey[]> {
  const keys: PrivateKey[] = []
  for (const name of meshKeyNames) {
    const bytes = await home.keys.load(name)
    if (bytes !== undefined) keys.push(keyFromBytes(bytes))
  }
  return keys
}

/** Keeps a mesh key in this home beside those that are there. @throws {NfltrError} `already_exists` where there is no room */
export async function keepMeshKey(home: Pick<Home, 'keys'>, key: PrivateKey): Promise<void> {
  const name = await freeName(home)
  await home.keys.create(name, keyToBytes(key))
}

/**
 * A key to put in the place of the mesh key, on disk when it resolves. One that was made before and never named is taken again, so
 * that whoever was interrupted names no second one.
 *
 * @throws {NfltrError} `queue_full` where the key of the mesh was replaced as often as may be
 */
export async function ensureSuccessorKey(home: Pick<Home, 'keys'>, line: MeshLine): Promise<PrivateKey> {
  if (line.keys.length > limits.successionsMax) {
    throw new NfltrError('queue_full', `The key of a mesh is replaced at most ${limits.successionsMax} times.`, {
      hint: 'Make a new mesh: nfltr mesh create, in another home.',
    })
  }
  const here = await meshKeysHere(home)
  // One from before the key that signs now was made for something else.
  const after = here.slice(here.findIndex((key) => peerIdOf(key) === line.current) + 1)
  const unused = after.find((key) => !line.keys.includes(peerIdOf(key)))
  if (unused !== undefined) return unused
  const name = await freeName(home)
  await home.keys.create(name, keyToBytes(await generateKey())).catch((error: unknown) => {
    // Another process of this home has made one meanwhile.
    if (!(error instanceof NfltrError) || error.code !== 'already_exists') throw error
  })
  const bytes = await home.keys.load(name)
  if (bytes === undefined) throw new NfltrError('store_damaged', `The key ${name} was written and is not there.`)
  return keyFromBytes(bytes)
}

async function freeName(home: Pick<Home, 'keys'>): Promise<KeyName> {
  for (const name of meshKeyNames) if ((await home.keys.load(name)) === undefined) return name
  throw new NfltrError('already_exists', 'This home has as many keys of the mesh as it may have.')
}

/** Why nothing of a mesh counts whose line of keys is disputed. */
export function meshClosed({ keyPeerId, successors }: NonNullable<MeshLine['dispute']>): NfltrError {
  const named = successors.map(fingerprintOf)
  return new NfltrError(
    'mesh_closed',
    'The key of the mesh named two different successors: nothing of it counts any more.',
    {
      hint: 'Somebody else has the key. Make a new mesh, and let the machines in anew: docs/operating/lost-laptop.md',
      details: { mesh_key: fingerprintOf(keyPeerId), successors: named },
    },
  )
}

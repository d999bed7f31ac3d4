import { signAddressRecord } from '../identity/envelopes.ts'
import { peerIdOf } from '../identity/keys.ts'
import { startHost } from './host.ts'
import type { BorrowedKey, MeshOptions } from './mesh-options.ts'
import { Quarantine } from './quarantine.ts'
import type { Asking } from './renewal.ts'

/**
 * A host under the machine's key, only to ask an issuer on: whoever is no node may be a member by its machine alone, and only the
 * machine's key gets its machine a membership (rule 11). It says no hello and answers none.
 */
export async function askAsMachine(
  borrowed: BorrowedKey,
  mesh: Pick<MeshOptions, 'clock' | 'random' | 'softwareVersion'>,
): Promise<Asking> {
  const { key, giveBack } = borrowed
  const { clock, random, softwareVersion } = mesh
  const ownPeerId = peerIdOf(key)
  try {
    const host = await startHost({
      key,
      kind: 'cli',
      listen: [],
      clock,
      quarantine: new Quarantine({
        clock,
        ownPeerId,
        isMemberHost: () => false,
        isLinked: () => false,
        onRefusal: () => undefined,
      }),
      prepare: async () => undefined,
    })
    return {
      host,
      options: {
        host,
        clock,
        random,
        ownPeerId,
        softwareVersion,
        signAddresses: (meshId) =>
          signAddressRecord(key, {
            meshId,
            peerId: ownPeerId,
            kind: 'cli',
            addresses: [],
            relays: [],
            seq: clock.wallMs(),
          }),
      },
      close: async () => {
        await host.stop()
        await giveBack()
      },
    }
  } catch (error) {
    await giveBack()
    throw error
  }
}

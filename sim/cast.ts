import type { MemberFacts, PeerFacts } from '../src/ports/peers.ts'
import type { DiskRecords } from '../src/store/disk-records.ts'
import { calmDisk, type DiskMood } from './store.ts'
import { WatchedDisk } from './watched-disk.ts'
import type { World } from './world.ts'

/**
 * What every simulated process is made of: the world, an empty disk of its own, and how that behaves.
 *
 * @param records - where the disk has what is written to it; undefined: in memory
 */
export function partsOf(
  world: World,
  name: string,
  records?: DiskRecords,
): { world: World; disk: WatchedDisk; mood: DiskMood } {
  return { world, disk: diskOf(world, name, records), mood: { ...calmDisk, isFull: false } }
}

export function factsOf(name: string, kind: 'hub' | 'node', hubId?: string): PeerFacts {
  return {
    peerId: kind === 'hub' ? `peer-${name}-process` : `peer-${name}`,
    machinePeerId: `peer-${name}`,
    name,
    kind,
    roles: [kind],
    ...(hubId === undefined ? {} : { hubId }),
    softwareVersion: '0.1.0',
    path: 'lan',
  }
}

export function memberOf(name: string, kind: 'hub' | 'node'): MemberFacts {
  return {
    machinePeerId: `peer-${name}`,
    name,
    roles: [kind],
    addresses: [],
    issuedAtMs: 0,
    expiresAtMs: Date.UTC(2036, 0, 1),
  }
}

function diskOf(world: World, name: string, records: DiskRecords | undefined): WatchedDisk {
  const id = [...world.random(`store/${name}`).bytes(16)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return new WatchedDisk({ storeId: id, incarnation: 1 }, records)
}

import { decodeRecord } from '../src/core/record-json.ts'
import type { LaneRecord } from '../src/core/session-lane.ts'
import type { MemoryDisk } from '../src/store/memory-disk.ts'
import type { DeedsLedger } from './deeds.ts'
import type { HubProcess } from './hub-process.ts'
import type { NodeProcess } from './node-process.ts'
import type { Workload } from './workload.ts'
import type { World } from './world.ts'

/** Everything that is in a simulated world, for checks to look at. */
export interface Scene {
  readonly world: World
  readonly hubs: readonly HubProcess[]
  readonly nodes: readonly NodeProcess[]
  readonly workloads: readonly Workload[]
  readonly deeds: DeedsLedger
}

/** Records on a disk are written whole and never changed: each is read once. */
const decoded = new WeakMap<Uint8Array, unknown>()

function read<T>(bytes: Uint8Array): T {
  const known = decoded.get(bytes)
  if (known !== undefined) return known as T
  const value = decodeRecord<T>(bytes)
  decoded.set(bytes, value)
  return value
}

/** The record under a key, as it is on disk. */
export function recordOn<T>(disk: MemoryDisk, key: string): T | undefined {
  const bytes = disk.read(key)
  return bytes === undefined ? undefined : read<T>(bytes)
}

/** All records under a prefix, as they are on disk: what a process would find if it were started now. */
export function recordsOn<T>(disk: MemoryDisk, prefix: string): readonly { readonly key: string; readonly value: T }[] {
  const found: { key: string; value: T }[] = []
  for (const key of disk.keys(prefix, `${prefix}\x7f`)) {
    if (!key.startsWith(prefix)) break
    const bytes = disk.read(key)
    if (bytes !== undefined) found.push({ key: key.slice(prefix.length), value: read<T>(bytes) })
  }
  return found
}

/** Where a lane stands on a disk; undefined before its first message. */
export function laneOn(disk: MemoryDisk, remote: string): LaneRecord | undefined {
  return recordOn<LaneRecord>(disk, `lane/${remote}/1`)
}

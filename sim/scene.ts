import { decodeRecord } from '../src/core/record-json.ts'
import type { LaneRecord } from '../src/core/session-lane.ts'
import type { MemoryDisk } from '../src/store/memory-disk.ts'
import type { DeedsLedger } from './deeds.ts'
import type { HubProcess } from './hub-process.ts'
import type { NodeProcess } from './node-process.ts'
import type { Workload } from './workload.ts'
import type { World } from './world.ts'

/** Everything that is in a simulated world, for checkers to look at. */
export interface Scene {
  readonly world: World
  readonly hubs: readonly HubProcess[]
  readonly nodes: readonly NodeProcess[]
  readonly workloads: readonly Workload[]
  readonly deeds: DeedsLedger
}

/** All records under a prefix, as they are on disk: what a process would find if it were started now. */
export function recordsOn<T>(disk: MemoryDisk, prefix: string): readonly { readonly key: string; readonly value: T }[] {
  const found: { key: string; value: T }[] = []
  for (const key of disk.keys(prefix)) {
    if (!key.startsWith(prefix)) break
    const bytes = disk.read(key)
    if (bytes !== undefined) found.push({ key: key.slice(prefix.length), value: decodeRecord<T>(bytes) })
  }
  return found
}

/** Where a lane stands on a disk; undefined before its first message. */
export function laneOn(disk: MemoryDisk, remote: string): LaneRecord | undefined {
  const bytes = disk.read(`lane/${remote}/1`)
  return bytes === undefined ? undefined : decodeRecord<LaneRecord>(bytes)
}

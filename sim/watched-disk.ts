import type { StoreOperation } from '../src/ports/store.ts'
import { MemoryDisk } from '../src/store/memory-disk.ts'
import type { Process } from './process.ts'
import { laneOn } from './scene.ts'

/** A disk that shows each batch that has become durable. */
export class WatchedDisk extends MemoryDisk {
  onApplied: ((operation: StoreOperation) => void) | undefined

  override apply(batch: readonly StoreOperation[]): void {
    super.apply(batch)
    if (this.onApplied !== undefined) for (const operation of batch) this.onApplied(operation)
  }
}

/**
 * Tells of every message that a process lets go, with what the receiver's disk holds at that moment.
 *
 * @param self what the others call this process in their stores
 * @param remotes the others by what this process calls them
 */
export function watchOutbox(process: Process, self: string, remotes: ReadonlyMap<string, Process>): void {
  const { disk, world, name } = process
  disk.onApplied = (operation) => {
    if (operation.type !== 'delete' || !operation.key.startsWith('outbox/')) return
    const [, remote = '', , no = ''] = operation.key.split('/')
    const receiver = remotes.get(remote)
    if (receiver === undefined) return
    const received = laneOn(receiver.disk, self)?.received ?? 0
    world.tell({ type: 'forgotten', process: name, remote, no: Number(no), received })
  }
}

import { NfltrError } from '../core/errors.ts'
import type { Store, StoreCondition, StoreDamage, StoreEntry, StoreIdentity, StoreOperation } from '../ports/store.ts'
import { assertKey, type KeyspaceRow, keyspace } from './keyspace.ts'
import { MemoryDisk } from './memory-disk.ts'

export interface MemoryStoreOptions {
  /** The disk to open; a new and empty one where absent. */
  readonly disk?: MemoryDisk
  /** Resolves when one sync is done: the simulator's slow disk, or a test's gate. Default: at once. */
  readonly sync?: () => Promise<void>
  readonly keyspace?: readonly KeyspaceRow[]
}

/** How the next sync fails. `survives`: the batches are on disk all the same, seen only after opening again. */
export interface PlannedFailure {
  readonly code: 'store_failed' | 'disk_full'
  readonly survives: boolean
}

interface Handed {
  readonly batch: readonly StoreOperation[]
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/**
 * The twin of the LevelDB store, for tests and the simulator: the same contract, and a disk that forgets what was not
 * synced. Batches wait in order; one sync is in flight, and what arrives meanwhile goes into the next.
 */
export class MemoryStore implements Store {
  readonly identity: StoreIdentity
  readonly failed: Promise<Error>
  readonly condition: StoreCondition = { state: 'sound', damage: [] }
  readonly damaged: Promise<StoreDamage> = new Promise(() => undefined)
  readonly lost: readonly StoreDamage[] = []
  readonly disk: MemoryDisk
  /** Syncs so far: group commit makes them fewer than batches. */
  syncs = 0

  readonly #sync: () => Promise<void>
  readonly #rows: readonly KeyspaceRow[]
  readonly #fail: (error: Error) => void
  #waiting: Handed[] = []
  #inFlight: readonly Handed[] = []
  /** Batches of a failed sync that a later opening finds on the disk. */
  #survivors: readonly Handed[] = []
  #planned: PlannedFailure | undefined
  #failure: NfltrError | undefined
  #isCrashed = false
  #isClosed = false
  #whenIdle: (() => void)[] = []

  constructor(disk: MemoryDisk, options: MemoryStoreOptions) {
    this.disk = disk
    this.identity = disk.identity
    this.#sync = options.sync ?? (() => Promise.resolve())
    this.#rows = options.keyspace ?? keyspace
    const failed = Promise.withResolvers<Error>()
    this.failed = failed.promise
    this.#fail = failed.resolve
  }

  /** Batches handed over and not yet on disk. */
  get unsynced(): number {
    return this.#inFlight.length + this.#waiting.length
  }

  async commit(batch: readonly StoreOperation[]): Promise<void> {
    if (this.#isCrashed) return forever()
    this.#assertUsable()
    for (const operation of batch) assertKey(operation.key, this.#rows)
    const copied = batch.map((operation) =>
      operation.type === 'put' ? { ...operation, value: copyOf(operation.value) } : operation,
    )
    const outcome = Promise.withResolvers<void>()
    this.#waiting.push({ batch: copied, resolve: outcome.resolve, reject: outcome.reject })
    if (this.#inFlight.length === 0) void this.#flush()
    return outcome.promise
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    if (this.#isCrashed) return forever()
    this.#assertOpen()
    return this.#read(key)
  }

  getSync(key: string): Uint8Array | undefined {
    // A process that is dead hears nothing, but here its code runs on to where it next awaits something.
    if (!this.#isCrashed) this.#assertOpen()
    return this.#read(key)
  }

  async *scan(prefix: string, options: { from?: string; limit?: number } = {}): AsyncIterable<StoreEntry> {
    if (this.#isCrashed) await forever()
    this.#assertOpen()
    const from = options.from !== undefined && options.from > prefix ? options.from : prefix
    let left = options.limit ?? Number.POSITIVE_INFINITY
    // Keys are printable ASCII: nothing that begins with the prefix is above this.
    for (const key of this.disk.keys(from, `${prefix}\x7f`)) {
      if (!key.startsWith(prefix) || left-- <= 0) return
      const value = this.#read(key)
      if (value !== undefined) yield { key, value }
    }
  }

  async close(): Promise<void> {
    if (this.#isCrashed || this.#isClosed) return
    this.#isClosed = true
    if (this.unsynced > 0) await new Promise<void>((resolve) => this.#whenIdle.push(resolve))
    this.#release()
  }

  /** Makes the next sync fail, and with it the store for good. */
  failNext(planned: Partial<PlannedFailure> = {}): void {
    this.#planned = { code: planned.code ?? 'store_failed', survives: planned.survives ?? false }
  }

  /**
   * The process dies at once. Of the batches not yet on disk the first `keepUnsynced` made it there whole, the rest is
   * lost; a batch that was half written is refused whole at the next opening, so it counts as lost. Nothing that waits
   * on this store ever hears from it again.
   *
   * @returns the disk, to be opened again
   */
  crash(options: { readonly keepUnsynced?: number } = {}): MemoryDisk {
    if (this.#isCrashed) return this.disk
    this.#isCrashed = true
    const unsynced = [...this.#inFlight, ...this.#waiting]
    for (const handed of unsynced.slice(0, options.keepUnsynced ?? 0)) this.disk.apply(handed.batch)
    this.#inFlight = []
    this.#waiting = []
    this.#release()
    return this.disk
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#isCrashed) {
      this.#inFlight = this.#waiting
      this.#waiting = []
      await this.#sync()
      if (this.#isCrashed) return
      if (this.#planned !== undefined) return this.#break(this.#planned)
      this.syncs += 1
      const done = this.#inFlight
      this.#inFlight = []
      for (const handed of done) this.disk.apply(handed.batch)
      for (const handed of done) handed.resolve()
    }
    for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  #break(planned: PlannedFailure): void {
    const message =
      planned.code === 'disk_full'
        ? 'A write failed: no space was left on the disk.'
        : 'A write failed: the disk gave an error.'
    this.#failure = new NfltrError(planned.code, message)
    if (planned.survives) this.#survivors = this.#inFlight
    const refused = [...this.#inFlight, ...this.#waiting]
    this.#inFlight = []
    this.#waiting = []
    for (const handed of refused) handed.reject(this.#failure)
    this.#fail(this.#failure)
    for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  #release(): void {
    for (const handed of this.#survivors) this.disk.apply(handed.batch)
    this.#survivors = []
    this.disk.isHeld = false
  }

  #read(key: string): Uint8Array | undefined {
    if (this.disk.isDamaged(key)) throw new NfltrError('store_damaged', `The record ${key} did not match its checksum.`)
    return this.disk.read(key)
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new NfltrError('store_failed', 'The store was closed.')
  }

  #assertUsable(): void {
    if (this.#failure !== undefined) throw this.#failure
    this.#assertOpen()
  }
}

/** Out of a pool: most records are small, and an allocation of its own for each took a tenth of a simulated run. */
function copyOf(bytes: Uint8Array): Uint8Array {
  const copy = Buffer.from(bytes)
  return new Uint8Array(copy.buffer, copy.byteOffset, copy.length)
}

function forever(): Promise<never> {
  return new Promise(() => undefined)
}

/**
 * Opens an in-memory store, on a disk that an earlier one left behind where given.
 *
 * @throws {NfltrError} `store_held` while another store is open on the disk
 */
export async function openMemoryStore(options: MemoryStoreOptions = {}): Promise<MemoryStore> {
  const disk = options.disk ?? new MemoryDisk()
  if (disk.isHeld) throw new NfltrError('store_held', 'The store is open in another process.')
  disk.isHeld = true
  return new MemoryStore(disk, options)
}

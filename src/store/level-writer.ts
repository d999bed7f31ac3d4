import type { NfltrError } from '../core/errors.ts'
import { encodeRecord } from '../core/record-json.ts'
import type { StoreOperation } from '../ports/store.ts'
import { addRecord, type Digest, removeRecord } from './digest.ts'
import type { Database } from './level-database.ts'
import { storeError } from './level-database.ts'
import { ownFormat, storeFormat } from './migrations/migrations.ts'
import { sealRecord } from './record-envelope.ts'

/** One sync takes at most about this much, so that a flood does not hold up what waits behind it. */
const groupMaxBytes = 4 * 1024 * 1024

/** Where the writer's own account of the store stands: how many batches, and the digest of all records. */
export const sealKey = 'meta/seal'

/** Commits since the store was made, and what its records add up to after the last. */
export interface Seal {
  readonly commits: number
  readonly digest: Digest
}

/** A record as it will stand on disk, or undefined for a delete. */
interface Change {
  readonly key: string
  readonly record: Uint8Array | undefined
}

interface Handed {
  readonly changes: readonly Change[]
  readonly bytes: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/**
 * The one object that writes to the database. Batches keep their order; one synced write is in flight, and whatever
 * arrives meanwhile shares the next. LevelDB does not keep the order of writes that are not awaited, and a failed write
 * may be there after all: so there is never a second one in flight, and after a failure there is none at all.
 */
export class LevelWriter {
  readonly #database: Database
  readonly #onFailure: (error: NfltrError) => void
  readonly #format: number
  #seal: Seal
  #waiting: Handed[] = []
  #flushing: Promise<void> | undefined
  #failure: NfltrError | undefined

  constructor(database: Database, seal: Seal, onFailure: (error: NfltrError) => void, format = storeFormat) {
    this.#database = database
    this.#seal = seal
    this.#onFailure = onFailure
    this.#format = format
  }

  get seal(): Seal {
    return this.#seal
  }

  get failure(): NfltrError | undefined {
    return this.#failure
  }

  /** Resolves once the batch is on disk. @throws {NfltrError} `store_failed`, `disk_full` */
  commit(batch: readonly StoreOperation[]): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    const outcome = Promise.withResolvers<void>()
    // Sealed at once, which copies: what the caller does with its bytes afterwards changes nothing.
    const changes = batch.map((operation): Change => {
      const { key } = operation
      return { key, record: operation.type === 'put' ? sealRecord(key, operation.value, this.#format) : undefined }
    })
    const bytes = changes.reduce((sum, { record }) => sum + (record?.length ?? 0), 0)
    this.#waiting.push({ changes, bytes, resolve: outcome.resolve, reject: outcome.reject })
    this.#flushing ??= this.#flush()
    return outcome.promise
  }

  /** Resolves once nothing is in flight any more. */
  async idle(): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const group = this.#takeGroup()
      try {
        await this.#write(group.flatMap(({ changes }) => changes))
      } catch (error) {
        this.#fail(storeError(error), group)
        break
      }
      for (const handed of group) handed.resolve()
    }
    this.#flushing = undefined
  }

  #takeGroup(): Handed[] {
    let bytes = 0
    let count = 0
    for (const handed of this.#waiting) {
      if (count > 0 && bytes + handed.bytes > groupMaxBytes) break
      bytes += handed.bytes
      count += 1
    }
    return this.#waiting.splice(0, count)
  }

  async #write(changes: readonly Change[]): Promise<void> {
    if (changes.length === 0) return
    let { digest } = this.#seal
    // Within one group a key may be written more than once: each time against what the one before left.
    const latest = new Map<string, Uint8Array | undefined>()
    for (const { key, record } of changes) {
      const before = latest.has(key) ? latest.get(key) : this.#database.getSync(key)
      if (before !== undefined) digest = removeRecord(digest, before)
      if (record !== undefined) digest = addRecord(digest, record)
      latest.set(key, record)
    }
    const seal: Seal = { commits: this.#seal.commits + 1, digest }
    latest.set(sealKey, sealRecord(sealKey, encodeRecord(seal), ownFormat))
    const batch = [...latest].map(([key, value]) =>
      value === undefined ? ({ type: 'del', key } as const) : ({ type: 'put', key, value } as const),
    )
    await this.#database.batch(batch, { sync: true })
    this.#seal = seal
  }

  #fail(error: NfltrError, group: readonly Handed[]): void {
    this.#failure = error
    const refused = [...group, ...this.#waiting]
    this.#waiting = []
    this.#onFailure(error)
    for (const handed of refused) handed.reject(error)
  }
}

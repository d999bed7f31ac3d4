/**
 * One process's durable memory: ordered keys, whole values, atomic batches. Implementations: LevelDB and the in-memory
 * twin that loses unsynced writes on demand, both in `store`; `test/contracts/store.ts` runs on each.
 *
 * Keys are strings of the table in `store/keyspace.ts`; values are bytes whose checksum and format version the store adds
 * and checks itself. There is one writer: batches become durable in the order in which they were handed over.
 */
export interface Store {
  /** Who this store is. A store that was lost or put back in time has another `incarnation` (rule 6). */
  readonly identity: StoreIdentity

  /**
   * Hands over one atomic batch; several that arrive while a sync runs share the next one. Resolves when the batch is on disk.
   * Batches are applied in call order. After a failed write the store is `failed` for good: its outcome is unknown,
   * so the process has to end and start again.
   *
   * @throws {NfltrError} `store_failed` or `disk_full`, and from then on for every call
   */
  commit(batch: readonly StoreOperation[]): Promise<void>

  /**
   * A value as of the last durable batch.
   *
   * @throws {NfltrError} `store_damaged` when the record does not check, `store_newer` when a newer version wrote it
   */
  get(key: string): Promise<Uint8Array | undefined>

  /**
   * The same at once, for a decision that cannot go on without it: this process does nothing else while the disk is read. So
   * only for what is small and seldom asked for. What is being committed may show already, since it is on disk a moment before
   * `commit` says so: two looks in a row may be of two states. Same errors as `get`.
   */
  getSync(key: string): Uint8Array | undefined

  /** Entries with `prefix`, in key order, from `from` on (a full key, inclusive) where given. Same errors as `get`. */
  scan(prefix: string, options?: { readonly from?: string; readonly limit?: number }): AsyncIterable<StoreEntry>

  /** Resolves, never rejects, once a write has failed; the shell ends the process then. */
  readonly failed: Promise<Error>

  /** What is known of the records as a whole; a store looks at all of them once, in the time after its start. */
  readonly condition: StoreCondition

  /** What the repair lost with which the present incarnation began; empty where it began otherwise. */
  readonly lost: readonly StoreDamage[]

  /** Resolves, never rejects, with the first damage found. What is sound is served all the same, and what is not never. */
  readonly damaged: Promise<StoreDamage>

  close(): Promise<void>
}

export interface StoreIdentity {
  /** 16 random bytes as hex, made with the store. */
  readonly storeId: string
  /** Rises by one whenever the store's history was broken: restored, repaired, or found rolled back. */
  readonly incarnation: number
}

export interface StoreCondition {
  /** `checking`: not all of it was looked at since the start. */
  readonly state: 'checking' | 'sound' | 'damaged'
  readonly damage: readonly StoreDamage[]
}

export interface StoreDamage {
  /** What was found, and where. */
  readonly found: string
  /** Keys that may be concerned, where it is known: above `from`, up to `to`; one key where both are the same. */
  readonly from?: string
  readonly to?: string
}

export type StoreOperation =
  | { readonly type: 'put'; readonly key: string; readonly value: Uint8Array }
  | { readonly type: 'delete'; readonly key: string }

export interface StoreEntry {
  readonly key: string
  readonly value: Uint8Array
}

import type { StoreEntry } from '../../ports/store.ts'

/**
 * One format's records as those of the next format. It is applied to each record once, whatever the process dies of
 * meanwhile, so it is a pure function of the one record.
 */
export interface Migration {
  /** What is other from then on. */
  readonly what: string
  /**
   * What stands in the place of a record: itself, changed, under another key, or as several, or nothing. No key that it gives
   * is the key of another record of the earlier format.
   */
  readonly change: (entry: StoreEntry) => readonly StoreEntry[]
}

/**
 * How a store of an earlier version becomes one of this version: the first makes format 2 of format 1, and so on. They are
 * only ever added to. The store of each format that was released stands in `test/fixtures/` and is opened by a test.
 */
export const migrations: readonly Migration[] = []

/** The format that this version writes: of a store as a whole, and of each of its records. */
export const storeFormat = formatAfter(migrations)

/** The store's own records have the first format in every version: they are read before the format of the others is known. */
export const ownFormat = 1

export function formatAfter(list: readonly Migration[]): number {
  return 1 + list.length
}

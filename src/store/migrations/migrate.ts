import { NfltrError } from '../../core/errors.ts'
import { decodeRecord, encodeRecord } from '../../core/record-json.ts'
import type { StoreOperation } from '../../ports/store.ts'
import { ownPrefix } from '../level-account.ts'
import type { Database } from '../level-database.ts'
import { pagesOf, type RawEntry } from '../level-scan.ts'
import { LevelWriter, type Seal } from '../level-writer.ts'
import { openRecord, recordFormat, sealRecord } from '../record-envelope.ts'
import { formatAfter, type Migration, ownFormat } from './migrations.ts'

/** Where the store says that all of its records have a format; absent: the first one. */
const formatKey = 'meta/format'

/** So much is changed in one synced batch. */
const batchMaxBytes = 1024 * 1024

interface FormatRecord {
  readonly format: number
}

/**
 * The format that all records of a store have; some may have a later one, where a migration was interrupted.
 *
 * @throws {NfltrError} `store_newer`, `store_damaged`
 */
export function formatOf(database: Database, newest: number): number {
  const record = database.getSync(formatKey)
  const format = record === undefined ? 1 : decodeRecord<FormatRecord>(openRecord(formatKey, record)).format
  if (format <= newest) return format
  const message = `The store was written in format ${format}; this version reads format ${newest}.`
  throw new NfltrError('store_newer', message, {
    hint: 'Use the version of nfltr that wrote it, or a later one.',
    details: { format },
  })
}

/**
 * Brings a store to the format of this version, one format after the other, before anybody reads it. Each record is changed
 * where it stands, in synced batches: a process that dies meanwhile leaves records of both formats, and each says which it
 * has, so the next opening goes on with those that are left. Nothing is done twice and nothing is left out.
 *
 * @returns the account of the store after it
 * @throws {NfltrError} `store_damaged` at a record that does not check; `store_newer`; `disk_full`; `store_failed`
 */
export async function migrate(database: Database, seal: Seal, migrations: readonly Migration[]): Promise<Seal> {
  const newest = formatAfter(migrations)
  let reached = seal
  for (let from = formatOf(database, newest); from < newest; from++) {
    const migration = migrations[from - 1]
    if (migration === undefined) throw new Error(`nothing makes format ${from + 1} of format ${from}`)
    reached = await step(database, reached, { migration, from })
    const value = sealRecord(formatKey, encodeRecord({ format: from + 1 } satisfies FormatRecord), ownFormat)
    await database.batch([{ type: 'put', key: formatKey, value }], { sync: true })
  }
  return reached
}

/** From one format to the next. */
async function step(
  database: Database,
  seal: Seal,
  { migration, from }: { readonly migration: Migration; readonly from: number },
): Promise<Seal> {
  // A failed write rejects the commit as well, which is awaited.
  const writer = new LevelWriter(database, seal, () => undefined, from + 1)
  let batch: StoreOperation[] = []
  let bytes = 0
  const flush = async (): Promise<void> => {
    if (batch.length > 0) await writer.commit(batch)
    batch = []
    bytes = 0
  }
  // As of this moment: what is written meanwhile does not come up.
  for await (const page of pagesOf(database, {})) {
    for (const entry of page) {
      if (entry[0].startsWith(ownPrefix) || recordFormat(entry[1]) > from) continue
      batch.push(...changed(entry, { migration, from }))
      bytes += entry[1].length
      if (bytes >= batchMaxBytes) await flush()
    }
  }
  await flush()
  return writer.seal
}

/** What stands in the place of one record, all of it in one batch. */
function changed(
  [key, record]: RawEntry,
  { migration, from }: { readonly migration: Migration; readonly from: number },
): readonly StoreOperation[] {
  const made = migration.change({ key, value: openRecord(key, record, from) })
  const puts = made.map((entry): StoreOperation => ({ type: 'put', ...entry }))
  return made.some((entry) => entry.key === key) ? puts : [{ type: 'delete', key }, ...puts]
}

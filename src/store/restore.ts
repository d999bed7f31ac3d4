import { existsSync, mkdirSync } from 'node:fs'
import process from 'node:process'
import { NfltrError } from '../core/errors.ts'
import { decodeRecord } from '../core/record-json.ts'
import type { StoreIdentity } from '../ports/store.ts'
import { type BackupHeader, backupRecords, checkBackup } from './backup.ts'
import { identityKey, markerOf } from './level-account.ts'
import { heldError } from './level-store.ts'
import { buildDatabase, swapDatabase } from './rebuild.ts'
import { openRecord } from './record-envelope.ts'
import { claim, freeName, letGo } from './repair.ts'
import { Salvage } from './salvage.ts'
import { bornOf, readHolder, readMarker, type StoreMarker, storeFiles, writeMarker } from './store-files.ts'

export interface RestoreReport {
  readonly header: BackupHeader
  readonly records: number
  readonly identity: StoreIdentity
  /** Where the database is that was there before. */
  readonly keptAs?: string
}

/**
 * Puts a store back to what a backup holds, under an incarnation above all that the store ever had: its peers notice, and
 * both sides compare what they have (rule 6). What was there is kept beside it.
 *
 * @throws {NfltrError} `store_held`; `not_found`, `invalid_argument`, `store_newer` for the file; `disk_full`
 */
export async function restoreStore(dir: string, file: string, hubId: string): Promise<RestoreReport> {
  const header = await checkBackup(file)
  if (header.hub_id !== hubId) {
    throw new NfltrError('invalid_argument', `${file} is a backup of the hub ${header.hub_id}, not of ${hubId}.`, {
      hint: `Name the hub that it is of: --hub-id ${header.hub_id}`,
      details: { argument: 'file', hub_id: header.hub_id },
    })
  }
  const files = storeFiles(dir)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  claim(files.holder)
  try {
    const known = [
      markerOr(files.marker),
      identityIn(files.db),
      { storeId: header.store_id, incarnation: header.incarnation },
    ]
    const highest = Math.max(...known.flatMap((one) => (one?.storeId === header.store_id ? one.incarnation : [])))
    const identity: StoreIdentity = { storeId: header.store_id, incarnation: highest + 1 }
    const made = `${files.db}.restored`
    const account = await buildDatabase(made, checked(file), { identity, commits: header.commits + 1 })
    if (readHolder(files.holder)?.pid !== process.pid) throw heldError(undefined, files.holder)
    const kept = existsSync(files.db) ? freeName(`${files.db}.replaced`) : undefined
    swapDatabase({ made, db: files.db, kept })
    writeMarker(files.marker, markerOf(identity, account.seal, bornOf(files.db)))
    return { header, records: account.seal.digest.records, identity, ...(kept === undefined ? {} : { keptAs: kept }) }
  } finally {
    letGo(files.holder)
  }
}

async function* checked(file: string) {
  for await (const [key, record] of backupRecords(file)) {
    // Each is checked, though the file as a whole was: what wrote it may have been wrong.
    openRecord(key, record)
    yield [key, record] as const
  }
}

function markerOr(path: string): StoreMarker | undefined {
  try {
    return readMarker(path)
  } catch (error) {
    // What is put back replaces it.
    if (error instanceof NfltrError && error.code === 'store_damaged') return undefined
    throw error
  }
}

/** Who the database is that is there now, as far as it can be read: its marker may be lost. */
function identityIn(db: string): StoreIdentity | undefined {
  if (!existsSync(db)) return undefined
  const record = new Salvage(db, { mayBeTorn: true }).find(identityKey)
  return record === undefined ? undefined : decodeRecord<StoreIdentity>(openRecord(identityKey, record))
}

import { closeSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { addRecord, emptyDigest } from './digest.ts'
import { type Account, ownPrefix, ownRecords } from './level-account.ts'
import { type Database, openDatabase, storeError } from './level-database.ts'
import type { Seal } from './level-writer.ts'

const batchMaxBytes = 1024 * 1024

type Put = { readonly type: 'put'; readonly key: string; readonly value: Uint8Array }

/**
 * Makes a new database of sealed records. The store's own are left out and made anew, in the last write. Every write is synced:
 * a log that is full is closed as it is, and only the newest one would be. Where it fails nothing of it stays.
 *
 * @param records - each key once
 * @param account - who the store is from now on, the number of its last commit, and what else of its own it keeps
 * @returns the account that was written
 */
export async function buildDatabase(
  path: string,
  records: Iterable<readonly [string, Uint8Array]> | AsyncIterable<readonly [string, Uint8Array]>,
  account: { readonly identity: Account['identity']; readonly commits: number; readonly own?: readonly Put[] },
): Promise<Account> {
  rmSync(path, { recursive: true, force: true })
  const database = await openDatabase(path, { createIfMissing: true })
  let isMade = false
  try {
    let digest = emptyDigest
    let batch: Put[] = []
    let bytes = 0
    for await (const [key, value] of records) {
      if (key.startsWith(ownPrefix)) continue
      digest = addRecord(digest, value)
      batch.push({ type: 'put', key, value })
      bytes += value.length
      if (bytes < batchMaxBytes) continue
      await write(database, batch)
      batch = []
      bytes = 0
    }
    const seal: Seal = { commits: account.commits, digest }
    const made: Account = { identity: account.identity, seal }
    await write(database, [...batch, ...ownRecords(made), ...(account.own ?? [])])
    isMade = true
    return made
  } finally {
    await database.close()
    if (!isMade) rmSync(path, { recursive: true, force: true })
  }
}

/** Puts a new database in the place of another, which is kept under the second name. */
export function swapDatabase(paths: {
  readonly made: string
  readonly db: string
  readonly kept: string | undefined
}): void {
  const { made, db, kept } = paths
  if (kept !== undefined) renameSync(db, kept)
  renameSync(made, db)
  const folder = openSync(dirname(db), 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

async function write(database: Database, batch: readonly Put[]): Promise<void> {
  await database.batch([...batch], { sync: true }).catch((error: unknown) => {
    throw storeError(error)
  })
}

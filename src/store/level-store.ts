import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { NfltrError } from '../core/errors.ts'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import type { Store, StoreEntry, StoreIdentity, StoreOperation } from '../ports/store.ts'
import { addRecord, type Digest, emptyDigest, sameDigest } from './digest.ts'
import { assertKey, type KeyspaceRow, keyspace } from './keyspace.ts'
import { type Database, openDatabase, storeError } from './level-database.ts'
import { LevelWriter, type Seal, sealKey } from './level-writer.ts'
import { openRecord, sealRecord } from './record-envelope.ts'
import {
  bornOf,
  isHeadless,
  markerFormat,
  readHolder,
  readMarker,
  removeFile,
  type StoreMarker,
  storeFiles,
  thisHolder,
  writeWhole,
} from './store-files.ts'

const identityKey = 'meta/identity'
/** Keys that only this file and the writer know. */
const ownPrefix = 'meta/'
/** How much one read of a scan brings into memory, beside the value that crosses the line; `fillCache`: it reads but once. */
const pageOptions = { highWaterMarkBytes: 256 * 1024, fillCache: false }
const pageEntries = 256

export interface LevelStoreOptions {
  /** What a second opener is told beside pid, host and since. */
  readonly holder?: { readonly session?: string }
  readonly keyspace?: readonly KeyspaceRow[]
}

/**
 * Opens the store of a folder (`db/`, `db.marker`, `holder.json`), and makes it where there never was one. Every record
 * is checked against its checksum, and all together against the account kept with each commit: what opens is whole. One that
 * is a copy, and so may stand at an earlier time than it once did, opens under another incarnation (rule 6).
 *
 * @throws {NfltrError} `store_held` with pid, host and since of the holder; `store_damaged` naming what was found;
 *   `store_newer`; `store_failed`; `disk_full`
 */
export async function openLevelStore(dir: string, options: LevelStoreOptions = {}): Promise<Store> {
  const files = storeFiles(dir)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const marker = readMarker(files.marker)
  if (isHeadless(files.db))
    throw damaged('CURRENT, the file that names its state, was missing', { found: 'no CURRENT' })
  const database = await openDatabase(files.db, { createIfMissing: marker === undefined }).catch((error: unknown) => {
    throw error instanceof NfltrError && error.code === 'store_held' ? heldError(error, files.holder) : error
  })
  try {
    const born = bornOf(files.db)
    const isCopy = born !== undefined && marker?.born !== undefined && marker.born !== born
    const { identity: found, seal } = await readAccount(database, marker, isCopy)
    const identity = isCopy ? await renew(database, found, marker) : found
    writeWhole(files.marker, markerOf(identity, seal, born))
    writeWhole(files.holder, thisHolder(options.holder?.session))
    return new LevelStore({ database, identity, seal, files, rows: options.keyspace ?? keyspace })
  } catch (error) {
    await database.close()
    throw storeError(error)
  }
}

/** The store's own records, checked against all others. */
async function readAccount(
  database: Database,
  marker: StoreMarker | undefined,
  isCopy: boolean,
): Promise<{ readonly identity: StoreIdentity; readonly seal: Seal }> {
  const sealed = { identity: database.getSync(identityKey), seal: database.getSync(sealKey) }
  if (sealed.identity === undefined || sealed.seal === undefined) {
    const digest = await digestOf(database)
    if (marker !== undefined || digest.records > 0)
      throw damaged('its own records were missing', { found: 'no identity' })
    return initialise(database)
  }
  const identity = decodeRecord<StoreIdentity>(openRecord(identityKey, sealed.identity))
  const seal = decodeRecord<Seal>(openRecord(sealKey, sealed.seal))
  if (marker !== undefined && marker.storeId !== identity.storeId) {
    throw damaged('it was another store than the one its marker names', {
      found: identity.storeId,
      expected: marker.storeId,
    })
  }
  if (marker !== undefined && !isCopy && seal.commits < marker.commits) {
    throw damaged(`it ended at commit ${seal.commits}, and commit ${marker.commits} had been made`, {
      found: seal.commits,
      expected: marker.commits,
    })
  }
  const digest = await digestOf(database)
  if (sameDigest(digest, seal.digest)) return { identity, seal }
  const found = `${digest.records} records were found where ${seal.digest.records} were written`
  throw damaged(digest.records === seal.digest.records ? `${found}, and not all as they were written` : found, {
    found: digest.records,
    expected: seal.digest.records,
  })
}

/**
 * The same store under another incarnation, on disk before anything is done with it: its folder is a copy, which holds
 * what was there when it was made (rule 6). One that was only moved is none.
 */
async function renew(
  database: Database,
  identity: StoreIdentity,
  marker: StoreMarker | undefined,
): Promise<StoreIdentity> {
  const incarnation = Math.max(identity.incarnation, marker?.incarnation ?? 0) + 1
  const renewed: StoreIdentity = { ...identity, incarnation }
  const value = sealRecord(identityKey, encodeRecord(renewed))
  await database.batch([{ type: 'put', key: identityKey, value }], { sync: true })
  return renewed
}

function markerOf(identity: StoreIdentity, { commits }: Seal, born: string | undefined): StoreMarker {
  return { format: markerFormat, ...identity, commits, ...(born === undefined ? {} : { born }) }
}

async function initialise(database: Database): Promise<{ readonly identity: StoreIdentity; readonly seal: Seal }> {
  const identity: StoreIdentity = { storeId: randomBytes(16).toString('hex'), incarnation: 1 }
  const seal: Seal = { commits: 0, digest: emptyDigest }
  const own = [
    { key: identityKey, value: sealRecord(identityKey, encodeRecord(identity)) },
    { key: sealKey, value: sealRecord(sealKey, encodeRecord(seal)) },
  ]
  await database.batch(
    own.map(({ key, value }) => ({ type: 'put', key, value })),
    { sync: true },
  )
  return { identity, seal }
}

/** Reads and checks everything. @throws {NfltrError} `store_damaged`, `store_newer` */
async function digestOf(database: Database): Promise<Digest> {
  let digest = emptyDigest
  for await (const [key, record] of pagesOf(database, {})) {
    openRecord(key, record)
    if (!key.startsWith(ownPrefix)) digest = addRecord(digest, record)
  }
  return digest
}

/** Entries in key order, as of the moment of the call, read a page at a time. */
async function* pagesOf(
  database: Database,
  range: { readonly gte?: string; readonly lt?: string; readonly limit?: number },
): AsyncIterable<readonly [string, Uint8Array]> {
  const iterator = database.iterator({ ...range, ...pageOptions })
  try {
    for (;;) {
      const page = await iterator.nextv(pageEntries)
      if (page.length === 0) return
      yield* page
    }
  } catch (error) {
    throw scanError(error)
  } finally {
    await iterator.close()
  }
}

class LevelStore implements Store {
  readonly identity: StoreIdentity
  readonly failed: Promise<Error>
  readonly #database: Database
  readonly #writer: LevelWriter
  readonly #files: { readonly db: string; readonly marker: string; readonly holder: string }
  readonly #rows: readonly KeyspaceRow[]
  #isClosed = false

  constructor(options: {
    readonly database: Database
    readonly identity: StoreIdentity
    readonly seal: Seal
    readonly files: { readonly db: string; readonly marker: string; readonly holder: string }
    readonly rows: readonly KeyspaceRow[]
  }) {
    const failed = Promise.withResolvers<Error>()
    this.identity = options.identity
    this.failed = failed.promise
    this.#database = options.database
    this.#files = options.files
    this.#rows = options.rows
    this.#writer = new LevelWriter(options.database, options.seal, failed.resolve)
  }

  async commit(batch: readonly StoreOperation[]): Promise<void> {
    this.#assertOpen()
    for (const operation of batch) assertKey(operation.key, this.#rows)
    await this.#writer.commit(batch)
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    this.#assertOpen()
    const record = await this.#database.get(key).catch((error: unknown) => {
      throw storeError(error)
    })
    return record === undefined ? undefined : openRecord(key, record)
  }

  async *scan(
    prefix: string,
    options: { readonly from?: string; readonly limit?: number } = {},
  ): AsyncIterable<StoreEntry> {
    this.#assertOpen()
    const { from, limit } = options
    const gte = from !== undefined && from > prefix ? from : prefix
    const range = { gte, lt: `${prefix}\x7f`, ...(limit === undefined ? {} : { limit }) }
    for await (const [key, record] of pagesOf(this.#database, range)) {
      if (!key.startsWith(ownPrefix)) yield { key, value: openRecord(key, record) }
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#writer.idle()
    try {
      if (this.#writer.failure === undefined) {
        writeWhole(this.#files.marker, markerOf(this.identity, this.#writer.seal, bornOf(this.#files.db)))
      }
    } finally {
      // Before the lock is let go: the next holder writes its own.
      removeFile(this.#files.holder)
      await this.#database.close()
    }
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new NfltrError('store_failed', 'The store was closed.')
  }
}

function heldError(error: NfltrError, holderFile: string): NfltrError {
  const holder = readHolder(holderFile)
  const by = holder === undefined ? 'another process' : `process ${holder.pid} on ${holder.host} since ${holder.since}`
  return new NfltrError('store_held', `The store was held by ${by}.`, {
    hint: 'End that process first, or wait for it to end.',
    details: { ...holder },
    cause: error,
  })
}

function damaged(found: string, details: Readonly<Record<string, unknown>>): NfltrError {
  return new NfltrError('store_damaged', `The store was refused: ${found}.`, {
    hint: 'Nothing was changed. Put back a copy of the folder, or move it away to begin with an empty store.',
    details,
  })
}

/** A table that cannot be read is damage; the disk's own trouble is not. */
function scanError(error: unknown): NfltrError {
  const found = storeError(error)
  if (found.code !== 'store_failed' || /too many open files|input\/output error/i.test(found.message)) return found
  return damaged(`a part of it could not be read (${String(found.details['found'])})`, {
    found: found.details['found'],
  })
}

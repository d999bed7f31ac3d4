import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { NfltrError } from '../core/errors.ts'
import { bootId } from '../platform/process-table.ts'
import type { Store, StoreCondition, StoreDamage, StoreEntry, StoreIdentity, StoreOperation } from '../ports/store.ts'
import { assertKey, type KeyspaceRow, keyspace } from './keyspace.ts'
import { type Finding, type Inspection, inspectDatabase } from './level/inspection.ts'
import { TableGuard } from './level/table-guard.ts'
import { readSums, type TableSums, writeSums } from './level/table-sums.ts'
import { markerOf, ownPrefix, readAccount, readLosses, renew } from './level-account.ts'
import { type Database, openDatabase, storeError } from './level-database.ts'
import { pagesOf, type RawEntry } from './level-scan.ts'
import { scrub } from './level-scrub.ts'
import { LevelWriter, type Seal } from './level-writer.ts'
import { formatOf, migrate } from './migrations/migrate.ts'
import { formatAfter, type Migration, migrations } from './migrations/migrations.ts'
import { openRecord } from './record-envelope.ts'
import {
  bornOf,
  holderRuns,
  isHeadless,
  readHolder,
  readMarker,
  removeFile,
  type StoreMarker,
  storeFiles,
  thisHolder,
  writeMarker,
  writeWhole,
} from './store-files.ts'

/** Damage that is kept for whoever asks; of more, only the count would matter, and all of it is found again by a repair. */
const damageMax = 100
/** Another process that opens the store at this moment changes the files that are looked at: so often is looked again. */
const looksMax = 3
const lookAgainMs = 200

export interface LevelStoreOptions {
  /** What a second opener is told beside pid, host and since. */
  readonly holder?: { readonly session?: string }
  readonly keyspace?: readonly KeyspaceRow[]
  /** How a store of an earlier format is brought to the present one; only tests have others. */
  readonly migrations?: readonly Migration[]
  /** What a person runs on a damaged store. */
  readonly repairCommand?: string
  /** Bytes of tables that are looked at before anything is opened; only tests set it. */
  readonly checkedAtStartBytes?: number
  /** How long after the start the look at everything begins, in milliseconds: tests are in a hurry, and commands soon over. */
  readonly scrubDelayMs?: number
}

/**
 * So much is looked at before LevelDB opens anything. What is more than that is checked later, and where it is damaged the file
 * is kept when it is found, before a compaction makes a table without it that looks sound.
 */
const checkedAtStartBytes = 256 * 1024 * 1024
/** Nothing is looked at in the first seconds, in which the process has the most to do. */
const scrubDelayMs = 3_000

/**
 * Opens the store of a folder (`db/`, `db.marker`, `holder.json`), and makes it where there never was one. What LevelDB would
 * pass over in silence when it opens is looked for first; records are checked when they are read, and a little at a time after
 * the start (docs/decisions/0006-check-records-when-they-are-read.md). A folder that is a copy, and so may stand at an earlier
 * time than it once did, opens under another incarnation (rule 6).
 *
 * @throws {NfltrError} `store_held` with pid, host and since of the holder; `store_damaged` naming what was found;
 *   `store_newer`; `store_failed`; `disk_full`
 */
export async function openLevelStore(dir: string, options: LevelStoreOptions = {}): Promise<LevelStore> {
  const files = storeFiles(dir)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const list = options.migrations ?? migrations
  const format = formatAfter(list)
  const marker = readMarker(files.marker, format)
  if (isHeadless(files.db))
    throw refused('CURRENT, the file that names its state, was missing', { found: 'no CURRENT' }, options)
  const holder = readHolder(files.holder)
  if (holder?.task === 'repair' && holderRuns(holder)) throw heldError(undefined, files.holder)
  const guard = new TableGuard(await inspectUnheld(files, marker, options))
  let database: Database | undefined
  try {
    const known = readSums(files.sums)
    const { findings, sums } = guard.checkFirst(options.checkedAtStartBytes ?? checkedAtStartBytes, known)
    if (findings.length > 0) throw refused(findings.map(textOf).join('; '), { found: findings.map(textOf) }, options)
    database = await openDatabase(files.db, { createIfMissing: marker === undefined })
    writeWhole(files.holder, thisHolder(options.holder?.session))
    const born = bornOf(files.db)
    const isCopy = born !== undefined && marker?.born !== undefined && marker.born !== born
    const finding = guard.check(ownPrefix, `${ownPrefix}\x7f`)
    if (finding !== undefined) throw refused(textOf(finding), damageOf(finding), options)
    const account = await readAccount(database, marker, isCopy)
    if ('found' in account) throw refused(account.found, account.details, options)
    const identity = isCopy ? await renew(database, account.identity, marker) : account.identity
    const isOlder = formatOf(database, format) < format
    // From the first record of a later format on, an earlier version has to be refused: so the marker says it before.
    writeMarker(files.marker, markerOf(identity, account.seal, born, format))
    if (isOlder) assertWhole(guard, options)
    const seal = isOlder ? await migrate(database, account.seal, list) : account.seal
    if (!sameSums(known, sums)) writeSums(files.sums, sums)
    return new LevelStore({ database, identity, seal, files, guard, format, options })
  } catch (error) {
    guard.close()
    if (database !== undefined) {
      removeFile(files.holder)
      await database.close()
    }
    throw error instanceof NfltrError && error.code === 'store_held'
      ? heldError(error, files.holder)
      : withHint(storeError(error), options)
  }
}

/** What is about to be rewritten is looked at first. @throws {NfltrError} `store_damaged` */
function assertWhole(guard: TableGuard, options: LevelStoreOptions): void {
  const finding = guard.check('', '\x7f')
  if (finding !== undefined) throw refused(textOf(finding), damageOf(finding), options)
}

type Files = ReturnType<typeof storeFiles>

/** Looks at the files while nobody has them open. @throws {NfltrError} `store_damaged`, `store_held` */
async function inspectUnheld(
  files: Files,
  marker: StoreMarker | undefined,
  options: LevelStoreOptions,
): Promise<Inspection['tables']> {
  if (marker === undefined && !isDatabase(files.db)) return []
  for (let look = 1; ; look++) {
    const holder = readHolder(files.holder)
    const isHeld = holder !== undefined && holderRuns(holder)
    const mayBeTorn = marker === undefined || (holder !== undefined && holder.boot_id !== bootId())
    const { findings, mayBeChanging, tables } = inspectDatabase(files.db, { mayBeTorn })
    if (findings.length === 0 && !isHeld) return tables
    for (const table of tables) table.close()
    // Whoever holds it changes it all the time: opening it says so.
    if (isHeld) return []
    if (!mayBeChanging || look === looksMax)
      throw refused(findings.map(textOf).join('; '), { found: findings.map(textOf) }, options)
    await new Promise((resolve) => setTimeout(resolve, lookAgainMs))
  }
}

export class LevelStore implements Store {
  readonly identity: StoreIdentity
  readonly failed: Promise<Error>
  readonly damaged: Promise<StoreDamage>
  readonly lost: readonly StoreDamage[]
  readonly #database: Database
  readonly #writer: LevelWriter
  readonly #files: Files
  readonly #guard: TableGuard
  readonly #format: number
  readonly #options: LevelStoreOptions
  readonly #damage = new Map<string, StoreDamage>()
  readonly #closing = new AbortController()
  readonly #scrubbing: Promise<void>
  readonly #noteFirst: (damage: StoreDamage) => void
  #isChecked = false
  #isClosed = false

  constructor(parts: {
    readonly database: Database
    readonly identity: StoreIdentity
    readonly seal: Seal
    readonly files: Files
    readonly guard: TableGuard
    readonly format: number
    readonly options: LevelStoreOptions
  }) {
    const failed = Promise.withResolvers<Error>()
    const damaged = Promise.withResolvers<StoreDamage>()
    this.identity = parts.identity
    this.failed = failed.promise
    this.damaged = damaged.promise
    this.lost = readLosses(parts.database, parts.identity)
    this.#noteFirst = damaged.resolve
    this.#database = parts.database
    this.#files = parts.files
    this.#guard = parts.guard
    this.#format = parts.format
    this.#options = parts.options
    this.#writer = new LevelWriter(parts.database, parts.seal, failed.resolve, parts.format)
    this.#scrubbing = this.#scrub()
  }

  get condition(): StoreCondition {
    const damage = [...this.#damage.values()]
    return { state: damage.length > 0 ? 'damaged' : this.#isChecked ? 'sound' : 'checking', damage }
  }

  async commit(batch: readonly StoreOperation[]): Promise<void> {
    this.#assertOpen()
    for (const operation of batch) assertKey(operation.key, this.#options.keyspace ?? keyspace)
    await this.#writer.commit(batch).catch((error: unknown) => {
      throw withHint(storeError(error), this.#options)
    })
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    this.#assertOpen()
    this.#assertSound(key, key)
    const record = await this.#database.get(key).catch((error: unknown) => {
      throw withHint(storeError(error), this.#options)
    })
    return record === undefined ? undefined : this.#open(key, record)
  }

  getSync(key: string): Uint8Array | undefined {
    this.#assertOpen()
    this.#assertSound(key, key)
    const record = this.#readSync(key)
    return record === undefined ? undefined : this.#open(key, record)
  }

  #readSync(key: string): Uint8Array | undefined {
    try {
      return this.#database.getSync(key)
    } catch (error) {
      throw withHint(storeError(error), this.#options)
    }
  }

  async *scan(
    prefix: string,
    options: { readonly from?: string; readonly limit?: number } = {},
  ): AsyncIterable<StoreEntry> {
    this.#assertOpen()
    const { from, limit } = options
    const gte = from !== undefined && from > prefix ? from : prefix
    const lt = `${prefix}\x7f`
    for await (const page of this.#soundPages({ gte, lt, ...(limit === undefined ? {} : { limit }) })) {
      for (const [key, record] of page) {
        if (!key.startsWith(ownPrefix)) yield { key, value: this.#open(key, record) }
      }
    }
  }

  /** How many commits the store has made, those of before included. */
  get commits(): number {
    return this.#writer.seal.commits
  }

  /**
   * Every record as it lies on disk, the store's own included, as of the moment of the call; commits go on meanwhile.
   *
   * @throws {NfltrError} `store_damaged` at the first that does not check
   */
  async *snapshot(): AsyncGenerator<RawEntry> {
    this.#assertOpen()
    for await (const page of this.#soundPages({ gte: '', lt: '\x7f' })) {
      for (const [key, record] of page) {
        this.#open(key, record)
        yield [key, record]
      }
    }
  }

  /** Each page is checked for what may be missing between its entries before the first of them is given out. */
  async *#soundPages(range: { readonly gte: string; readonly lt: string; readonly limit?: number }) {
    let above = range.gte
    let left = range.limit ?? Number.POSITIVE_INFINITY
    try {
      for await (const page of pagesOf(this.#database, range)) {
        const last = page.at(-1)?.[0] ?? range.lt
        this.#assertSound(above, last)
        above = last
        left -= page.length
        yield page
      }
    } catch (error) {
      throw error instanceof NfltrError ? withHint(error, this.#options) : error
    }
    if (left > 0) this.#assertSound(above, range.lt)
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#closing.abort()
    await this.#scrubbing
    await this.#writer.idle()
    try {
      if (this.#writer.failure === undefined) {
        const { seal } = this.#writer
        writeMarker(this.#files.marker, markerOf(this.identity, seal, bornOf(this.#files.db), this.#format))
      }
    } finally {
      // Before the lock is let go: the next holder writes its own.
      removeFile(this.#files.holder)
      this.#guard.close()
      await this.#database.close()
    }
    if (this.#writer.failure === undefined && this.#damage.size === 0) sumUp(this.#files)
  }

  #open(key: string, record: Uint8Array): Uint8Array {
    try {
      return openRecord(key, record, this.#format)
    } catch (error) {
      const found = withHint(storeError(error), this.#options)
      if (found.code === 'store_damaged') this.#note({ found: found.message, from: key, to: key })
      throw found
    }
  }

  /** @throws {NfltrError} `store_damaged` where a part that may hold such keys is */
  #assertSound(from: string, to: string): void {
    const finding = this.#guard.check(from, to)
    if (finding === undefined) return
    this.#noteFinding(finding)
    const damage = damageOf(finding)
    const message = `The store is damaged: ${textOf(finding)}.`
    throw withHint(new NfltrError('store_damaged', message, { details: { ...damage } }), this.#options)
  }

  async #scrub(): Promise<void> {
    try {
      await scrub(
        {
          database: this.#database,
          guard: this.#guard,
          signal: this.#closing.signal,
          delayMs: this.#options.scrubDelayMs ?? scrubDelayMs,
          format: this.#format,
        },
        {
          block: () => {
            for (const finding of this.#guard.damaged) this.#noteFinding(finding)
          },
          record: ({ found, key }) => this.#note({ found, ...(key === undefined ? {} : { from: key, to: key }) }),
        },
      )
      this.#isChecked = true
    } catch (error) {
      if (this.#closing.signal.aborted) return
      // The disk's own trouble ends the process at the next write; here it only means that not all was looked at.
      const found = storeError(error)
      if (found.code === 'store_damaged') this.#note({ found: found.message })
    }
  }

  #noteFinding(finding: Finding): void {
    const bytes = this.#guard.takeEvidence(finding)
    try {
      if (bytes !== undefined) keepEvidence(this.#files.evidence, finding.file, bytes)
    } catch {
      // A disk that does not take it must not speak in place of the damage.
    }
    this.#note(damageOf(finding))
  }

  #note(damage: StoreDamage): void {
    const key = JSON.stringify(damage)
    if (this.#damage.size >= damageMax || this.#damage.has(key)) return
    this.#damage.set(key, damage)
    this.#noteFirst(damage)
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new NfltrError('store_failed', 'The store was closed.')
  }
}

function sameSums(a: TableSums, b: TableSums): boolean {
  return a.size === b.size && [...a].every(([file, sum]) => b.get(file) === sum)
}

/** Checks the tables that came since the opening, so that the next one finds all of them known. */
function sumUp(files: Files): void {
  const guard = new TableGuard(inspectDatabase(files.db, { mayBeTorn: false }).tables)
  const known = readSums(files.sums)
  const { sums } = guard.checkFirst(checkedAtStartBytes, known)
  guard.close()
  if (!sameSums(known, sums)) writeSums(files.sums, sums)
}

function keepEvidence(folder: string, file: string, bytes: Uint8Array): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  writeFileSync(join(folder, file), bytes, { mode: 0o600, flush: true })
}

function damageOf(finding: Finding): StoreDamage & Readonly<Record<string, unknown>> {
  return { ...finding, found: textOf(finding) }
}

function textOf({ file, offset, found, from, to }: Finding): string {
  const where = offset === undefined ? file : `${file} at byte ${offset}`
  const keys = to === undefined ? '' : ` (keys from ${shown(from ?? '')} to ${shown(to)})`
  return `${where}: ${found}${keys}`
}

/** A key out of a damaged file may hold anything. */
function shown(key: string): string {
  return key.replace(/[^!-~]/g, '?').slice(0, 100)
}

function isDatabase(db: string): boolean {
  return existsSync(join(db, 'CURRENT'))
}

export function heldError(error: NfltrError | undefined, holderFile: string): NfltrError {
  const holder = readHolder(holderFile)
  const by = holder === undefined ? 'another process' : `process ${holder.pid} on ${holder.host} since ${holder.since}`
  return new NfltrError('store_held', `The store was held by ${by}.`, {
    hint: 'End that process first, or wait for it to end.',
    details: { ...holder },
    ...(error === undefined ? {} : { cause: error }),
  })
}

function refused(found: string, details: Readonly<Record<string, unknown>>, options: LevelStoreOptions): NfltrError {
  return withHint(new NfltrError('store_damaged', `The store was refused: ${found}.`, { details }), options)
}

/** Says what to do about damage. */
function withHint(error: NfltrError, { repairCommand }: LevelStoreOptions): NfltrError {
  if (error.code !== 'store_damaged' || error.hint !== undefined) return error
  const others = 'put back a copy of the folder, or move it away to begin with an empty store'
  const hint =
    repairCommand === undefined
      ? `Nothing was changed. You can ${others}.`
      : `Nothing was changed. Run: ${repairCommand}. It keeps what is sound and says what was lost. Or ${others}.`
  const { message, details, cause } = error
  return new NfltrError('store_damaged', message, { hint, details, ...(cause === undefined ? {} : { cause }) })
}

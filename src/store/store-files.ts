import {
  closeSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { crc32 } from 'node:zlib'
import { NfltrError } from '../core/errors.ts'
import { diskErrorOr } from '../platform/files.ts'
import { isAlive, ownName } from '../platform/process-table.ts'
import type { StoreIdentity } from '../ports/store.ts'
import { storeFormat } from './migrations/migrations.ts'

/** Who has a store open, for the message that a second opener gives. Beside the database, never LevelDB's own LOCK. */
export interface StoreHolder {
  readonly pid: number
  /** Start of the process as its system counts it, so that a pid used again is told apart; absent where unknown. */
  readonly start?: string
  readonly boot_id?: string
  readonly host: string
  /** Wall clock, ISO 8601. */
  readonly since: string
  /** The session that a hub serves. */
  readonly session?: string
  /** The database is not open: another is being made in its place. */
  readonly task?: 'repair'
}

/** Says that the store exists, which it is, and how far it had come at the last opening or orderly end. */
export interface StoreMarker extends StoreIdentity {
  readonly format: number
  readonly commits: number
  /** When the database's folder was made, in nanoseconds: a copy of it was made later. Absent where no file system tells. */
  readonly born?: string
}

export function storeFiles(dir: string) {
  return {
    db: join(dir, 'db'),
    marker: join(dir, 'db.marker'),
    holder: join(dir, 'holder.json'),
    /** Sums of the tables that were checked. */
    sums: join(dir, 'db.sums'),
    /** Damaged tables as they were when they were found, for a repair. */
    evidence: join(dir, 'db.evidence'),
  }
}

/** This process. */
export function thisHolder(session?: string): StoreHolder {
  const { pid, start, bootId } = ownName()
  return {
    pid,
    start,
    boot_id: bootId,
    host: hostname(),
    since: new Date().toISOString(),
    ...(session === undefined ? {} : { session }),
  }
}

/** What the holder's file says; undefined where there is none, or it cannot be understood. */
export function readHolder(path: string): StoreHolder | undefined {
  try {
    const holder: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return isHolder(holder) ? holder : undefined
  } catch {
    return undefined
  }
}

/** Whether the process that left its word here still runs; without start and boot it cannot be told. */
export function holderRuns({ pid, start, boot_id }: StoreHolder): boolean {
  return start !== undefined && boot_id !== undefined && isAlive({ pid, start, bootId: boot_id })
}

function isHolder(value: unknown): value is StoreHolder {
  if (typeof value !== 'object' || value === null) return false
  const { pid, host, since } = value as Partial<Record<keyof StoreHolder, unknown>>
  return typeof pid === 'number' && typeof host === 'string' && typeof since === 'string'
}

/**
 * The marker, or undefined where the store was never used.
 *
 * @param newest - the latest format that its reader knows
 * @throws {NfltrError} `store_damaged` when it is none, `store_newer` when a later version wrote it
 */
export function readMarker(path: string, newest = storeFormat): StoreMarker | undefined {
  const text = tryRead(path)
  if (text === undefined) return undefined
  const marker = parse(text)
  const { format, storeId, incarnation, commits, born, check } = marker ?? {}
  const read = { format, storeId, incarnation, commits, ...(typeof born === 'string' ? { born } : {}) }
  // The first markers had no checksum. Later formats have to keep these fields and it, so that a flipped bit is not one of them.
  const isAsWritten = check === undefined || check === checkOf(read)
  if (isAsWritten && typeof format === 'number' && format > newest) {
    throw new NfltrError('store_newer', `The store of ${path} was written by a later version of nfltr.`, {
      hint: 'Use the version of nfltr that wrote it, or a later one.',
      details: { format },
    })
  }
  if (isAsWritten && isMarker(read)) return read
  throw new NfltrError('store_damaged', `The marker ${path} could not be read.`, { details: { found: 'marker' } })
}

function isMarker(value: Partial<Record<keyof StoreMarker, unknown>>): value is StoreMarker {
  const { format, storeId, incarnation, commits } = value
  const numbers = [format, incarnation, commits]
  return typeof storeId === 'string' && numbers.every((number) => typeof number === 'number')
}

/** @throws {NfltrError} `disk_full` */
export function writeMarker(path: string, marker: StoreMarker): void {
  writeWhole(path, { ...marker, check: checkOf(marker) })
}

function checkOf(marker: Partial<Record<keyof StoreMarker, unknown>>): string {
  const { format, storeId, incarnation, commits, born } = marker
  return crc32(JSON.stringify([format, storeId, incarnation, commits, born])).toString(16)
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? { ...value } : undefined
  } catch {
    return undefined
  }
}

/** When a folder was made, in nanoseconds; undefined where the file system does not tell. Copying a folder makes another. */
export function bornOf(path: string): string | undefined {
  const { birthtimeNs } = statSync(path, { bigint: true })
  return birthtimeNs > 0n ? String(birthtimeNs) : undefined
}

/**
 * Replaces a file whole: written beside it, synced, renamed, and the folder synced, so that no crash leaves half of it.
 *
 * @throws {NfltrError} `disk_full`
 */
export function writeWhole(path: string, value: unknown): void {
  const temporary = `${path}.${process.pid}.new`
  try {
    writeFileSync(temporary, `${JSON.stringify(value)}\n`, { mode: 0o600, flush: true })
    renameSync(temporary, path)
  } catch (error) {
    removeFile(temporary)
    throw diskErrorOr(error, path)
  }
  const folder = openSync(dirname(path), 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

export function removeFile(path: string): void {
  rmSync(path, { force: true })
}

/**
 * Whether LevelDB's tables or logs are there without the file that names its state: a database that lost its head, which
 * LevelDB would replace by an empty one.
 */
export function isHeadless(db: string): boolean {
  try {
    const names = readdirSync(db)
    return !names.includes('CURRENT') && names.some((name) => /\.(?:ldb|sst|log)$/.test(name))
  } catch {
    return false
  }
}

function tryRead(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { NfltrError } from '../core/errors.ts'
import { badPathOr, diskErrorOr, errorCode, linkExclusively } from '../platform/files.ts'
import { ownPrefix } from './level-account.ts'
import type { LevelStore } from './level-store.ts'

const magic = 'nfltr backup\n'
const format = 1
const chunkBytes = 1024 * 1024
/** No record is larger: a text has 16 MiB at most, and its record little more. */
const recordMaxBytes = 64 * 1024 * 1024
const hashBytes = 32

/** The first line of a backup. */
export interface BackupHeader {
  readonly format: number
  readonly hub_id: string
  readonly store_id: string
  readonly incarnation: number
  readonly commits: number
  /** RFC 3339. */
  readonly made_at: string
  readonly version: string
}

export interface BackupFacts extends BackupHeader {
  /** Without the store's own. */
  readonly records: number
  readonly bytes: number
}

/**
 * Writes all records of an open store into one file, as of this moment, while commits go on. The file is there whole or not at
 * all, and only its owner can read it: it holds briefs and results. What stands there already is never written over: it may be
 * the only good backup there is.
 *
 * @throws {NfltrError} `already_exists`; `store_damaged`: a backup of a damaged store would hide what it lacks; `disk_full`;
 *   `invalid_argument` where no file can be made
 */
export async function writeBackup(
  store: LevelStore,
  file: string,
  of: { readonly hubId: string; readonly version: string },
): Promise<BackupFacts> {
  const { storeId, incarnation } = store.identity
  const header: BackupHeader = {
    format,
    hub_id: of.hubId,
    store_id: storeId,
    incarnation,
    commits: store.commits,
    made_at: new Date().toISOString(),
    version: of.version,
  }
  if (existsSync(file)) throw standsThere(file)
  const temporary = `${file}.${randomBytes(8).toString('hex')}.new`
  try {
    const out = await open(temporary, 'wx', 0o600)
    const written = await writeAll(out, header, store).finally(() => out.close())
    await linkExclusively(temporary, file)
    return { ...header, ...written }
  } catch (error) {
    if (error instanceof NfltrError) throw error.code === 'already_exists' ? standsThere(file, error) : error
    throw diskErrorOr(badPathOr(error, { path: file, argument: 'file', deed: 'written' }), file)
  } finally {
    await rm(temporary, { force: true }).catch(() => undefined)
  }
}

function standsThere(file: string, cause?: unknown): NfltrError {
  return new NfltrError('already_exists', `${file} is there already; a backup never writes over anything.`, {
    hint: 'Name a file that is not there yet.',
    details: { argument: 'file' },
    cause,
  })
}

async function writeAll(out: FileHandle, header: BackupHeader, store: LevelStore) {
  const hash = createHash('sha256')
  let [count, records, bytes] = [0, 0, 0]
  let waiting: Uint8Array[] = []
  let waitingBytes = 0
  const put = (part: Uint8Array): void => {
    waiting.push(part)
    waitingBytes += part.length
  }
  const flush = async (): Promise<void> => {
    const chunk = Buffer.concat(waiting)
    waiting = []
    waitingBytes = 0
    hash.update(chunk)
    bytes += chunk.length
    await out.writeFile(chunk)
  }
  put(Buffer.from(`${magic}${JSON.stringify(header)}\n`))
  for await (const [key, record] of store.snapshot()) {
    const keyBytes = Buffer.from(key)
    put(lengths(keyBytes.length, record.length))
    put(keyBytes)
    put(record)
    count += 1
    if (!key.startsWith(ownPrefix)) records += 1
    if (waitingBytes >= chunkBytes) await flush()
  }
  put(lengths(0, count))
  await flush()
  await out.writeFile(hash.digest())
  await out.sync()
  return { records, bytes: bytes + hashBytes }
}

function lengths(first: number, second: number): Uint8Array {
  const bytes = Buffer.alloc(8)
  bytes.writeUInt32BE(first)
  bytes.writeUInt32BE(second, 4)
  return bytes
}

/**
 * Reads the header of a backup, and checks all of it against the hash at its end.
 *
 * @throws {NfltrError} `not_found`; `invalid_argument` where it is no backup, or not whole; `store_newer`
 */
export async function checkBackup(file: string): Promise<BackupHeader> {
  const hash = createHash('sha256')
  let tail = Buffer.alloc(0)
  try {
    for await (const chunk of createReadStream(file, { highWaterMark: chunkBytes })) {
      const all = Buffer.concat([tail, chunk as Buffer])
      hash.update(all.subarray(0, Math.max(0, all.length - hashBytes)))
      tail = all.subarray(Math.max(0, all.length - hashBytes))
    }
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw badPathOr(error, { path: file, argument: 'file', deed: 'read' })
    throw new NfltrError('not_found', `There was no file ${file}.`, {
      hint: 'Name a file that `nfltr hub backup` wrote.',
      details: { argument: 'file' },
    })
  }
  const header = await readHeader(file)
  if (!hash.digest().equals(tail)) throw noBackup(file, 'it is not whole, or not as it was written')
  return header
}

async function readHeader(file: string): Promise<BackupHeader> {
  const reader = new FileReader(await open(file, 'r'))
  try {
    if ((await reader.take(magic.length)).toString('latin1') !== magic) throw noBackup(file, 'it begins otherwise')
    return parseHeader(file, await reader.line())
  } finally {
    await reader.close()
  }
}

function parseHeader(file: string, line: string): BackupHeader {
  let header: Partial<BackupHeader>
  try {
    header = JSON.parse(line) as Partial<BackupHeader>
  } catch {
    throw noBackup(file, 'its first line is none')
  }
  if (typeof header.format === 'number' && header.format > format) {
    throw new NfltrError('store_newer', `The backup ${file} was written by a later version of nfltr.`, {
      hint: 'Use the version of nfltr that wrote it, or a later one.',
      details: { format: header.format },
    })
  }
  if (typeof header.hub_id !== 'string' || typeof header.store_id !== 'string')
    throw noBackup(file, 'its first line is none')
  return header as BackupHeader
}

/** The records of a backup that was checked. */
export async function* backupRecords(file: string): AsyncGenerator<readonly [string, Uint8Array]> {
  const reader = new FileReader(await open(file, 'r'))
  try {
    await reader.take(magic.length)
    await reader.line()
    for (;;) {
      const head = await reader.take(8)
      const [keyLength, length] = [head.readUInt32BE(0), head.readUInt32BE(4)]
      if (keyLength === 0) return
      if (keyLength > 512 || length > recordMaxBytes) throw noBackup(file, 'a record in it is too large')
      yield [(await reader.take(keyLength)).toString('utf8'), await reader.take(length)]
    }
  } finally {
    await reader.close()
  }
}

function noBackup(file: string, why: string): NfltrError {
  return new NfltrError('invalid_argument', `${file} could not be restored: ${why}.`, {
    hint: 'Name a file that nfltr hub backup wrote.',
    details: { argument: 'file' },
  })
}

/** Reads a file piece by piece. */
class FileReader {
  readonly #file: FileHandle
  #buffer = Buffer.alloc(0)

  constructor(file: FileHandle) {
    this.#file = file
  }

  /** Exactly so many bytes, or fewer at the end of the file. */
  async take(length: number): Promise<Buffer> {
    while (this.#buffer.length < length) {
      const chunk = Buffer.alloc(Math.max(chunkBytes, length - this.#buffer.length))
      const { bytesRead } = await this.#file.read(chunk)
      if (bytesRead === 0) break
      this.#buffer = Buffer.concat([this.#buffer, chunk.subarray(0, bytesRead)])
    }
    const taken = this.#buffer.subarray(0, length)
    this.#buffer = this.#buffer.subarray(taken.length)
    return taken
  }

  async line(): Promise<string> {
    const bytes: number[] = []
    for (;;) {
      const [byte] = await this.take(1)
      if (byte === undefined || byte === 10) return Buffer.from(bytes).toString('utf8')
      bytes.push(byte)
    }
  }

  async close(): Promise<void> {
    await this.#file.close()
  }
}

import { DatabaseSync, type StatementSync } from 'node:sqlite'
import type { DiskRecords } from '../src/store/disk-records.ts'

/** How much of the file is kept in memory, in KiB. */
const cacheKiB = 32 * 1024

/** Records that wait to be written: most are overwritten or deleted soon after they were new, and never get there. */
const waitingMax = 50_000

/**
 * The records of many simulated disks in one temporary file, for worlds that have more of them than fit into memory. The file
 * has no name (SQLite removes it as soon as it is open), so that nothing is left of it whatever ends the process.
 */
export class RecordsFile {
  readonly #database: DatabaseSync
  readonly #statements: Statements
  readonly #disks: FileRecords[] = []
  #waiting = 0

  constructor() {
    this.#database = new DatabaseSync('')
    // Nobody opens it again: it neither has to survive nor to be taken back.
    this.#database.exec(`PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -${cacheKiB};
      CREATE TABLE records (disk INTEGER, key TEXT, value BLOB, PRIMARY KEY (disk, key)) WITHOUT ROWID; BEGIN`)
    this.#statements = {
      get: this.#database.prepare('SELECT value FROM records WHERE disk = ? AND key = ?'),
      put: this.#database.prepare('INSERT OR REPLACE INTO records VALUES (?, ?, ?)'),
      delete: this.#database.prepare('DELETE FROM records WHERE disk = ? AND key = ?'),
      keys: this.#database.prepare('SELECT key FROM records WHERE disk = ? AND key >= ? AND key < ? ORDER BY key'),
    }
  }

  /** The records of one more disk: none yet. */
  disk(): DiskRecords {
    const disk = new FileRecords(this.#disks.length, this.#statements, () => this.#wait())
    this.#disks.push(disk)
    return disk
  }

  close(): void {
    this.#database.close()
  }

  #wait(): void {
    this.#waiting += 1
    if (this.#waiting <= waitingMax) return
    for (const disk of this.#disks) disk.write()
    this.#waiting = 0
  }
}

type Statements = Readonly<Record<'get' | 'put' | 'delete' | 'keys', StatementSync>>

class FileRecords implements DiskRecords {
  readonly #disk: number
  readonly #statements: Statements
  readonly #onWaiting: () => void
  /** What is not in the file yet, by key; `undefined`: it is deleted. */
  readonly #waiting = new Map<string, Uint8Array | undefined>()

  constructor(disk: number, statements: Statements, onWaiting: () => void) {
    this.#disk = disk
    this.#statements = statements
    this.#onWaiting = onWaiting
  }

  get(key: string): Uint8Array | undefined {
    if (this.#waiting.has(key)) return this.#waiting.get(key)
    const value = this.#statements.get.get(this.#disk, key)?.['value']
    return value instanceof Uint8Array ? value : undefined
  }

  put(key: string, value: Uint8Array): void {
    this.#set(key, value)
  }

  delete(key: string): void {
    this.#set(key, undefined)
  }

  keys(from: string, below = '\x7f'): readonly string[] {
    this.write()
    return this.#statements.keys.all(this.#disk, from, below).map(({ key }) => String(key))
  }

  /** Puts everything that waits into the file. */
  write(): void {
    for (const [key, value] of this.#waiting) {
      if (value === undefined) this.#statements.delete.run(this.#disk, key)
      else this.#statements.put.run(this.#disk, key, value)
    }
    this.#waiting.clear()
  }

  #set(key: string, value: Uint8Array | undefined): void {
    const isNew = !this.#waiting.has(key)
    this.#waiting.set(key, value)
    if (isNew) this.#onWaiting()
  }
}

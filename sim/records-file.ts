import { DatabaseSync, type StatementSync } from 'node:sqlite'
import type { DiskRecords } from '../src/store/disk-records.ts'

/** How much of the file is kept in memory, in KiB. */
const cacheKiB = 32 * 1024

/**
 * The records of many simulated disks in one temporary file, for worlds that have more of them than fit into memory. The file
 * has no name (SQLite removes it as soon as it is open), so that nothing is left of it whatever ends the process.
 */
export class RecordsFile {
  readonly #database: DatabaseSync
  readonly #statements: Statements
  #disks = 0

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
    this.#disks += 1
    return new FileRecords(this.#disks, this.#statements)
  }

  close(): void {
    this.#database.close()
  }
}

type Statements = Readonly<Record<'get' | 'put' | 'delete' | 'keys', StatementSync>>

class FileRecords implements DiskRecords {
  readonly #disk: number
  readonly #statements: Statements

  constructor(disk: number, statements: Statements) {
    this.#disk = disk
    this.#statements = statements
  }

  get(key: string): Uint8Array | undefined {
    const value = this.#statements.get.get(this.#disk, key)?.['value']
    return value instanceof Uint8Array ? value : undefined
  }

  put(key: string, value: Uint8Array): void {
    this.#statements.put.run(this.#disk, key, value)
  }

  delete(key: string): void {
    this.#statements.delete.run(this.#disk, key)
  }

  keys(from: string, below = '\x7f'): readonly string[] {
    return this.#statements.keys.all(this.#disk, from, below).map(({ key }) => String(key))
  }
}

import { closeSync, fstatSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { MalformedError } from './coding.ts'
import { type LogFlaw, readLog } from './log-file.ts'
import { type LiveTable, type Manifest, readManifest } from './manifest-file.ts'
import type { ReadBytes } from './table-file.ts'

/** A part of a database that is not as it was written. */
export interface Finding {
  /** The file in the database's folder. */
  readonly file: string
  readonly offset?: number
  readonly bytes?: number
  readonly found: string
  /** Keys that the part may hold: above `from`, up to `to`. */
  readonly from?: string
  readonly to?: string
}

export interface OpenTable extends LiveTable {
  readonly file: string
  readonly read: ReadBytes
  /** Closes the file; it stays readable until then, even where LevelDB deletes it meanwhile. */
  readonly close: () => void
}

/** What lies in a database's folder before LevelDB opens it, as far as it belongs to the database. */
export interface Inspection {
  readonly findings: readonly Finding[]
  /** Files were not there, or not of their size: so it would also look if another process opened the database just now. */
  readonly mayBeChanging: boolean
  readonly tables: readonly OpenTable[]
}

/**
 * Looks at a database that nobody has open: whatever LevelDB would take for an answer and pass over in silence (a log that is
 * missing or does not check, a MANIFEST that ends early) is found here, before the opening changes anything. Tables are
 * opened and not read: what each holds is checked as it is needed.
 *
 * @param options - `mayBeTorn`: the machine itself went down, so that the last write may be there in part
 */
export function inspectDatabase(db: string, { mayBeTorn }: { readonly mayBeTorn: boolean }): Inspection {
  const files = new DatabaseFiles(db)
  const manifest = files.manifest()
  if (manifest === undefined) return files.inspection([])
  const logs = liveLogs(db, manifest)
  for (const file of logs) {
    const bytes = files.read(file)
    const flaws = bytes === undefined ? [] : readLog(bytes).flaws
    for (const flaw of flaws) if (flaw.kind === 'damaged' || !mayBeTorn) files.noteFlaw(file, flaw)
  }
  const oldest = logName(manifest.logNumber)
  // LevelDB makes a log before it says so in the MANIFEST, and deletes it after; 0: it never came to its first.
  if (manifest.logNumber > 0 && !logs.includes(oldest)) files.noteMissing({ file: oldest })
  return files.inspection(manifest.tables.flatMap((table) => files.open(table) ?? []))
}

/** The files of one database's folder, and what is wrong with those that were looked at. */
class DatabaseFiles {
  readonly #db: string
  readonly #findings: Finding[] = []
  #mayBeChanging = false

  constructor(db: string) {
    this.#db = db
  }

  inspection(tables: readonly OpenTable[]): Inspection {
    return { findings: this.#findings, mayBeChanging: this.#mayBeChanging, tables }
  }

  manifest(): Manifest | undefined {
    const current = this.read('CURRENT')?.toString('latin1')
    if (current === undefined) return undefined
    if (!namesManifest(current)) {
      this.#findings.push({ file: 'CURRENT', found: 'it named no MANIFEST' })
      return undefined
    }
    const file = current.trimEnd()
    const bytes = this.read(file)
    try {
      const manifest = bytes === undefined ? undefined : readManifest(bytes)
      for (const flaw of manifest?.flaws ?? []) this.noteFlaw(file, flaw)
      return manifest
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error
      this.#findings.push({ file, found: error.message })
      return undefined
    }
  }

  read(file: string): Buffer | undefined {
    try {
      return readFileSync(join(this.#db, file))
    } catch (error) {
      if (!isMissing(error)) throw error
      this.noteMissing({ file })
      return undefined
    }
  }

  open(table: LiveTable): OpenTable | undefined {
    const { number, sizeBytes, smallest: from, largest: to } = table
    const files = ['ldb', 'sst'].map((ending) => `${String(number).padStart(6, '0')}.${ending}`)
    for (const file of files) {
      try {
        const { read, size, close } = openTable(this.#db, file)
        if (size === sizeBytes) return { ...table, file, read, close }
        close()
        this.noteMissing({ file, found: `it had ${size} bytes of ${sizeBytes}`, from, to })
        return undefined
      } catch (error) {
        if (!isMissing(error)) throw error
      }
    }
    this.noteMissing({ file: files[0] ?? '', from, to })
    return undefined
  }

  noteFlaw(file: string, { offset, found }: LogFlaw): void {
    this.#findings.push({ file, offset, found })
  }

  noteMissing(finding: Omit<Finding, 'found'> & { readonly found?: string }): void {
    this.#mayBeChanging = true
    this.#findings.push({ found: 'it was missing', ...finding })
  }
}

/** What CURRENT has to say, exactly: LevelDB would not read it otherwise. */
export function namesManifest(current: string): boolean {
  return /^MANIFEST-\d{6,}\n$/.test(current)
}

/** The logs that are not in tables yet, oldest first. */
export function liveLogs(db: string, { logNumber, previousLogNumber }: Manifest): readonly string[] {
  return logsIn(db).filter((file) => {
    const number = Number.parseInt(file, 10)
    return number >= logNumber || number === previousLogNumber
  })
}

export function logsIn(db: string): readonly string[] {
  return readdirSync(db)
    .filter((file) => /^\d+\.log$/.test(file))
    .sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10))
}

export function openTable(
  db: string,
  file: string,
): { readonly read: ReadBytes; readonly size: number; close(): void } {
  const descriptor = openSync(join(db, file), 'r')
  return {
    size: fstatSync(descriptor).size,
    read: (offset, length, into) => {
      const bytes = into === undefined || into.length < length ? new Uint8Array(length) : into.subarray(0, length)
      const count = readSync(descriptor, bytes, 0, length, offset)
      if (count < length) throw new MalformedError('the file was cut short')
      return bytes
    },
    close: () => closeSync(descriptor),
  }
}

function logName(number: number): string {
  return `${String(number).padStart(6, '0')}.log`
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { NfltrError } from '../core/errors.ts'
import { MalformedError } from './level/coding.ts'
import { logWrites, type Stretch, tableWrites, type Write } from './level/entries.ts'
import { liveLogs, logsIn, namesManifest } from './level/inspection.ts'
import { type Manifest, readManifest } from './level/manifest-file.ts'
import { openRecord } from './record-envelope.ts'

/** Something that could not be read as it was written. */
export interface Loss {
  /**
   * `record`: this key. `range`: what lay between two keys, as far as no newer write of it is elsewhere. `tail`: an unknown
   * number of the last writes. `file`: whatever was in it.
   */
  readonly kind: 'record' | 'range' | 'tail' | 'file'
  readonly found: string
  readonly file?: string
  readonly from?: string
  readonly to?: string
  /** Of a record: `gone`, or at the `older` value that it had before. */
  readonly state?: 'gone' | 'older'
}

/** One flipped bit that was put right: nothing was lost by it. */
export interface Correction {
  readonly file: string
  readonly offset?: number
  readonly found: string
}

/** The newest write of a key that is sound. */
type Winners = Map<string, { readonly sequence: number; readonly isDelete: boolean }>

/**
 * Reads all that is sound out of the files of a database that nobody has open, without LevelDB, whose own repair takes damaged
 * records for good and old ones for new. Nothing is changed.
 */
export class Salvage {
  readonly corrections: Correction[] = []
  readonly losses: Loss[] = []
  /** Keys that stand. */
  count = 0
  readonly #db: string
  readonly #sources: readonly { readonly file: string; readonly isLog: boolean; readonly folder?: string }[]
  readonly #winners: Winners = new Map()

  /**
   * @param options - `mayBeTorn`: the machine itself went down, so that the last write may never have been finished;
   *   `evidence`: a folder with tables that belonged to the database and were damaged, from before a compaction
   */
  constructor(db: string, { mayBeTorn, evidence }: { readonly mayBeTorn: boolean; readonly evidence?: string }) {
    this.#db = db
    const kept = evidence === undefined || !existsSync(evidence) ? [] : readdirSync(evidence)
    this.#sources = [
      ...this.#findSources(mayBeTorn),
      ...kept.map((file) => ({ file, isLog: false, folder: evidence ?? '' })),
    ]
    const bad = new Map<string, { readonly sequence: number; readonly file: string }>()
    for (const { file, stretch } of this.#stretches()) {
      this.#note(file, stretch, mayBeTorn)
      for (const write of stretch.writes) {
        if (isSound(write)) this.#take(write)
        else if (write.sequence >= (bad.get(write.key)?.sequence ?? 0)) bad.set(write.key, { ...write, file })
      }
    }
    for (const [key, { sequence, file }] of bad) this.#noteBad(key, sequence, file)
    for (const { isDelete } of this.#winners.values()) if (!isDelete) this.count += 1
  }

  /** Each key that stands with its sealed record; in no order. */
  *records(): Generator<readonly [key: string, record: Uint8Array]> {
    // The same write may lie in a log and in the table that was made of it.
    const given = new Set<string>()
    for (const { stretch } of this.#stretches()) {
      for (const { key, sequence, value } of stretch.writes) {
        if (value === undefined || given.has(key) || this.#winners.get(key)?.sequence !== sequence) continue
        given.add(key)
        yield [key, value]
      }
    }
  }

  /** A single record. Reads up to the place where it is. */
  find(wanted: string): Uint8Array | undefined {
    const winner = this.#winners.get(wanted)
    if (winner === undefined || winner.isDelete) return undefined
    for (const { stretch } of this.#stretches()) {
      const write = stretch.writes.find(({ key, sequence }) => key === wanted && sequence === winner.sequence)
      if (write?.value !== undefined) return write.value
    }
    return undefined
  }

  *#stretches(): Generator<{ readonly file: string; readonly stretch: Stretch }> {
    for (const { file, isLog, folder } of this.#sources) {
      const read = isLog ? logWrites : tableWrites
      for (const stretch of read(folder ?? this.#db, file)) yield { file, stretch }
    }
  }

  #take({ key, sequence, value }: Write): void {
    const known = this.#winners.get(key)
    if (known === undefined || sequence > known.sequence)
      this.#winners.set(key, { sequence, isDelete: value === undefined })
  }

  #note(file: string, { finding, isCorrected, isTail }: Stretch, mayBeTorn: boolean): void {
    if (finding === undefined || (isTail === true && mayBeTorn)) return
    const { found, offset, from, to } = finding
    if (isCorrected === true) this.corrections.push({ file, ...(offset === undefined ? {} : { offset }), found })
    else if (isTail === true) this.losses.push({ kind: 'tail', file, found })
    else if (to === undefined) this.losses.push({ kind: 'file', file, found })
    else this.losses.push({ kind: 'range', file, found, ...(from === undefined ? {} : { from }), to })
  }

  #noteBad(key: string, sequence: number, file: string): void {
    const winner = this.#winners.get(key)
    if (winner !== undefined && winner.sequence > sequence) return
    const found = 'a record did not match its checksum'
    const state = winner === undefined || winner.isDelete ? 'gone' : 'older'
    this.losses.push({ kind: 'record', file, found, from: key, to: key, state })
  }

  #findSources(mayBeTorn: boolean) {
    const files = readdirSync(this.#db)
    const tables = files.filter((file) => /^\d+\.(?:ldb|sst)$/.test(file)).sort()
    const all = [
      ...tables.map((file) => ({ file, isLog: false })),
      ...logsIn(this.#db).map((file) => ({ file, isLog: true })),
    ]
    const manifest = this.#manifest(files, mayBeTorn)
    if (manifest === undefined) return all
    const logs = liveLogs(this.#db, manifest)
    if (manifest.logNumber > 0 && !logs.some((file) => Number.parseInt(file, 10) === manifest.logNumber)) {
      this.losses.push({
        kind: 'file',
        file: `${String(manifest.logNumber).padStart(6, '0')}.log`,
        found: 'it was missing',
      })
      return all
    }
    const numberOf = (file: string): number => Number.parseInt(file, 10)
    const present = new Map(tables.map((file) => [numberOf(file), file]))
    return [
      ...manifest.tables.flatMap(({ number, smallest, largest }) => {
        const file = present.get(number)
        if (file !== undefined) return [{ file, isLog: false }]
        const missing = `${String(number).padStart(6, '0')}.ldb`
        this.losses.push({ kind: 'range', file: missing, found: 'it was missing', from: smallest, to: largest })
        return []
      }),
      ...logs.map((file) => ({ file, isLog: true })),
    ]
  }

  /** Undefined where it does not say which files belong to the database: then all that are there are read. */
  #manifest(files: readonly string[], mayBeTorn: boolean): Manifest | undefined {
    const path = join(this.#db, 'CURRENT')
    const text = existsSync(path) ? readFileSync(path, 'latin1') : ''
    const current = text.trimEnd()
    const newest = files
      .filter((file) => /^MANIFEST-\d+$/.test(file))
      .sort((a, b) => manifestNumber(a) - manifestNumber(b))
      .at(-1)
    const named = namesManifest(text) && files.includes(current)
    const file = named ? current : newest
    if (!named) this.corrections.push({ file: 'CURRENT', found: 'it named no MANIFEST that is there' })
    if (file === undefined) return undefined
    try {
      const manifest = readManifest(readFileSync(join(this.#db, file)))
      const flaws = manifest.flaws.filter(({ kind }) => kind !== 'torn' || !mayBeTorn)
      for (const { offset, found } of flaws) this.corrections.push({ file, offset, found })
      return flaws.every(({ isCorrected }) => isCorrected) ? manifest : undefined
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error
      this.corrections.push({ file, found: error.message })
      return undefined
    }
  }
}

function manifestNumber(file: string): number {
  return Number.parseInt(file.slice('MANIFEST-'.length), 10)
}

function isSound({ key, value }: Write): boolean {
  if (value === undefined) return true
  try {
    openRecord(key, value)
    return true
  } catch (error) {
    if (error instanceof NfltrError && error.code === 'store_damaged') return false
    throw error
  }
}

import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DiskRecords } from '../src/store/disk-records.ts'

/** Bytes that are written to the file at a time. */
const chunkBytes = 1024 * 1024

/** Bytes of a record's length, which stands before it. */
const headBytes = 4

/** What is read of a record at first: most are shorter. */
const readBytes = 4 * 1024

/** Records that wait to be written: most are overwritten or deleted soon after they were new, and never get there. */
const waitingMax = 50_000

/**
 * The records of many simulated disks in one temporary file, for worlds that have more of them than fit into memory; where each
 * of them is, is in memory. The file is only ever added to, and has no name once it is open: whatever ends the process,
 * nothing is left of it.
 */
export class RecordsFile {
  readonly #file: number
  readonly #disks: FileRecords[] = []
  readonly #chunk = Buffer.allocUnsafe(chunkBytes)
  /** Bytes of the chunk that are not in the file yet. */
  #used = 0
  #written = 0
  #waiting = 0

  constructor() {
    const folder = mkdtempSync(join(tmpdir(), 'nfltr-growth-'))
    this.#file = openSync(join(folder, 'records'), 'w+')
    rmSync(folder, { recursive: true })
  }

  /** The records of one more disk: none yet. */
  disk(): DiskRecords {
    const disk = new FileRecords(this, () => this.#wait())
    this.#disks.push(disk)
    return disk
  }

  /** @returns where it is */
  append(value: Uint8Array): number {
    const at = this.#written + this.#used
    const bytes = headBytes + value.length
    if (this.#used + bytes > chunkBytes) this.#write(this.#chunk.subarray(0, this.#used))
    if (bytes > chunkBytes) {
      const head = Buffer.alloc(headBytes)
      head.writeUInt32LE(value.length)
      this.#write(Buffer.concat([head, value]))
      return at
    }
    this.#chunk.writeUInt32LE(value.length, this.#used)
    this.#chunk.set(value, this.#used + headBytes)
    this.#used += bytes
    return at
  }

  read(at: number): Uint8Array {
    const first = this.#bytes(at, readBytes)
    const end = headBytes + new DataView(first.buffer, first.byteOffset).getUint32(0, true)
    return (end <= first.length ? first : this.#bytes(at, end)).subarray(headBytes, end)
  }

  close(): void {
    closeSync(this.#file)
  }

  /** So many bytes from there on, or fewer where the file or the chunk ends. */
  #bytes(at: number, length: number): Uint8Array {
    const inChunk = at - this.#written
    if (inChunk >= 0) return Uint8Array.from(this.#chunk.subarray(inChunk, Math.min(inChunk + length, this.#used)))
    const bytes = new Uint8Array(length)
    return bytes.subarray(0, readSync(this.#file, bytes, 0, length, at))
  }

  #write(bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length; ) done += writeSync(this.#file, bytes, done)
    this.#written += bytes.length
    this.#used = 0
  }

  #wait(): void {
    this.#waiting += 1
    if (this.#waiting <= waitingMax) return
    for (const disk of this.#disks) disk.write()
    this.#waiting = 0
  }
}

class FileRecords implements DiskRecords {
  readonly #file: RecordsFile
  readonly #onWaiting: () => void
  /** What is not in the file yet, by key; `undefined`: it is deleted. */
  readonly #waiting = new Map<string, Uint8Array | undefined>()
  /** Where each record is that is in the file. */
  readonly #places = new Map<string, number>()

  constructor(file: RecordsFile, onWaiting: () => void) {
    this.#file = file
    this.#onWaiting = onWaiting
  }

  get(key: string): Uint8Array | undefined {
    if (this.#waiting.has(key)) return this.#waiting.get(key)
    const place = this.#places.get(key)
    return place === undefined ? undefined : this.#file.read(place)
  }

  put(key: string, value: Uint8Array): void {
    this.#set(key, value)
  }

  delete(key: string): void {
    this.#set(key, undefined)
  }

  keys(from: string, below = '\x7f'): readonly string[] {
    this.write()
    return [...this.#places.keys()].filter((key) => key >= from && key < below).sort()
  }

  /** Puts everything that waits into the file. */
  write(): void {
    for (const [key, value] of this.#waiting) {
      if (value === undefined) this.#places.delete(key)
      else this.#places.set(key, this.#file.append(value))
    }
    this.#waiting.clear()
  }

  #set(key: string, value: Uint8Array | undefined): void {
    const isNew = !this.#waiting.has(key)
    this.#waiting.set(key, value)
    if (isNew) this.#onWaiting()
  }
}

import { type FileHandle, open } from 'node:fs/promises'
import { NfltrError } from '../core/errors.ts'
import type { JournalRecord } from '../core/journal.ts'
import { type Decoded, decodeRecord, holdsSoundRecord } from './journal.ts'

/** How much is read at once where the record at hand does not ask for more. */
const chunkBytes = 256 * 1024

/** How far behind a record that does not check a sound one is looked for. */
const searchMaxBytes = 64 * 1024 * 1024

/** Reads one journal from an offset on, while it grows or after its end. Not for two readers at once. */
export interface JournalReader {
  /** Where the next record begins. */
  offset(): number
  /**
   * Records up to an offset that the keeper has named as synced: there all must be whole.
   *
   * @throws {NfltrError} `journal_damaged`
   */
  readTo(end: number): AsyncGenerator<JournalRecord, void, undefined>
  /**
   * All that is there now, made durable first: what a keeper left behind, be it synced or not. A record that was not
   * finished, or noise that a power cut left at the end, ends the reading; damage with sound records behind it throws.
   *
   * @throws {NfltrError} `journal_damaged`
   */
  readRest(): AsyncGenerator<JournalRecord, void, undefined>
  close(): Promise<void>
}

/** @throws the system's `ENOENT` where there is no journal */
export async function openJournal(path: string, fromOffset: number): Promise<JournalReader> {
  const file = await open(path, 'r')
  let offset = fromOffset
  let held: Buffer = Buffer.alloc(0)

  /** Makes sure that `bytes` bytes from `offset` on are held, or all up to `end`. */
  async function hold(bytes: number, end: number): Promise<void> {
    const wanted = Math.min(Math.max(bytes, chunkBytes), end - offset)
    if (held.length >= Math.min(bytes, end - offset)) return
    held = Buffer.concat([held, await readAt(file, offset + held.length, wanted - held.length)])
  }

  /** The record at `offset`, with as many bytes held as it needs or as there are before `end`. */
  async function decodeNext(end: number): Promise<Decoded> {
    await hold(1, end)
    for (;;) {
      const decoded = decodeRecord(held, offset)
      const before = held.length
      if (decoded.type === 'incomplete') await hold(decoded.bytes, end)
      if (decoded.type !== 'incomplete' || held.length === before) return decoded
    }
  }

  function advance(record: JournalRecord): void {
    held = held.subarray(record.nextOffset - offset)
    offset = record.nextOffset
  }

  async function isTail(decoded: Decoded, end: number): Promise<boolean> {
    if (decoded.type === 'incomplete') return true
    const behind = offset + (decoded.type === 'damaged' ? (decoded.bytes ?? 1) : 1)
    if (behind >= end) return true
    return !holdsSoundRecord(await readAt(file, behind, Math.min(end - behind, searchMaxBytes)))
  }

  async function* readTo(end: number): AsyncGenerator<JournalRecord, void, undefined> {
    while (offset < end) {
      const decoded = await decodeNext(end)
      if (decoded.type !== 'record') throw damaged(path, offset)
      advance(decoded.record)
      yield decoded.record
    }
  }

  async function* readRest(): AsyncGenerator<JournalRecord, void, undefined> {
    // Whoever wrote this may have died before it was synced; what is built on it must not be ahead of the disk.
    await file.sync()
    const { size } = await file.stat()
    while (offset < size) {
      const decoded = await decodeNext(size)
      if (decoded.type !== 'record') {
        // What a living keeper has half written is read again when it is whole.
        held = Buffer.alloc(0)
        if (await isTail(decoded, size)) return
        throw damaged(path, offset)
      }
      advance(decoded.record)
      yield decoded.record
    }
  }

  return { offset: () => offset, readTo, readRest, close: () => file.close() }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(Math.max(0, length))
  let done = 0
  while (done < bytes.length) {
    const { bytesRead } = await file.read(bytes, done, bytes.length - done, position + done)
    if (bytesRead === 0) break
    done += bytesRead
  }
  return bytes.subarray(0, done)
}

function damaged(path: string, offset: number): NfltrError {
  return new NfltrError('journal_damaged', `${path} was damaged at byte ${offset}; what lies before is sound.`, {
    details: { offset },
    hint: 'Check the disk of this machine.',
  })
}

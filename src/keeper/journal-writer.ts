import { randomBytes } from 'node:crypto'
import { type FileHandle, link, open, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { NfltrError } from '../core/errors.ts'
import type { JournalBody } from '../core/journal.ts'
import { pause } from '../platform/exit-proof.ts'
import { diskErrorOr, errorCode, syncFolder } from '../platform/files.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import { encodeRecord, journalMagic } from './journal.ts'

/** Grouped records are on disk after this time or this many bytes, whichever comes first (rule 20). */
const groupMs = 250
const groupBytes = 64 * 1024

/** Above this many bytes waiting for the disk the command's output is not read on; below half of it again. */
const pressureBytes = 1024 * 1024

/** Pause before a write that failed is tried again: the disk may have room by then. */
const retryMs = 500

/** The only writer of a journal. */
export interface JournalWriter {
  /** Adds a record that is synced together with others, soon. */
  append(body: JournalBody): void
  /** Adds a record and resolves once it and all before it are synced. Waits as long as the disk has no room. */
  appendDurably(body: JournalBody): Promise<void>
  /** Everything before this offset is synced. */
  syncedOffset(): number
}

export interface JournalEvents {
  /** The synced part of the journal has grown. */
  readonly onSynced: (offset: number) => void
  /** True: more waits for the disk than should; do not read on. False: read on. */
  readonly onPressure: (isUnderPressure: boolean) => void
}

/**
 * Creates the journal with its header as a whole: no reader ever sees one without it.
 *
 * @throws {NfltrError} `already_exists` where the attempt has a journal, be it of another keeper or of a node that
 *   declared it void; `disk_full`
 */
export async function createJournal(
  path: string,
  header: JournalBody & { readonly type: 'header' },
  options: { readonly clock: Clock; readonly events: JournalEvents },
): Promise<JournalWriter> {
  const { clock, events } = options
  const startedAtMs = clock.nowMs()
  const temporary = join(dirname(path), `.new-${randomBytes(8).toString('hex')}`)
  const first = Buffer.concat([journalMagic, encodeRecord(header, 0)])
  try {
    const file = await open(temporary, 'wx', 0o600)
    await file.writeFile(first)
    await file.sync()
    await link(temporary, path)
    await rm(temporary)
    await syncFolder(dirname(path))
    return writer({ file, clock, events, startedAtMs, offset: first.length })
  } catch (error) {
    await rm(temporary, { force: true })
    if (errorCode(error) === 'EEXIST')
      throw new NfltrError('already_exists', `${path} was created before.`, { cause: error })
    throw diskErrorOr(error, path)
  }
}

function writer(start: {
  readonly file: FileHandle
  readonly clock: Clock
  readonly events: JournalEvents
  readonly startedAtMs: number
  readonly offset: number
}): JournalWriter {
  const { file, clock, events, startedAtMs } = start
  let syncedOffset = start.offset
  let appendedOffset = start.offset
  let pending: Buffer[] = []
  let isUrgent = false
  let isFlushing = false
  let isUnderPressure = false
  let groupTimer: Timer | undefined
  const waiters: { readonly offset: number; readonly resolve: () => void }[] = []

  function add(body: JournalBody): void {
    const record = encodeRecord(body, clock.nowMs() - startedAtMs)
    pending.push(record)
    appendedOffset += record.length
    tellPressure()
  }

  function tellPressure(): void {
    const waitingBytes = appendedOffset - syncedOffset
    const next = isUnderPressure ? waitingBytes > pressureBytes / 2 : waitingBytes > pressureBytes
    if (next === isUnderPressure) return
    isUnderPressure = next
    events.onPressure(next)
  }

  async function flush(): Promise<void> {
    if (isFlushing) return
    isFlushing = true
    while (pending.length > 0 && (isUrgent || appendedOffset - syncedOffset >= groupBytes)) {
      groupTimer?.cancel()
      groupTimer = undefined
      isUrgent = false
      const batch = Buffer.concat(pending)
      pending = []
      await writeUntilSynced(batch)
      syncedOffset += batch.length
      while (waiters[0] !== undefined && waiters[0].offset <= syncedOffset) waiters.shift()?.resolve()
      events.onSynced(syncedOffset)
      tellPressure()
    }
    isFlushing = false
    if (pending.length > 0) armGroupTimer()
  }

  /**
   * Writes at a fixed place and from the start of the batch each time: a write that was cut short by a full disk, or
   * whose sync failed and may have lost its pages, is simply done over. Nothing is dropped; the command waits instead.
   */
  async function writeUntilSynced(batch: Buffer): Promise<void> {
    for (;;) {
      try {
        for (let done = 0; done < batch.length; ) {
          const { bytesWritten } = await file.write(batch, done, batch.length - done, syncedOffset + done)
          done += bytesWritten
        }
        await file.datasync()
        return
      } catch {
        await pause(clock, retryMs)
      }
    }
  }

  function armGroupTimer(): void {
    groupTimer ??= clock.after(groupMs, () => {
      groupTimer = undefined
      isUrgent = true
      void flush()
    })
  }

  return {
    append: (body) => {
      add(body)
      if (appendedOffset - syncedOffset >= groupBytes) void flush()
      else armGroupTimer()
    },
    appendDurably: (body) => {
      add(body)
      isUrgent = true
      const isSynced = new Promise<void>((resolve) => waiters.push({ offset: appendedOffset, resolve }))
      void flush()
      return isSynced
    },
    syncedOffset: () => syncedOffset,
  }
}

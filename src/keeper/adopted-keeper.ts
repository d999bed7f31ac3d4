import { NfltrError } from '../core/errors.ts'
import type { JournalRecord } from '../core/journal.ts'
import { signalProcess } from '../platform/end-tree.ts'
import { errorCode } from '../platform/files.ts'
import { isAlive, type ProcessName } from '../platform/process-table.ts'
import type { Clock } from '../ports/clock.ts'
import type { Keeper } from '../ports/keepers.ts'
import { type JournalHeader, journalPath } from './attempt-folder.ts'
import { connectKeeper, type KeeperConnection } from './connection.ts'
import type { KeeperRequest } from './frames.ts'
import { type JournalReader, openJournal } from './journal-reader.ts'

/** Waits between tries to reach a keeper that runs and does not answer: its socket was removed, or it is about to end. */
const reconnectFirstMs = 20
const reconnectCapMs = 1_000

/** A keeper as the node holds it: reached over its socket while it lives, read from its journal always. */
export interface AdoptedKeeper extends Keeper {
  /** The connection, made where there is none; `undefined` when the keeper is gone for good. */
  connected(): Promise<KeeperConnection | undefined>
}

export function adoptKeeper(
  attempt: { readonly attemptId: string; readonly folder: string; readonly header: JournalHeader | undefined },
  clock: Clock,
): AdoptedKeeper {
  const { attemptId, folder, header } = attempt
  const letGo = new AbortController()
  let connection: Promise<KeeperConnection | undefined> | undefined

  async function connected(): Promise<KeeperConnection | undefined> {
    if (connection !== undefined && (await connection)?.isOpen() === true) return connection
    if (header === undefined || letGo.signal.aborted) return undefined
    const made = reach(header, clock, letGo.signal)
    connection = made
    made.catch(() => {
      if (connection === made) connection = undefined
    })
    return made
  }

  async function request(message: KeeperRequest): Promise<void> {
    for (;;) {
      const link = await connected()
      if (link === undefined) throw gone(attemptId)
      try {
        return await link.request(message)
      } catch (error) {
        // Every request may be repeated: what was done before is not done again.
        if (!(error instanceof NfltrError) || error.code !== 'link_down') throw error
      }
    }
  }

  return {
    attemptId,
    connected,
    records: ({ fromOffset, signal }) =>
      readRecords({
        folder,
        attemptId,
        fromOffset,
        header,
        connected,
        signal: AbortSignal.any([signal, letGo.signal]),
      }),
    write: ({ messageId, bytes }) => request({ type: 'write', messageId, bytes: base64(bytes) }),
    answer: ({ requestId, bytes }) => request({ type: 'answer', requestId, bytes: base64(bytes) }),
    closeInput: () => request({ type: 'close_input' }),
    stop: ({ graceMs }) => request({ type: 'stop', graceMs }),
    async [Symbol.asyncDispose]() {
      letGo.abort()
      const link = await connection?.catch(() => undefined)
      link?.close()
    },
  }
}

export function keeperName(header: JournalHeader): ProcessName {
  return { pid: header.keeperPid, start: header.keeperStart, bootId: header.bootId }
}

/** Connects, and goes on trying for as long as the keeper's process runs. */
async function reach(header: JournalHeader, clock: Clock, signal: AbortSignal): Promise<KeeperConnection | undefined> {
  for (let waitMs = reconnectFirstMs; !signal.aborted; waitMs = Math.min(waitMs * 2, reconnectCapMs)) {
    // Looked at before the attempt: a keeper that was gone then cannot have answered.
    const isRunning = isAlive(keeperName(header))
    if (!isRunning) return undefined
    try {
      return await connectKeeper(header)
    } catch (error) {
      if (!(error instanceof NfltrError) || error.code !== 'link_down') throw error
      const code = errorCode(error.cause)
      // Its socket was cleaned away (a logout, a tidy temporary folder): ask for a new one.
      if (code === 'ENOENT' || code === 'ECONNREFUSED') signalProcess(keeperName(header), 'SIGUSR2')
    }
    await wait(waitMs, clock, signal)
  }
  return undefined
}

interface Reading {
  readonly folder: string
  readonly attemptId: string
  readonly fromOffset: number
  readonly header: JournalHeader | undefined
  readonly connected: () => Promise<KeeperConnection | undefined>
  readonly signal: AbortSignal
}

async function* readRecords(reading: Reading): AsyncGenerator<JournalRecord, void, undefined> {
  const { folder, attemptId, fromOffset, header, signal } = reading
  if (header === undefined) throw gone(attemptId)
  const reader = await openJournal(journalPath(folder), fromOffset)
  try {
    for await (const record of follow(reader, reading)) {
      if (signal.aborted) return
      yield record
      if (record.type === 'exit') return
    }
    if (!signal.aborted) throw gone(attemptId)
  } finally {
    await reader.close()
  }
}

/** All records up to the keeper's end: live ones as they are synced, the last ones from what it left behind. */
async function* follow(reader: JournalReader, reading: Reading): AsyncGenerator<JournalRecord, void, undefined> {
  const { connected, signal } = reading
  while (!signal.aborted) {
    const link = await connected()
    if (link === undefined) {
      if (!signal.aborted) yield* reader.readRest()
      return
    }
    while (link.isOpen() && !signal.aborted) {
      const changed = link.changed()
      if (reader.offset() < link.syncedOffset()) yield* reader.readTo(link.syncedOffset())
      else await orAborted(changed, signal)
    }
    // The farewell of a keeper that ended may have come with the end of the connection.
    if (!signal.aborted) yield* reader.readTo(link.syncedOffset())
  }
}

function gone(attemptId: string): NfltrError {
  return new NfltrError('keeper_gone', `The keeper of ${attemptId} was gone.`, {
    hint: 'What it wrote is in its journal; a sweep ends what it left running.',
  })
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

function orAborted(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      resolve()
      return
    }
    const onAbort = (): void => resolve()
    signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

function wait(delayMs: number, clock: Clock, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = clock.after(delayMs, resolve)
  return orAborted(promise, signal).finally(() => timer.cancel())
}

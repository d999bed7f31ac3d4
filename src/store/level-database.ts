import { Level } from 'level'
import { NfltrError } from '../core/errors.ts'

/** LevelDB with keys as text and values as bytes. Only the writer writes to it. */
export type Database = Level<string, Uint8Array>

/**
 * Opens LevelDB's own files, and takes its lock.
 *
 * @param options - `createIfMissing`: false once a store is known to have been there, since LevelDB would start a new one
 *   where the file that names its state is missing
 * @throws {NfltrError} `store_held`, `store_damaged`, `store_failed`, `disk_full`
 */
export async function openDatabase(path: string, options: { readonly createIfMissing: boolean }): Promise<Database> {
  const { createIfMissing } = options
  const database: Database = new Level(path, { keyEncoding: 'utf8', valueEncoding: 'view', createIfMissing })
  try {
    await database.open()
    return database
  } catch (error) {
    throw openError(error, path)
  }
}

function openError(error: unknown, path: string): NfltrError {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : undefined
  if (codeOf(cause) === 'LEVEL_LOCKED')
    return new NfltrError('store_held', `The store ${path} was held.`, { cause: error })
  const found = (cause ?? error) instanceof Error ? ((cause ?? error) as Error).message : String(error)
  if (isOutside(found)) return storeError(cause ?? error)
  return new NfltrError('store_damaged', `The store ${path} could not be opened: ${found}.`, {
    details: { found },
    cause: error,
  })
}

/** What a failed read or write becomes: the disk's own trouble, or damage. */
export function storeError(error: unknown): NfltrError {
  if (error instanceof NfltrError) return error
  const found = error instanceof Error ? (error.cause instanceof Error ? error.cause : error).message : String(error)
  if (/no space left|disk quota/i.test(found)) {
    return new NfltrError('disk_full', 'No space was left on the disk of the store.', {
      hint: 'Free some space, then start again; what was acknowledged is there.',
      details: { found },
      cause: error,
    })
  }
  const code = codeOf(error)
  if (code === 'LEVEL_CORRUPTION') {
    return new NfltrError('store_damaged', `The store is damaged: ${found}.`, { details: { found }, cause: error })
  }
  return new NfltrError('store_failed', `The disk of the store gave an error: ${found}.`, {
    hint: 'Start again; what was acknowledged is there.',
    details: { found },
    cause: error,
  })
}

/** Trouble around the database, not in it. */
function isOutside(message: string): boolean {
  return /no space left|disk quota|permission denied|too many open files|read-only|input\/output error/i.test(message)
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

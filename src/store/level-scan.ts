import { NfltrError } from '../core/errors.ts'
import type { Database } from './level-database.ts'
import { storeError } from './level-database.ts'

/** How much one read of a scan brings into memory, beside the value that crosses the line; `fillCache`: it reads but once. */
const pageOptions = { highWaterMarkBytes: 256 * 1024, fillCache: false }
const pageEntries = 256

export type RawEntry = readonly [key: string, record: Uint8Array]

/** Entries in key order, as of the moment of the call, read a page at a time; none of them is checked. */
export async function* pagesOf(
  database: Database,
  range: { readonly gte?: string; readonly lt?: string; readonly limit?: number },
): AsyncGenerator<readonly RawEntry[]> {
  const iterator = database.iterator({ ...range, ...pageOptions })
  try {
    let coming = iterator.nextv(pageEntries)
    for (;;) {
      const page = await coming
      if (page.length === 0) return
      // The next page is read while this one is used; what is wrong with it is told when it is asked for.
      coming = iterator.nextv(pageEntries)
      coming.catch(() => undefined)
      yield page
    }
  } catch (error) {
    throw scanError(error)
  } finally {
    await iterator.close()
  }
}

/** A table that cannot be read is damage; the disk's own trouble is not. */
function scanError(error: unknown): NfltrError {
  const found = storeError(error)
  if (found.code !== 'store_failed' || /too many open files|input\/output error/i.test(found.message)) return found
  const said = String(found.details['found'])
  return new NfltrError('store_damaged', `The store is damaged: a part of it could not be read (${said}).`, {
    details: { found: said },
    cause: error,
  })
}

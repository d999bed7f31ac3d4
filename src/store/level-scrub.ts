import { setTimeout as pause } from 'node:timers/promises'
import { NfltrError } from '../core/errors.ts'
import type { TableGuard } from './level/table-guard.ts'
import { Tally } from './level-account.ts'
import type { Database } from './level-database.ts'
import { pagesOf } from './level-scan.ts'

/** Work at a stretch, and the pause after it: about a fifth of one core while it lasts. In milliseconds. */
const stretchMs = 4
const pauseMs = 16

/** What was found to be wrong, and whether everything was looked at. */
export interface ScrubFinding {
  readonly found: string
  readonly key?: string
}

/**
 * Looks once at everything that was there at the start, a little at a time: first at the blocks of the tables, then at each
 * record, and at all of them against the account kept with each commit.
 *
 * @param tell - called with what is wrong, as it is found
 */
export async function scrub(
  parts: {
    readonly database: Database
    readonly guard: TableGuard
    readonly signal: AbortSignal
    readonly delayMs: number
    /** The format of the records. */
    readonly format: number
  },
  tell: { readonly block: () => void; readonly record: (finding: ScrubFinding) => void },
): Promise<void> {
  const { database, guard, signal, delayMs, format } = parts
  await pause(delayMs, undefined, { signal, ref: false })
  const rest = paced(signal)
  for (const findings of guard.checkRest()) {
    if (findings.length > 0) tell.block()
    await rest()
  }
  const tally = new Tally(format)
  let isWhole = guard.damaged.length === 0
  for await (const page of pagesOf(database, {})) {
    for (const [key, record] of page) {
      try {
        tally.add(key, record)
      } catch (error) {
        if (!(error instanceof NfltrError)) throw error
        isWhole = false
        tell.record({ found: error.message, key })
      }
    }
    await rest()
  }
  const objection = tally.objection()
  if (isWhole && objection !== undefined) tell.record({ found: objection })
}

function paced(signal: AbortSignal): () => Promise<void> {
  let sinceMs = performance.now()
  return async () => {
    if (performance.now() - sinceMs < stretchMs) return
    await pause(pauseMs, undefined, { signal, ref: false })
    sinceMs = performance.now()
  }
}

import { NfltrError } from '../../core/errors.ts'
import { RestartGuard } from '../../store/restart-guard.ts'
import type { Teardown } from './teardown.ts'

/** Failures of the process or its store; everything else is a refusal that says itself what to do. */
const deadly: ReadonlySet<string> = new Set(['store_failed', 'store_damaged', 'journal_damaged', 'internal'])

/**
 * Counts this start against the store (rule 39), and what becomes of it, whichever way it ends.
 *
 * @throws {NfltrError} `restart_storm`
 */
export function guardRestarts(
  dir: string,
  options: { readonly isAskedFor: boolean; readonly command: string; readonly teardown: Teardown },
): { readonly ready: () => void; readonly failed: (error: unknown) => void } {
  const guard = RestartGuard.begin(dir, { ...options, wallMs: () => Date.now() })
  let isOver = false
  const failed = (error: unknown): void => {
    if (isOver) return
    isOver = true
    if (error instanceof NfltrError && !deadly.has(error.code)) guard.refused()
    else guard.died(error instanceof Error ? error.message : String(error))
  }
  // What nobody catches ends the process at once: this is the last that it does.
  process.on('uncaughtExceptionMonitor', failed)
  options.teardown.add(async () => {
    if (!isOver) guard.ended()
    isOver = true
  })
  return { ready: () => guard.ready(), failed }
}

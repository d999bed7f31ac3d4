import type { NodeAttempt } from '../core/node-attempt-state.ts'
import { isOpen } from '../core/node-attempt-step.ts'
import type { FoundAttempt } from '../ports/keepers.ts'
import type { Attempts } from './attempts.ts'
import type { Launches } from './launches.ts'
import type { Receipts } from './receipts.ts'
import type { Retention } from './retention.ts'

/**
 * Attempts with a folder and without a record: another store's. Those whose folder does not tell whose they are, are left alone
 * until their hub asks.
 */
export function orphansOf(found: readonly FoundAttempt[], attempts: Attempts): readonly FoundAttempt[] {
  return found.filter(({ attemptId }) => attempts.get(attemptId) === undefined)
}

/**
 * Goes on where the former run stood, by what is on disk and nothing else: the store says what was decided, the journals
 * what happened. Called once, before any hub is served, so that the inventory tells the truth.
 *
 * - `claimed`: nothing was started. The folders are made once more.
 * - `launching` without a folder: the keeper's folder comes before everything else of it, so nothing was started either.
 * - `launching` with a folder whose journal shows that nothing was started, and whose keeper is gone: it is rejected.
 * - `launching` or `running` with a folder otherwise: whatever state its keeper is in, the journal is read from its beginning, and
 *   ends with an exit record or with the proof that nothing runs.
 * - `running` without a folder: somebody removed it; there is only an end to prove.
 * - `collected` without a receipt: it is signed again.
 * - ended in whatever way: its temporary folder goes, in case the former run died before it had removed it.
 *
 * @returns how many turns were taken over
 */
export function recover(
  found: readonly FoundAttempt[],
  parts: {
    readonly attempts: Attempts
    readonly launches: Launches
    readonly receipts: Receipts
    readonly retention: Retention
  },
): number {
  const { attempts, launches, receipts, retention } = parts
  const folders = new Map(found.map((attempt) => [attempt.attemptId, attempt]))
  let taken = 0
  for (const state of attempts.all()) {
    const { attemptId } = state.ref
    const folder = folders.get(attemptId)
    if (state.phase === 'claimed') launches.prepare(attemptId)
    else if (state.phase === 'launching' && folder === undefined) launches.launch(attemptId)
    else if (state.phase === 'launching' && folder?.state === 'never_launched') launches.neverLaunched(attemptId)
    else if (isStarted(state)) launches.takeOver(attemptId, hasJournal(folder))
    else if (state.phase === 'collected' && state.receipt === undefined) receipts.make(attemptId)
    if (isStarted(state)) taken += 1
  }
  retention.discardLeft(attempts.all().filter((state) => !isOpen(state)))
  return taken
}

function isStarted(state: NodeAttempt): boolean {
  return state.phase === 'launching' || state.phase === 'running'
}

/** A keeper that never got to its command has a journal that says nothing of it. */
function hasJournal(folder: FoundAttempt | undefined): boolean {
  return folder !== undefined && folder.state !== 'never_launched'
}

import { NfltrError } from '../core/errors.ts'
import type { ExitProof } from '../core/journal.ts'
import type { Clock } from '../ports/clock.ts'
import type { Keeper, Keepers } from '../ports/keepers.ts'
import type { Turn } from './turn.ts'

/** Wait before a keeper is asked again after a failure that says nothing about the turn, in milliseconds. */
const retryMs = 1_000

/** Resolves after `delayMs`, or at once when the signal is aborted. */
export function pause(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const finish = (): void => {
      timer.cancel()
      signal.removeEventListener('abort', finish)
      resolve()
    }
    const timer = clock.after(delayMs, finish)
    signal.addEventListener('abort', finish, { once: true })
  })
}

/**
 * Shows that nothing of an attempt runs, for as long as it takes: no terminal outcome comes without the proof (rule 21).
 *
 * @returns undefined only when the signal was aborted first
 */
export async function prove(
  ports: { readonly keepers: Keepers; readonly clock: Clock },
  attemptId: string,
  signal: AbortSignal,
): Promise<ExitProof | undefined> {
  while (!signal.aborted) {
    try {
      return await ports.keepers.sweep(attemptId)
    } catch {
      await pause(ports.clock, retryMs, signal)
    }
  }
  return undefined
}

/** Reads a turn's journal to its end, through as many failures as it takes; ends the turn when there is no more to come. */
export async function follow(
  ports: { readonly keepers: Keepers; readonly clock: Clock },
  options: { readonly turn: Turn; readonly keeper: Keeper; readonly signal: AbortSignal },
): Promise<void> {
  const { turn, signal } = options
  let { keeper } = options
  const { attemptId } = keeper
  while (!signal.aborted) {
    let how: 'exit' | 'keeper_gone' | 'journal_damaged' | undefined
    try {
      const proof = await readAll(keeper, turn, signal)
      if (proof === undefined || signal.aborted) return
      await turn.finish({ how: 'exit', proof })
      return
    } catch (error) {
      how = endOf(error)
    }
    if (how !== undefined) {
      const proof = await prove(ports, attemptId, signal)
      if (proof === undefined) return
      await turn.finish({ how, proof })
      return
    }
    await pause(ports.clock, retryMs, signal)
    keeper = await readopt(ports, keeper, signal)
    turn.replaceKeeper(keeper)
  }
}

/** @returns how it is known that the turn is over; undefined when reading was given up */
async function readAll(keeper: Keeper, turn: Turn, signal: AbortSignal): Promise<ExitProof | undefined> {
  for await (const record of keeper.records({ fromOffset: turn.offset, signal })) {
    if (signal.aborted) return undefined
    await turn.take(record)
    if (record.type === 'exit') return record.proof
  }
  if (signal.aborted) return undefined
  throw new NfltrError('keeper_gone', 'The journal ended without an exit record.')
}

function endOf(error: unknown): 'keeper_gone' | 'journal_damaged' | undefined {
  if (!(error instanceof NfltrError)) return undefined
  if (error.code === 'journal_damaged') return 'journal_damaged'
  return error.code === 'keeper_gone' || error.code === 'not_found' ? 'keeper_gone' : undefined
}

async function readopt(
  ports: { readonly keepers: Keepers; readonly clock: Clock },
  keeper: Keeper,
  signal: AbortSignal,
): Promise<Keeper> {
  try {
    await keeper[Symbol.asyncDispose]()
    return await ports.keepers.adopt(keeper.attemptId)
  } catch (error) {
    if (error instanceof NfltrError && error.code === 'not_found') return absentKeeper(keeper.attemptId)
    return signal.aborted ? keeper : brokenKeeper(keeper.attemptId, error)
  }
}

/** Stands for a keeper that never came to be, or whose folder somebody removed. */
export function absentKeeper(attemptId: string): Keeper {
  return brokenKeeper(attemptId, new NfltrError('keeper_gone', `There is no keeper of ${attemptId}.`))
}

function brokenKeeper(attemptId: string, error: unknown): Keeper {
  const fail = (): Promise<never> => Promise.reject(error)
  return {
    attemptId,
    records: () => ({ [Symbol.asyncIterator]: () => ({ next: fail }) }),
    write: fail,
    answer: fail,
    closeInput: fail,
    stop: fail,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

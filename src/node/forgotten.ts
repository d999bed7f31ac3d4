import { hasIds } from '../core/node-attempt-claim.ts'
import { type AttemptMemo, attemptOf, memoFormat, memoOf } from '../core/node-attempt-memo.ts'
import type { NodeAttempt } from '../core/node-attempt-state.ts'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import type { FoundAttempt, Keepers } from '../ports/keepers.ts'
import type { HubRecord } from './records.ts'

/** A turn with a larger one, brief and all, has none: should the store forget it, its hub claims it again. In bytes. @see docs/reference/limits.md */
export const memoMaxBytes = 1024 * 1024

const utf8 = new TextDecoder()

/** Attempts of which a folder tells and the store does not, and the hubs that it may not know either. */
export interface Forgotten {
  readonly attempts: readonly NodeAttempt[]
  readonly hubs: readonly HubRecord[]
}

/** What the keeper of an attempt is given to keep for the node. */
export function memoText(state: NodeAttempt, hub: HubRecord | undefined): string | undefined {
  const memo = hub === undefined ? undefined : memoOf(state, hub.machinePeerId)
  const bytes = memo === undefined ? undefined : encodeRecord(memo)
  return bytes === undefined || bytes.length > memoMaxBytes ? undefined : utf8.decode(bytes)
}

/**
 * Knows attempts again of which the store has no record: a folder is made only after its attempt is on disk, so the store
 * was lost or put back to an earlier time since. Its folder says what was to be run, and its journal what happened.
 */
export async function recallForgotten(keepers: Keepers, orphans: readonly FoundAttempt[]): Promise<Forgotten> {
  const attempts: NodeAttempt[] = []
  const hubs = new Map<string, HubRecord>()
  for (const { attemptId } of orphans) {
    const memo = await readMemo(keepers, attemptId)
    if (memo === undefined || memo.claim.ref.attemptId !== attemptId || !hasIds(memo.claim.ref)) continue
    const { hubId, hubMachinePeerId: machinePeerId } = memo
    attempts.push(attemptOf(memo))
    hubs.set(hubId, { hubId, machinePeerId, receiptHead: '' })
  }
  return { attempts, hubs: [...hubs.values()] }
}

async function readMemo(keepers: Keepers, attemptId: string): Promise<AttemptMemo | undefined> {
  const done = new AbortController()
  try {
    await using keeper = await keepers.adopt(attemptId)
    for await (const record of keeper.records({ fromOffset: 0, signal: done.signal })) {
      return record.type === 'header' && record.memo !== undefined ? parse(record.memo) : undefined
    }
  } catch {
    // Nothing can be read of it: it stays what it is, a folder without a record.
  } finally {
    done.abort()
  }
  return undefined
}

function parse(text: string): AttemptMemo | undefined {
  const memo = decodeRecord<AttemptMemo>(new TextEncoder().encode(text))
  return memo.format === memoFormat ? memo : undefined
}

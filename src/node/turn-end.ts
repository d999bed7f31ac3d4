import type { ExitProof } from '../core/journal.ts'
import { type AttemptResult, noUsage } from '../core/model.ts'

/** How the journal of a turn came to its end, and how well it is known that nothing of the turn runs. */
export interface TurnEnd {
  readonly how: 'exit' | 'keeper_gone' | 'journal_damaged'
  readonly proof: ExitProof | undefined
}

/** What a hub is told of a turn that left nothing but its beginning. */
export function keeperGoneMessage(proof: ExitProof | undefined): string {
  return `The keeper of this turn is gone and nothing of the turn runs any more (${proof ?? 'it was never started'}).`
}

/** The end of a turn whose driver has nothing to say: it never saw a beginning, or broke its contract. */
export function unexplained({ how, proof }: TurnEnd): AttemptResult {
  return {
    outcome: 'failed',
    reason: how === 'journal_damaged' ? 'journal_damaged' : 'crashed',
    text: '',
    denied: [],
    usage: noUsage,
    messages: [],
    details: { end: how },
    ...(proof === undefined ? {} : { exitProof: proof }),
  }
}

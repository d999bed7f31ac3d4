import type { Model } from './operation.ts'

/** What may be asked about who owns a task. An attempt is named by its id, and spoken of under an epoch. */
export type OwnershipInput =
  /** Gives the task to the attempt, if nobody has it and it is not over. */
  | { readonly type: 'place'; readonly attemptId: string }
  /** The owner's word: it has it, works on it (which renews its lease), will not do it, or has done it. */
  | {
      readonly type: 'claimed' | 'started' | 'declined' | 'ended'
      readonly attemptId: string
      readonly epoch: number
    }
  /** The owner's lease ran out. */
  | { readonly type: 'expire'; readonly attemptId: string }
  | { readonly type: 'read' }

/** What every answer shows: the task as it is after the operation. */
export interface Ownership {
  readonly epoch: number
  readonly attemptId: string
  readonly phase: 'none' | 'offered' | 'claimed' | 'running' | 'declined' | 'ended' | 'lost'
  readonly end: 'none' | 'result' | 'lost'
  readonly isLate: boolean
}

/**
 * Ownership as it is promised, in its simplest form: one owner at a time under a rising epoch, the first end counts, an
 * owner whose lease ran out may bring its result once and late, and whoever speaks for another epoch is not heard.
 */
export const ownershipModel: Model<Ownership, OwnershipInput, Ownership> = {
  initial: { epoch: 0, attemptId: '', phase: 'none', end: 'none', isLate: false },
  step(state, input, output) {
    const next = after(state, input)
    return output === undefined || ownershipName(next) === ownershipName(output) ? next : undefined
  },
  nameOf: ownershipName,
}

export function ownershipName({ epoch, attemptId, phase, end, isLate }: Ownership): string {
  return `${epoch} ${attemptId} ${phase} ${end} ${isLate}`
}

function after(state: Ownership, input: OwnershipInput): Ownership {
  if (input.type === 'read') return state
  if (input.type === 'place') {
    if (state.end !== 'none' || isOwned(state)) return state
    return { ...state, epoch: state.epoch + 1, attemptId: input.attemptId, phase: 'offered' }
  }
  if (input.attemptId !== state.attemptId) return state
  if (input.type === 'expire') return isOwned(state) ? { ...state, phase: 'lost', end: 'lost' } : state
  return input.epoch === state.epoch ? heard(state, input.type) : state
}

/** The word of the owner, under its own epoch. */
function heard(state: Ownership, word: 'claimed' | 'started' | 'declined' | 'ended'): Ownership {
  const { phase } = state
  switch (word) {
    case 'claimed':
      return phase === 'offered' ? { ...state, phase: 'claimed' } : state
    case 'started':
      return phase === 'offered' || phase === 'claimed' ? { ...state, phase: 'running' } : state
    case 'declined':
      return phase === 'offered' ? { ...state, phase: 'declined' } : state
    case 'ended':
      if (isOwned(state)) return { ...state, phase: 'ended', end: 'result' }
      return phase === 'lost' ? { ...state, phase: 'ended', isLate: true } : state
  }
}

function isOwned({ phase }: Ownership): boolean {
  return phase === 'offered' || phase === 'claimed' || phase === 'running'
}

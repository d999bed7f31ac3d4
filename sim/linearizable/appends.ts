import type { Model } from './operation.ts'

/** Lines are added to the log of a task, and get numbers; or its end is read. */
export type AppendInput =
  | { readonly type: 'append'; readonly id: string; readonly lines: number }
  | { readonly type: 'tail' }

/** For an append: the number of its first line; for both: the number of the last line and what it says. */
export interface Tail {
  readonly count: number
  readonly last: string
}

/** A log as it is promised: numbers without gaps in the order of the appends, and no line that was acknowledged is lost. */
export const appendModel: Model<Tail, AppendInput, Tail> = {
  initial: { count: 0, last: '' },
  step(state, input, output) {
    const next = input.type === 'tail' ? state : { count: state.count + input.lines, last: input.id }
    return output === undefined || (output.count === next.count && output.last === next.last) ? next : undefined
  },
  nameOf: ({ count, last }) => `${count} ${last}`,
}

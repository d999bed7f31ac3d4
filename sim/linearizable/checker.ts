import type { Model, Operation } from './operation.ts'

/** `undecided` is neither: the search was given up, and says nothing about the history. */
export type Verdict =
  | { readonly verdict: 'linearizable'; readonly steps: number }
  | { readonly verdict: 'violated' | 'undecided'; readonly steps: number; readonly key: string }

/** States that are looked at for one key before it counts as undecided. */
const defaultStepsMax = 2_000_000

/**
 * Whether a history could have come from an object that does one thing at a time, each at some moment between its call and
 * its return (Wing and Gong's search, with Lowe's memory of what was tried). Keys are looked at one by one, which is sound
 * since linearizability is local; the worst key decides.
 */
export function checkHistory<State, Input, Output>(
  model: Model<State, Input, Output>,
  history: readonly Operation<Input, Output>[],
  options: { readonly stepsMax?: number } = {},
): Verdict {
  let steps = 0
  let undecided: string | undefined
  for (const [key, operations] of Map.groupBy(history, (one) => one.key)) {
    const search = new Search(model, operations, options.stepsMax ?? defaultStepsMax)
    const verdict = search.run()
    steps += search.steps
    if (verdict === 'violated') return { verdict, steps, key }
    if (verdict === 'undecided') undecided ??= key
  }
  return undecided === undefined ? { verdict: 'linearizable', steps } : { verdict: 'undecided', steps, key: undecided }
}

interface Frame<State> {
  readonly state: State
  /** The operation that led here: below `known.length` one with a return, above it an open one; -1 at the root. */
  readonly taken: number
  readonly candidates: readonly number[]
  next: number
}

/** The search over one key. An operation with a return has to be placed; an open one may be. */
class Search<State, Input, Output> {
  steps = 0
  readonly #model: Model<State, Input, Output>
  readonly #stepsMax: number
  /** Both by the time of their call. */
  readonly #known: readonly Operation<Input, Output>[]
  readonly #open: readonly Operation<Input, Output>[]
  readonly #isTaken: Uint8Array
  readonly #takenOpen = new Set<number>()
  /** All known operations below it are placed. */
  #low = 0
  #left: number

  constructor(model: Model<State, Input, Output>, operations: readonly Operation<Input, Output>[], stepsMax: number) {
    const sorted = [...operations].sort((a, b) => a.call - b.call)
    this.#model = model
    this.#stepsMax = stepsMax
    this.#known = sorted.filter((one) => one.return !== Number.POSITIVE_INFINITY)
    this.#open = sorted.filter((one) => one.return === Number.POSITIVE_INFINITY)
    this.#isTaken = new Uint8Array(this.#known.length)
    this.#left = this.#known.length
  }

  run(): Verdict['verdict'] {
    const seen = new Set<string>()
    const stack = [this.#frame(this.#model.initial, -1)]
    for (;;) {
      if (this.#left === 0) return 'linearizable'
      const frame = stack.at(-1)
      if (frame === undefined) return 'violated'
      const candidate = frame.candidates[frame.next]
      if (candidate === undefined) {
        stack.pop()
        if (frame.taken >= 0) this.#untake(frame.taken)
        continue
      }
      frame.next += 1
      const state = this.#after(frame.state, candidate)
      if (state === undefined) continue
      this.steps += 1
      if (this.steps > this.#stepsMax) return 'undecided'
      this.#take(candidate)
      const name = this.#nameOf(state)
      if (seen.has(name)) {
        this.#untake(candidate)
        continue
      }
      seen.add(name)
      stack.push(this.#frame(state, candidate))
    }
  }

  #after(state: State, candidate: number): State | undefined {
    const known = this.#known[candidate]
    if (known !== undefined) return this.#model.step(state, known.input, known.output)
    const open = this.#open[candidate - this.#known.length]
    if (open === undefined) return undefined
    const next = this.#model.step(state, open.input, undefined)
    // An open operation without effect may as well not have happened.
    if (next === undefined || this.#model.nameOf(next) === this.#model.nameOf(state)) return undefined
    return next
  }

  /** What may come next: every operation that was called before the first of those still to be placed returned. */
  #frame(state: State, taken: number): Frame<State> {
    const candidates: number[] = []
    let firstReturn = Number.POSITIVE_INFINITY
    for (let index = this.#low; index < this.#known.length; index++) {
      const one = this.#known[index]
      if (one === undefined || one.call > firstReturn) break
      if (this.#isTaken[index] === 1) continue
      candidates.push(index)
      firstReturn = Math.min(firstReturn, one.return)
    }
    const returnOf = (index: number): number => this.#known[index]?.return ?? 0
    const callOf = (index: number): number => this.#known[index]?.call ?? 0
    const possible = candidates.filter((index) => callOf(index) < firstReturn).sort((a, b) => returnOf(a) - returnOf(b))
    for (const [index, one] of this.#open.entries()) {
      if (one.call >= firstReturn) break
      if (!this.#takenOpen.has(index)) possible.push(this.#known.length + index)
    }
    return { state, taken, candidates: possible, next: 0 }
  }

  #take(candidate: number): void {
    if (candidate >= this.#known.length) {
      this.#takenOpen.add(candidate - this.#known.length)
      return
    }
    this.#isTaken[candidate] = 1
    this.#left -= 1
    while (this.#isTaken[this.#low] === 1) this.#low += 1
  }

  #untake(candidate: number): void {
    if (candidate >= this.#known.length) {
      this.#takenOpen.delete(candidate - this.#known.length)
      return
    }
    this.#isTaken[candidate] = 0
    this.#left += 1
    this.#low = Math.min(this.#low, candidate)
  }

  /** Names exactly what is placed and the state it led to. */
  #nameOf(state: State): string {
    let name = `${this.#low}`
    // Beyond the first one that is missing only what overlaps it can have been placed.
    const missing = this.#known[this.#low]
    for (let index = this.#low + 1; index < this.#known.length; index++) {
      const one = this.#known[index]
      if (one === undefined || missing === undefined || one.call > missing.return) break
      if (this.#isTaken[index] === 1) name += `,${index}`
    }
    if (this.#takenOpen.size > 0) name += `/${[...this.#takenOpen].sort((a, b) => a - b).join(',')}`
    return `${name}|${this.#model.nameOf(state)}`
  }
}

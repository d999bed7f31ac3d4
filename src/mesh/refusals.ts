import { type ErrorCode, NfltrError } from '../core/errors.ts'

/** Counts what was refused, by code: what a peer sent, showed or asked for that this process did not take. */
export class Refusals {
  readonly #counts = new Map<ErrorCode, number>()

  add(code: ErrorCode): void {
    this.#counts.set(code, (this.#counts.get(code) ?? 0) + 1)
  }

  /** Counts an error where it is a refusal of ours; anything else is counted as `internal`, because it should not happen. */
  addError(error: unknown): void {
    this.add(error instanceof NfltrError ? error.code : 'internal')
  }

  counts(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)))
  }
}

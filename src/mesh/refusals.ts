import { type ErrorCode, NfltrError } from '../core/errors.ts'

/** A refusal in words, for a person: who was refused, here or there, and why. */
export interface RefusalNotice {
  readonly code: ErrorCode
  readonly message: string
  /** Whether this process was refused by the other side. */
  readonly isByPeer: boolean
}

/** Notices that are kept; the oldest goes first. */
const noticesMax = 16

/** Counts what was refused, by code: what a peer sent, showed or asked for that this process did not take. */
export class Refusals {
  readonly #counts = new Map<ErrorCode, number>()

  add(code: ErrorCode): void {
    this.#counts.set(code, (this.#counts.get(code) ?? 0) + 1)
  }

  readonly #notices = new Map<string, RefusalNotice>()

  /** Keeps what a refused hello said, the same once. */
  note(error: NfltrError): void {
    const notice = { code: error.code, message: error.message, isByPeer: error.details['by'] === 'peer' }
    const key = `${notice.isByPeer} ${notice.code} ${notice.message}`
    this.#notices.delete(key)
    this.#notices.set(key, notice)
    const [oldest] = this.#notices.keys()
    if (this.#notices.size > noticesMax && oldest !== undefined) this.#notices.delete(oldest)
  }

  /** Oldest first. */
  notices(): readonly RefusalNotice[] {
    return [...this.#notices.values()]
  }

  /** Counts an error where it is a refusal of ours; anything else is counted as `internal`, because it should not happen. */
  addError(error: unknown): void {
    this.add(error instanceof NfltrError ? error.code : 'internal')
  }

  counts(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)))
  }
}

import type { Transaction } from '../runtime/engine.ts'

/** Takes what came in into its reply, in this transaction, or leaves it. */
export type Waiter = (tx: Transaction) => void

/**
 * The calls that wait. What comes in is offered to them at the end of the very decision that it came in with: entry and offer
 * reach the disk in one batch, which is as safe as two and takes half as long.
 */
export class Waiting {
  readonly #waiters = new Set<Waiter>()
  #isDue = false

  /** The first to wait is the first to be asked. @returns what takes the waiter out again */
  add(waiter: Waiter): () => void {
    this.#waiters.add(waiter)
    return () => this.#waiters.delete(waiter)
  }

  /** Something came in by this decision. */
  came(tx: Transaction): void {
    if (this.#isDue || this.#waiters.size === 0) return
    this.#isDue = true
    tx.atEnd(() => {
      this.#isDue = false
      for (const waiter of [...this.#waiters]) waiter(tx)
    })
  }
}

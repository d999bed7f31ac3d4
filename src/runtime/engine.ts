import { NfltrError } from '../core/errors.ts'
import type { Store, StoreOperation } from '../ports/store.ts'

/** What a decision writes, and what is to happen once that is on disk. Valid only while the decision runs. */
export interface Transaction {
  put(key: string, value: Uint8Array): void
  delete(key: string): void

  /** Runs `step` when the rest of the decision is made, still in it: what it decides and writes goes into the same batch. */
  atEnd(step: () => void): void

  /** Runs `effect` once this batch, and every batch before it, is on disk; never if the process dies or the store fails first. */
  afterDurable(effect: () => void): void
}

interface Pending {
  readonly effects: readonly (() => void)[]
  readonly finish: () => void
  readonly fail: (error: Error) => void
  isDurable: boolean
}

/**
 * Output commit: decides now, in memory, and lets nothing out before it is on disk.
 *
 * A decision reads and changes the owner's state synchronously, so decisions never interleave and each sees all earlier
 * ones. What it wrote is one atomic batch; effects run in the order of decisions. So the world only ever learns of
 * decisions that a crash cannot take back.
 */
export class Engine {
  /** Resolves, never rejects, when nothing will run any more: the store failed, or a decision or an effect threw. */
  readonly failed: Promise<Error>

  readonly #store: Store
  readonly #queue: Pending[] = []
  readonly #fail: (error: Error) => void
  #failure: Error | undefined
  #isDeciding = false
  #isDraining = false

  constructor(store: Store) {
    this.#store = store
    const failed = Promise.withResolvers<Error>()
    this.failed = failed.promise
    this.#fail = failed.resolve
    void store.failed.then((error) => this.#end(error))
  }

  /**
   * Runs `decide` at once and synchronously. The promise settles after the effects ran; replies and queries wait on it.
   *
   * A refusal (an `NfltrError` thrown before anything was written) rejects the promise, once all that it may have been
   * based on is on disk, and changes nothing. Any other throw is a bug: memory and disk may disagree, so the engine fails.
   * A decision must not start another one; an effect may.
   *
   * @throws {NfltrError} (as rejection) `store_failed`, `disk_full` or what the engine failed with; the decision's own refusal
   */
  transact<T>(decide: (transaction: Transaction) => T): Promise<T> {
    const outcome = this.#failure === undefined ? this.#decide(decide) : Promise.reject(this.#failure)
    // Most callers need no reply. A failure reaches the process through `failed`, not as an unhandled rejection.
    outcome.catch(() => undefined)
    return outcome
  }

  /** Resolves once everything decided so far is on disk and its effects ran. Rejects as `transact` does. */
  settled(): Promise<void> {
    if (this.#failure !== undefined) return quiet(Promise.reject(this.#failure))
    if (this.#queue.length === 0) return Promise.resolve()
    return this.#enqueue([], [], undefined)
  }

  /** Ends the engine for a bug that was found outside a decision: nothing further runs, and `failed` tells. */
  fail(error: Error): void {
    this.#end(error)
  }

  #decide<T>(decide: (transaction: Transaction) => T): Promise<T> {
    if (this.#isDeciding) {
      const error = new Error('a decision started another decision: do it in the same transaction, or in an effect')
      this.#end(error)
      throw error
    }
    const batch: StoreOperation[] = []
    const effects: (() => void)[] = []
    const last: (() => void)[] = []
    this.#isDeciding = true
    try {
      const value = decide({
        put: (key, bytes) => batch.push({ type: 'put', key, value: bytes }),
        delete: (key) => batch.push({ type: 'delete', key }),
        atEnd: (step) => last.push(step),
        afterDurable: (effect) => effects.push(effect),
      })
      for (let step = last.shift(); step !== undefined; step = last.shift()) step()
      if (this.#failure !== undefined) return Promise.reject(this.#failure)
      return this.#enqueue(batch, effects, value)
    } catch (error) {
      if (error instanceof NfltrError && batch.length + effects.length === 0) {
        return this.settled().then(() => Promise.reject(error))
      }
      this.#end(error instanceof Error ? error : new Error(String(error)))
      return Promise.reject(error)
    } finally {
      this.#isDeciding = false
    }
  }

  #enqueue<T>(batch: readonly StoreOperation[], effects: readonly (() => void)[], value: T): Promise<T> {
    const outcome = Promise.withResolvers<T>()
    const pending: Pending = { effects, finish: () => outcome.resolve(value), fail: outcome.reject, isDurable: false }
    this.#queue.push(pending)
    const durable = batch.length === 0 ? Promise.resolve() : this.#store.commit(batch)
    durable.then(
      () => {
        pending.isDurable = true
        this.#drain()
      },
      (error: unknown) => this.#end(error instanceof Error ? error : new Error(String(error))),
    )
    return quiet(outcome.promise)
  }

  /** Runs the effects of durable batches from the front of the queue; an effect that transacts only adds to its end. */
  #drain(): void {
    if (this.#isDraining) return
    this.#isDraining = true
    try {
      for (let next = this.#queue[0]; next?.isDurable === true && this.#failure === undefined; next = this.#queue[0]) {
        for (const effect of next.effects) {
          effect()
          if (this.#failure !== undefined) return
        }
        this.#queue.shift()
        next.finish()
      }
    } catch (error) {
      this.#end(error instanceof Error ? error : new Error(String(error)))
    } finally {
      this.#isDraining = false
    }
  }

  #end(error: Error): void {
    if (this.#failure !== undefined) return
    this.#failure = error
    for (const pending of this.#queue.splice(0)) pending.fail(error)
    this.#fail(error)
  }
}

function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined)
  return promise
}

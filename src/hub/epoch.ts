import { NfltrError } from '../core/errors.ts'
import type { HistoryFact } from '../core/history.ts'
import { encodeRecord } from '../core/record-json.ts'
import type { Store } from '../ports/store.ts'
import type { Engine } from '../runtime/engine.ts'
import type { History } from './history.ts'
import { keys, readRecord } from './records.ts'

/**
 * The hub's fencing number (rule 7): higher at every start than at any before, and above what nodes have seen, on disk
 * before the first command. A hub that is told of a higher one after its first command has been replaced, and ends.
 */
export class Epoch {
  readonly #engine: Engine
  readonly #history: History
  #current: number
  #isCommitted = false

  private constructor(engine: Engine, history: History, current: number) {
    this.#engine = engine
    this.#history = history
    this.#current = current
  }

  /** Raises the epoch for this start. */
  static async begin(engine: Engine, store: Store, history: History): Promise<Epoch> {
    const stored = await readRecord<{ epoch: number }>(store, keys.epoch)
    const epoch = new Epoch(engine, history, (stored?.epoch ?? 0) + 1)
    await epoch.#save({ type: 'hub_began', epoch: epoch.current, incarnation: store.identity.incarnation })
    return epoch
  }

  get current(): number {
    return this.#current
  }

  /** A command was decided under this epoch: it is never raised again. */
  commit(): void {
    this.#isCommitted = true
  }

  /**
   * Comes to terms with the highest epoch that a node has seen.
   *
   * @param isOwn whether the node may have seen this very process at its present epoch
   * @throws {NfltrError} `stale_epoch` when this hub has been replaced: the process ends at once
   */
  async meet(highestSeen: number, { isOwn }: { readonly isOwn: boolean }): Promise<void> {
    if (highestSeen < this.#current || (isOwn && highestSeen === this.#current)) return
    if (this.#isCommitted) {
      // This process ends. The next one, which holds the project's lock like this one, starts above what was seen.
      await this.#engine.transact((tx) => tx.put(keys.epoch, encodeRecord({ epoch: highestSeen })))
      const message = `Another process of this hub is at epoch ${highestSeen}; this one is at ${this.#current}.`
      throw new NfltrError('stale_epoch', message, {
        hint: 'Another hub process of this project has taken over. This one has ended.',
        details: { highestEpochSeen: highestSeen, epoch: this.#current },
      })
    }
    this.#current = highestSeen + 1
    await this.#save({ type: 'epoch_raised', epoch: this.#current })
  }

  #save(fact: HistoryFact): Promise<void> {
    return this.#engine.transact((tx) => {
      tx.put(keys.epoch, encodeRecord({ epoch: this.#current }))
      this.#history.add(tx, [fact])
    })
  }
}

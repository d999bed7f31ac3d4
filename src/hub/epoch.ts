import { NfltrError } from '../core/errors.ts'
import { encodeRecord } from '../core/record-json.ts'
import type { Store } from '../ports/store.ts'
import type { Engine } from '../runtime/engine.ts'
import { keys, readRecord } from './records.ts'

/**
 * The hub's fencing number (rule 7): higher at every start than at any before, and above what nodes have seen, on disk
 * before the first command. A hub that is told of a higher one after its first command has been replaced, and ends.
 */
export class Epoch {
  readonly #engine: Engine
  #current: number
  #isCommitted = false

  private constructor(engine: Engine, current: number) {
    this.#engine = engine
    this.#current = current
  }

  /** Raises the epoch for this start. */
  static async begin(engine: Engine, store: Store): Promise<Epoch> {
    const stored = await readRecord<{ epoch: number }>(store, keys.epoch)
    const epoch = new Epoch(engine, (stored?.epoch ?? 0) + 1)
    await epoch.#save()
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
    await this.#save()
  }

  #save(): Promise<void> {
    return this.#engine.transact((tx) => tx.put(keys.epoch, encodeRecord({ epoch: this.#current })))
  }
}

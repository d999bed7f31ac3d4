import { NfltrError } from '../core/errors.ts'
import type { HistoryFact } from '../core/history.ts'
import { encodeRecord } from '../core/record-json.ts'
import type { Store } from '../ports/store.ts'
import type { Engine, Transaction } from '../runtime/engine.ts'
import type { AgentIndexParts } from './agent-index-building.ts'
import type { History } from './history.ts'
import { type EpochRecord, keys, readRecord } from './records.ts'

/** Of what is kept of agents beside them; another one where that is kept differently. */
const indexFormat = 1

/**
 * The hub's fencing number (rule 7): higher at every start than at any before, and above what nodes have seen, on disk
 * before the first command. A hub that is told of a higher one after its first command has been replaced, and ends.
 */
export class Epoch {
  readonly #engine: Engine
  readonly #history: History
  #current: number
  #isCommitted = false

  readonly #incarnation: number
  #isIndexKept: boolean

  private constructor(parts: { engine: Engine; store: Store; history: History }, stored: EpochRecord | undefined) {
    this.#engine = parts.engine
    this.#history = parts.history
    this.#current = (stored?.epoch ?? 0) + 1
    this.#incarnation = parts.store.identity.incarnation
    this.#isIndexKept = stored?.index?.format === indexFormat && stored.index.incarnation === this.#incarnation
  }

  /** Raises the epoch for this start. */
  static async begin(engine: Engine, store: Store, history: History): Promise<Epoch> {
    const epoch = new Epoch({ engine, store, history }, await readRecord<EpochRecord>(store, keys.epoch))
    await epoch.#save({ type: 'hub_began', epoch: epoch.current, incarnation: store.identity.incarnation })
    return epoch
  }

  get current(): number {
    return this.#current
  }

  /**
   * Whether every hub that raised the epoch kept the index of agents. It is said in the record of the epoch: one of an earlier
   * version writes that record at its start, and leaves this out.
   */
  get index(): AgentIndexParts['mark'] {
    const isKept = this.#isIndexKept
    return {
      isKept,
      set: (tx, isKeptNow) => {
        this.#isIndexKept = isKeptNow
        this.#put(tx, this.#current)
      },
    }
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
      await this.#engine.transact((tx) => this.#put(tx, highestSeen))
      const message = `Another process of this hub is at epoch ${highestSeen}; this one is at ${this.#current}.`
      throw new NfltrError('stale_epoch', message, {
        hint: 'Another hub process of this project has taken over. This one has ended.',
        details: { highestEpochSeen: highestSeen, epoch: this.#current },
      })
    }
    this.#current = highestSeen + 1
    await this.#save({ type: 'epoch_raised', epoch: this.#current })
  }

  #put(tx: Transaction, epoch: number): void {
    const index = { format: indexFormat, incarnation: this.#incarnation }
    const record: EpochRecord = { epoch, ...(this.#isIndexKept ? { index } : {}) }
    tx.put(keys.epoch, encodeRecord(record))
  }

  #save(fact: HistoryFact): Promise<void> {
    return this.#engine.transact((tx) => {
      this.#put(tx, this.#current)
      this.#history.add(tx, [fact])
    })
  }
}

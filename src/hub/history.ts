import {
  chainedText,
  emptyHistoryHash,
  type HistoryEvent,
  type HistoryFact,
  type HistoryRecord,
} from '../core/history.ts'
import type { HistoryHead } from '../core/hub-account.ts'
import { encodeRecord } from '../core/record-json.ts'
import type { Clock } from '../ports/clock.ts'
import type { Store } from '../ports/store.ts'
import type { Engine, Transaction } from '../runtime/engine.ts'
import { keys, readRecord } from './records.ts'

export interface HistoryParts {
  readonly store: Store
  readonly clock: Clock
  readonly sha256: (text: string) => string
}

/**
 * The hub's own account of what it decided: only ever added to, in the batch of the decision, each event with a hash over
 * all before it. Nothing reads it but `nfltr audit`.
 */
export class History {
  readonly #parts: HistoryParts
  readonly #isNew: boolean
  #head: HistoryHead

  private constructor(parts: HistoryParts, head: HistoryHead | undefined) {
    this.#parts = parts
    this.#isNew = head === undefined
    this.#head = head ?? { seq: 0, hash: emptyHistoryHash }
  }

  static async load(parts: HistoryParts): Promise<History> {
    return new History(parts, await readRecord<HistoryHead>(parts.store, keys.historyHead))
  }

  get head(): HistoryHead {
    return this.#head
  }

  /** A store that is older than its history says so in it: of what was before there is no account. */
  async inherit(
    engine: Engine,
    facts: { readonly lastAgentNo: number; readonly nextDeliveryId: number },
  ): Promise<void> {
    if (!this.#isNew || (facts.lastAgentNo === 0 && facts.nextDeliveryId === 1)) return
    await engine.transact((tx) => this.add(tx, [{ type: 'inherited', ...facts }]))
  }

  /** Adds facts in their order, in the transaction of the decision that they tell of. */
  add(tx: Transaction, facts: readonly HistoryFact[]): void {
    if (facts.length === 0) return
    const atMs = this.#parts.clock.wallMs()
    for (const fact of facts) {
      const event: HistoryEvent = { ...fact, seq: this.#head.seq + 1, atMs }
      const hash = this.#parts.sha256(chainedText(this.#head.hash, event))
      this.#head = { seq: event.seq, hash }
      tx.put(keys.history(event.seq), encodeRecord({ event, hash } satisfies HistoryRecord))
    }
    tx.put(keys.historyHead, encodeRecord(this.#head))
  }
}

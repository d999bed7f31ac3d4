import type { EventRecord, ResultRecord } from './records.ts'

/** Texts that are kept in memory, together. */
const freshMaxBytes = 1024 * 1024

/** An entry of the inbox that a reply may carry, whole, with its text as UTF-8. */
export interface WholeEntry {
  readonly record: ResultRecord | EventRecord
  readonly text: Uint8Array
}

/** What came in last and is in no reply yet: a call that waits for it reads nothing from the disk. */
export class FreshEntries {
  readonly #entries = new Map<number, WholeEntry>()
  #bytes = 0

  get(deliveryId: number): WholeEntry | undefined {
    return this.#entries.get(deliveryId)
  }

  add(entry: WholeEntry): void {
    this.#entries.set(entry.record.deliveryId, entry)
    this.#bytes += entry.text.length
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= freshMaxBytes) return
      this.delete(oldest)
    }
  }

  delete(deliveryId: number): void {
    this.#bytes -= this.#entries.get(deliveryId)?.text.length ?? 0
    this.#entries.delete(deliveryId)
  }
}

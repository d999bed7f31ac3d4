import { NfltrError } from '../core/errors.ts'
import { keyNumber } from '../core/key-order.ts'
import type { Store } from '../ports/store.ts'
import type { Transaction } from './engine.ts'

/** A message that the peer has not acknowledged. */
interface Entry {
  /** Rolling hash of the lane after this message as it was first written: 16 hex digits. */
  readonly hash: string
  /** Wall clock when it was handed over. */
  readonly atMs: number
  readonly sizeBytes: number
  /** Stands in the place of another message: the hash is that one's. */
  readonly isReplaced: boolean
  /** Absent where it is only on disk. */
  body: Uint8Array | undefined
  /** Writes of it that are not on disk yet; it goes out at zero. */
  unsynced: number
}

export interface OutgoingMessage {
  readonly no: number
  readonly body: Uint8Array
  readonly hash: string
  readonly isReplaced: boolean
}

const headerBytes = 17
/** Bodies up to this size stay in memory on either side. */
const smallBodyMaxBytes = 64 * 1024
/** Deletes of acknowledged rows wait for another commit until they are worth one of their own. */
const forgottenMaxBytes = 256 * 1024
const forgottenMaxRows = 64

/** What a session has sent and must be able to send again: rows of the store, and in memory what is needed of them. */
export class Outbox {
  readonly #store: Store
  readonly #prefix: string
  readonly #keepsBodies: boolean
  readonly #entries = new Map<number, Entry>()
  readonly #forgotten: string[] = []
  #forgottenBytes = 0
  #bytes = 0
  /** Rises with each `clear`: writes of before are about other messages under the same numbers. */
  #era = 0

  /** @param options - `keepsBodies`: large bodies stay in memory too, so that `replaceWhere` can look at them */
  constructor(options: {
    readonly store: Store
    readonly remote: string
    readonly lane: number
    readonly keepsBodies: boolean
  }) {
    this.#store = options.store
    this.#prefix = `outbox/${options.remote}/${options.lane}/`
    this.#keepsBodies = options.keepsBodies
  }

  /**
   * Reads the rows after `acked`; the scan starts there, so rows deleted before cost nothing.
   *
   * @param options - `isOld`: the store was put back or repaired since, and the lane begins anew: nothing of it is sent, so
   *   rows that are missing are not missed, and those that are there only have to go
   * @throws {NfltrError} `store_damaged` unless each number up to `sent` is there
   */
  async load(acked: number, sent: number, { isOld }: { readonly isOld: boolean } = { isOld: false }): Promise<void> {
    if (isOld) {
      for await (const { key } of this.#store.scan(this.#prefix)) this.#forgotten.push(key)
      return
    }
    let no = acked
    for await (const { key, value } of this.#store.scan(this.#prefix, { from: this.#key(acked + 1) })) {
      no += 1
      if (key !== this.#key(no) || value.length <= headerBytes) break
      const { entry, body } = readRow(value)
      entry.body = this.#stays(body.length) ? body : undefined
      this.#entries.set(no, entry)
      this.#bytes += entry.sizeBytes
    }
    if (no !== sent || this.#entries.size !== sent - acked) {
      const found = `${this.#entries.size} messages after number ${acked}, and number ${sent} was the last one sent`
      throw new NfltrError('store_damaged', `The outbox ${this.#prefix} had ${found}.`)
    }
  }

  get size(): number {
    return this.#entries.size
  }

  get bytes(): number {
    return this.#bytes
  }

  get oldestAtMs(): number | undefined {
    return this.#entries.values().next().value?.atMs
  }

  /** The rolling hash after message `no`, while it is kept. */
  hashAt(no: number): string | undefined {
    return this.#entries.get(no)?.hash
  }

  add(
    tx: Transaction,
    no: number,
    message: { readonly hash: string; readonly atMs: number; readonly body: Uint8Array },
  ): void {
    const entry: Entry = { ...message, sizeBytes: message.body.length, isReplaced: false, unsynced: 0 }
    this.#entries.set(no, entry)
    this.#bytes += entry.sizeBytes
    this.#write(tx, no, entry, message.body)
  }

  /** Puts `body` in the place of each message that `test` names; what went out already stays as it was. */
  replaceWhere(tx: Transaction, body: Uint8Array, test: (body: Uint8Array) => boolean): number {
    let count = 0
    for (const [no, entry] of this.#entries) {
      if (entry.isReplaced || entry.body === undefined || !test(entry.body)) continue
      const replaced: Entry = { ...entry, body, sizeBytes: body.length, isReplaced: true }
      this.#bytes += replaced.sizeBytes - entry.sizeBytes
      this.#entries.set(no, replaced)
      this.#write(tx, no, replaced, body)
      count += 1
    }
    return count
  }

  /** A message that is on disk as it is, or undefined while a write of it is under way. @throws {NfltrError} as `Store.get` */
  async outgoing(no: number): Promise<OutgoingMessage | undefined> {
    const entry = this.#entries.get(no)
    if (entry === undefined || entry.unsynced > 0) return undefined
    const { hash, isReplaced } = entry
    if (entry.body !== undefined) return { no, hash, isReplaced, body: entry.body }
    const row = await this.#store.get(this.#key(no))
    if (row !== undefined) return { no, hash, isReplaced, body: row.subarray(headerBytes) }
    if (!this.#entries.has(no)) return undefined
    throw new NfltrError('store_damaged', `The message ${this.#key(no)} was gone from the store.`)
  }

  /** Nothing of it will ever go out: the lane begins anew (rule 6). */
  clear(tx: Transaction): void {
    this.#era += 1
    for (const no of this.#entries.keys()) tx.delete(this.#key(no))
    this.#entries.clear()
    this.#bytes = 0
    this.sweep(tx)
  }

  /** The peer has these. Their rows go with the next commit that `sweep` is part of. */
  forget(from: number, to: number): void {
    for (let no = from; no <= to; no++) {
      const entry = this.#entries.get(no)
      if (entry === undefined) continue
      this.#entries.delete(no)
      this.#bytes -= entry.sizeBytes
      this.#forgotten.push(this.#key(no))
      this.#forgottenBytes += entry.sizeBytes
    }
  }

  /** True when enough rows wait to be deleted that they deserve a commit of their own. */
  get needsSweep(): boolean {
    return this.#forgottenBytes >= forgottenMaxBytes || this.#forgotten.length >= forgottenMaxRows
  }

  sweep(tx: Transaction): void {
    for (const key of this.#forgotten.splice(0)) tx.delete(key)
    this.#forgottenBytes = 0
  }

  #write(tx: Transaction, no: number, entry: Entry, body: Uint8Array): void {
    tx.put(this.#key(no), writeRow(entry, body))
    entry.unsynced += 1
    const era = this.#era
    tx.afterDurable(() => {
      if (era !== this.#era) return
      // A replacement took this entry's place in the meantime, and with it its count.
      const current = this.#entries.get(no)
      if (current === undefined) return
      current.unsynced -= 1
      if (current.unsynced === 0 && !this.#stays(current.sizeBytes)) current.body = undefined
    })
  }

  #stays(sizeBytes: number): boolean {
    return this.#keepsBodies || sizeBytes <= smallBodyMaxBytes
  }

  #key(no: number): string {
    return this.#prefix + keyNumber(no)
  }
}

/** One byte of flags, the hash, the time as a float, the body. */
function writeRow(entry: Entry, body: Uint8Array): Uint8Array {
  const row = Buffer.allocUnsafe(headerBytes + body.length)
  const view = new DataView(row.buffer, row.byteOffset, row.byteLength)
  view.setUint8(0, entry.isReplaced ? 1 : 0)
  view.setBigUint64(1, BigInt(`0x${entry.hash}`))
  view.setFloat64(9, entry.atMs)
  row.set(body, headerBytes)
  return row
}

function readRow(row: Uint8Array): { entry: Entry; body: Uint8Array } {
  const view = new DataView(row.buffer, row.byteOffset, row.byteLength)
  const body = row.subarray(headerBytes)
  const entry: Entry = {
    hash: view.getBigUint64(1).toString(16).padStart(16, '0'),
    atMs: view.getFloat64(9),
    sizeBytes: body.length,
    isReplaced: view.getUint8(0) === 1,
    body,
    unsynced: 0,
  }
  return { entry, body }
}

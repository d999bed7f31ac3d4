import { clip } from '../core/clip.ts'
import { NfltrError } from '../core/errors.ts'
import { keyNumber } from '../core/key-order.ts'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import type { Clock } from '../ports/clock.ts'
import type { Store } from '../ports/store.ts'
import type { Transaction } from './engine.ts'
import type { DecodedWork } from './session-codec.ts'

/** A message that cannot be applied. */
export interface Poison {
  readonly no: number
  readonly kind: string
  /** Why. */
  readonly error: string
  /** Absent where it could not even be read. */
  readonly message?: DecodedWork
}

/** A message that stood at the cursor through so many deaths of the process is set aside (rule 26). */
export const deathsMax = 3
/** From so many deaths on nobody is told of it any more: telling may be what kills. */
const tellingDeathsMax = 6
/** Messages of one lane that are kept aside; of more, the oldest goes. */
export const quarantinedMax = 16

/** How often the process died while it applied one message. */
interface Trial {
  readonly no: number
  readonly deaths: number
  readonly error?: string
}

export interface QuarantineOptions {
  readonly store: Store
  readonly clock: Clock
  readonly remote: string
  readonly lane: number
}

/**
 * Keeps one message that kills its process from killing every later one. The number of the first message after a start is
 * on disk before it is applied; so a start finds out that the one before it died there. What is set aside is kept with its
 * bytes, for whoever looks into it.
 */
export class Quarantine {
  /** The process has applied something of this lane: what it dies of from now on is the first message of the next start. */
  isProven = false
  readonly #options: QuarantineOptions
  #trial: Trial | undefined
  #kept: readonly number[]

  private constructor(options: QuarantineOptions, trial: Trial | undefined, kept: readonly number[]) {
    this.#options = options
    this.#trial = trial
    this.#kept = kept
  }

  /** @param start - a lane that was never used has nothing at its cursor that could have killed anybody */
  static async load(options: QuarantineOptions, start: { readonly isFirstStart: boolean }): Promise<Quarantine> {
    const { store } = options
    const trial = await store.get(trialKey(options))
    const kept: number[] = []
    for await (const { value } of store.scan(prefixOf(options))) kept.push(decodeRecord<{ no: number }>(value).no)
    const quarantine = new Quarantine(options, trial === undefined ? undefined : decodeRecord<Trial>(trial), kept)
    quarantine.isProven = start.isFirstStart
    return quarantine
  }

  /** The first message after a start is about to be applied. */
  begin(tx: Transaction, no: number): void {
    const known = this.#trial?.no === no ? this.#trial : { no, deaths: 0 }
    this.#trial = known
    tx.put(trialKey(this.#options), encodeRecord({ ...known, deaths: known.deaths + 1 }))
  }

  /** Why a message is to be set aside, or undefined while it may be applied. */
  verdict(no: number): NfltrError | undefined {
    if (this.#trial?.no !== no || this.#trial.deaths < deathsMax) return undefined
    const { deaths, error } = this.#trial
    const why =
      error === undefined ? `the process died ${deaths} times while it was applied` : `applying it failed: ${error}`
    return new NfltrError('internal', why)
  }

  mayTell(no: number): boolean {
    return this.#trial?.no !== no || this.#trial.deaths < tellingDeathsMax
  }

  /** Applying it failed: the next start sets it aside. Beside the transaction that failed, whose writes are lost. */
  condemn(no: number, error: string): void {
    const deaths = this.#trial?.no === no ? Math.max(deathsMax, this.#trial.deaths + 1) : deathsMax
    const value = encodeRecord({ no, deaths, error: clip(error, 500) } satisfies Trial)
    // Should this fail as well, the deaths are counted one by one.
    this.#options.store.commit([{ type: 'put', key: trialKey(this.#options), value }]).catch(() => undefined)
  }

  keep(tx: Transaction, { no, kind, error }: Poison, bytes: Uint8Array): void {
    const atMs = this.#options.clock.wallMs()
    tx.put(this.#key(no), encodeRecord({ no, kind, error, atMs, bytes }))
    const kept = [...this.#kept.filter((known) => known !== no), no]
    for (const old of kept.slice(0, -quarantinedMax)) tx.delete(this.#key(old))
    this.#kept = kept.slice(-quarantinedMax)
  }

  /** The lane begins anew: its numbers are about other messages. */
  restart(tx: Transaction): void {
    this.#trial = undefined
    tx.delete(trialKey(this.#options))
  }

  #key(no: number): string {
    return prefixOf(this.#options) + keyNumber(no)
  }
}

function trialKey({ remote, lane }: QuarantineOptions): string {
  return `lane/${remote}/${lane}/trial`
}

function prefixOf({ remote, lane }: QuarantineOptions): string {
  return `quarantine/${remote}/${lane}/`
}

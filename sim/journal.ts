import { deserialize, serialize } from 'node:v8'
import type { JournalBody, JournalRecord } from '../src/core/journal.ts'
import type { DiskRecords } from '../src/store/disk-records.ts'
import type { SeededRandom } from './random.ts'
import type { DiskMood } from './store.ts'
import type { World } from './world.ts'

/** Records that a reader may build on only once they are synced; everything else is within a quarter of a second. */
const syncedAtOnce: ReadonlySet<JournalBody['type']> = new Set([
  'header',
  'launching',
  'launched',
  'launch_failed',
  'stdin_intent',
  'control_answer',
  'exit',
])

const lazySyncMs = 250

/** What a keeper and its program run on. */
export interface Machine {
  readonly world: World
  after(delayMs: number, work: () => void): void
}

/** How long a keeper waits before it tries again to write to a full disk, in milliseconds. */
const fullAgainMs = 200

/** The journal of one attempt on a disk that outlives keeper and node, and of which a power cut takes the unsynced end. */
export class Journal {
  readonly #machine: Machine
  readonly #random: SeededRandom
  readonly #mood: DiskMood
  readonly #startMs: number
  #records: JournalRecord[] = []
  #shelf: { readonly records: DiskRecords; readonly key: string } | undefined
  #synced = 0
  #isSyncing = false
  #isSyncWanted = false
  #isFrozen = false
  #whenSynced: (() => void)[] = []
  readonly #readers = new Set<() => void>()

  constructor(machine: Machine, random: SeededRandom, mood: DiskMood) {
    this.#machine = machine
    this.#random = random
    this.#mood = mood
    this.#startMs = machine.world.nowMs
  }

  get records(): readonly JournalRecord[] {
    const bytes = this.#shelf?.records.get(this.#shelf.key)
    return bytes === undefined ? this.#records : (deserialize(bytes) as readonly JournalRecord[])
  }

  /** How many records are on disk for certain. */
  get synced(): number {
    return this.#synced
  }

  /** @returns a promise of the record being on disk; it never resolves once the keeper is dead */
  append(body: JournalBody): Promise<void> {
    if (this.#isFrozen) return new Promise(() => undefined)
    const last = this.#records.at(-1)?.nextOffset ?? 0
    const nextOffset = last + 16 + sizeOf(body)
    this.#records.push({ ...body, nextOffset, atMs: this.#machine.world.nowMs - this.#startMs })
    const done = new Promise<void>((resolve) => this.#whenSynced.push(resolve))
    if (syncedAtOnce.has(body.type)) this.#sync()
    else if (!this.#isSyncWanted) {
      this.#isSyncWanted = true
      this.#machine.after(lazySyncMs * this.#random.next(), () => this.#sync())
    }
    return done
  }

  /** The keeper died. What it wrote stays, as long as the machine has power. */
  freeze(): void {
    this.#isFrozen = true
    this.#whenSynced = []
    this.#wakeReaders()
  }

  /** The machine lost power: of what was not synced only a first part is there. @returns how many records are gone */
  loseUnsynced(): number {
    if (this.#shelf !== undefined) return 0
    const kept = this.#random.int(this.#synced, this.#records.length)
    const lost = this.#records.length - kept
    this.#records = this.#records.slice(0, kept)
    this.#synced = kept
    return lost
  }

  /** Whoever reads what a dead keeper left makes it durable first. */
  syncRest(): void {
    this.#synced = this.records.length
  }

  /** Its keeper has ended, and all of it is on disk: it leaves memory for good. */
  putAway(records: DiskRecords, key: string): void {
    records.put(key, serialize(this.#records))
    this.#shelf = { records, key }
    this.#records = []
  }

  /** Calls back whenever there is more to read, or never will be. */
  onChange(callback: () => void): () => void {
    this.#readers.add(callback)
    return () => this.#readers.delete(callback)
  }

  #sync(): void {
    this.#isSyncWanted = false
    if (this.#isSyncing) {
      this.#isSyncWanted = true
      return
    }
    this.#isSyncing = true
    const upTo = this.#records.length
    const waiting = this.#whenSynced.splice(0)
    const isSlow = this.#random.chance(this.#mood.slowChance)
    this.#machine.after(0.2 + this.#random.next() * (isSlow ? 500 : this.#mood.syncMaxMs), () => {
      this.#isSyncing = false
      if (this.#isFrozen) return
      if (this.#mood.isFull) {
        this.#whenSynced.unshift(...waiting)
        this.#machine.world.count('keeper that waited for room on its disk')
        this.#machine.after(fullAgainMs, () => this.#sync())
        return
      }
      this.#synced = Math.max(this.#synced, Math.min(upTo, this.#records.length))
      for (const resolve of waiting) resolve()
      this.#wakeReaders()
      if (this.#isSyncWanted) this.#sync()
    })
  }

  #wakeReaders(): void {
    for (const wake of [...this.#readers]) wake()
  }
}

/** Bytes of a record's payload, near enough. */
function sizeOf(body: JournalBody): number {
  switch (body.type) {
    case 'stdout':
      return body.line.length
    case 'stdin_intent':
    case 'control_answer':
      return body.bytes.length
    default:
      return 8
  }
}

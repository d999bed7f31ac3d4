import type { NfltrError } from '../src/core/errors.ts'
import type { Store, StoreEntry, StoreIdentity } from '../src/ports/store.ts'
import { Engine } from '../src/runtime/engine.ts'
import type { MemoryStore } from '../src/store/memory-store.ts'
import { SimClock } from './clock.ts'
import { Life } from './life.ts'
import type { SeededRandom } from './random.ts'
import { type DiskMood, openStore } from './store.ts'
import { WatchedDisk } from './watched-disk.ts'
import type { World } from './world.ts'

/** What one run of a process starts from. */
export interface Run {
  readonly life: Life
  readonly clock: SimClock
  readonly store: Store
  readonly memory: MemoryStore
  readonly engine: Engine
  readonly random: SeededRandom
}

/** The longest rest of a process that ended by itself again and again, in milliseconds. */
const restMaxMs = 20_000

/** A program on a machine: it is started, dies, and is started again on the same disk. */
export abstract class Process {
  readonly name: string
  readonly world: World
  readonly mood: DiskMood
  /** Whether its disk was ever put back or lost. */
  wasPutBack = false
  readonly #random: SeededRandom
  #disk: WatchedDisk
  #runs = 0
  #earlierSyncs = 0
  #failures = 0
  #restsUntilMs = 0
  #life: Life | undefined
  #memory: MemoryStore | undefined
  #restart: { readonly afterMs: () => number } | undefined

  constructor(name: string, options: { readonly world: World; readonly disk: WatchedDisk; readonly mood: DiskMood }) {
    this.name = name
    this.world = options.world
    this.#disk = options.disk
    this.mood = options.mood
    this.#random = options.world.random(`process/${name}`)
  }

  /** Runs the production code of this process. Rejects with what ends it. */
  protected abstract main(run: Run): Promise<void>

  /** Whoever watches over it starts it again this long after each death; undefined: nobody does. */
  set restartsAfter(afterMs: (() => number) | undefined) {
    this.#restart = afterMs === undefined ? undefined : { afterMs }
  }

  /** What of it outlives its runs. */
  get disk(): WatchedDisk {
    return this.#disk
  }

  /** The next run finds another disk. */
  replaceDisk(found: { readonly identity: StoreIdentity; readonly entries: readonly StoreEntry[] }): void {
    this.world.isPutBack = true
    this.wasPutBack = true
    const fresh = new WatchedDisk(found.identity)
    fresh.apply(found.entries.map(({ key, value }) => ({ type: 'put', key, value })))
    fresh.onApplied = this.#disk.onApplied
    this.#disk = fresh
  }

  get isUp(): boolean {
    return this.#life?.isAlive === true
  }

  get life(): Life | undefined {
    return this.#life
  }

  get runs(): number {
    return this.#runs
  }

  /** Syncs of its disk by all runs so far. */
  get syncs(): number {
    return this.#earlierSyncs + (this.#memory?.syncs ?? 0)
  }

  start(): void {
    if (this.isUp || this.world.nowMs < this.#restsUntilMs) return
    this.#runs += 1
    const name = `${this.name}#${this.#runs}`
    const life = new Life(this.world, name, () => this.crash('between two effects'))
    this.#life = life
    this.world.note(`start ${name}`)
    void this.#run(life)
  }

  /** The process dies at once, and what it had not synced is lost in part. */
  crash(why: string): void {
    this.#die(why, this.#restart?.afterMs)
  }

  /** The same, and whoever watches over it takes so long to start it again. */
  crashFor(downMs: number): void {
    this.#die('and stays down', () => downMs)
  }

  #die(why: string, restartsAfter: (() => number) | undefined): void {
    const life = this.#life
    if (life?.isAlive !== true) return
    this.world.note(`crash ${life.name} ${why}`)
    this.world.count(`crash of a ${this.name.split('-')[0]}`)
    life.end()
    if (restartsAfter !== undefined) this.world.after(restartsAfter(), () => this.start())
  }

  /** The next sync fails, and with it the process. `survives`: its batches are on the disk all the same. */
  failDisk(survives: boolean): void {
    this.mood.failsNext = survives ? 'survives' : 'lost'
  }

  /** Nothing that was planned goes wrong any more. */
  spare(): void {
    this.#life?.spare()
    this.mood.failsNext = undefined
  }

  async #run(life: Life): Promise<void> {
    try {
      const { disk, mood } = this
      const random = this.world.random(life.name)
      const { store, memory } = await openStore({ life, disk, mood, random })
      this.#earlierSyncs += this.#memory?.syncs ?? 0
      this.#memory = memory
      const engine = new Engine(store)
      const clock = new SimClock(life, this.#random.int(-60_000, 60_000))
      void engine.failed.then((error) => this.#failed(life, error))
      await this.main({ life, clock, store, memory, engine, random })
    } catch (error) {
      this.#failed(life, error)
    }
  }

  /** A store that fails ends its process, and an epoch that was put back does (rule 7); nothing else may. */
  #failed(life: Life, error: unknown): void {
    if (!life.isAlive) return
    const code = (error as Partial<NfltrError>).code
    if (code === 'store_failed' || code === 'disk_full') this.world.count('disk error')
    else if (code === 'stale_epoch' && this.world.isPutBack) this.world.count('hub that ended under an older epoch')
    else {
      this.#failedForGood(life, error)
      return
    }
    this.crash('ended by an error')
  }

  /**
   * A broken promise. Where every check is to have its say all the same, a process that ends at each start rests for ever
   * longer, whoever wants it started: a session asks for its hub every few milliseconds, and the world would do nothing else.
   */
  #failedForGood(life: Life, error: unknown): void {
    this.world.violate('no-bugs', `${life.name} ended by itself: ${describe(error)}`)
    this.#failures += 1
    const restMs = Math.min(restMaxMs, 2 ** this.#failures)
    this.#restsUntilMs = this.world.nowMs + restMs
    this.#die('ended by an error', this.#restart && (() => restMs))
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

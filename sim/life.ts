import type { World } from './world.ts'

/**
 * One run of one process, from its start to its death. Everything that production code does to the outside passes
 * `act`: so a process can die between any two of its effects, and what still runs of a dead one does nothing.
 */
export class Life {
  readonly world: World
  /** `hub-a#3`: the third run of the hub a. */
  readonly name: string
  readonly #onDeath: (() => void)[] = []
  /** What came while the process did not run, in order. */
  readonly #waiting: (() => void)[] = []
  #isAlive = true
  #isFrozen = false
  #sleptMs = 0
  #asleepSinceMs: number | undefined
  /** How far the wall clock of its machine was set, in milliseconds. */
  wallOffMs = 0
  #actsLeft: number | undefined
  #die: () => void

  constructor(world: World, name: string, die: () => void) {
    this.world = world
    this.name = name
    this.#die = die
  }

  get isAlive(): boolean {
    return this.#isAlive
  }

  /** Dies instead of acting once `acts` more effects were let out. */
  dieAfter(acts: number): void {
    this.#actsLeft = acts
  }

  /** Does not die by itself after all. */
  spare(): void {
    this.#actsLeft = undefined
  }

  /** One effect is about to happen. @returns false where it must not: the process is dead, or just died */
  act(): boolean {
    if (!this.#isAlive) return false
    if (this.#actsLeft === undefined) return true
    this.#actsLeft -= 1
    if (this.#actsLeft >= 0) return true
    this.world.count('death between two effects')
    this.#die()
    return false
  }

  get isFrozen(): boolean {
    return this.#isFrozen
  }

  /** The process does not run: what reaches it waits, and time goes on around it. */
  freeze(): void {
    this.#isFrozen = true
  }

  /** The machine sleeps: nothing runs, and no monotonic time goes by. */
  sleep(): void {
    this.freeze()
    this.#asleepSinceMs = this.world.nowMs
  }

  /** Time that went by while the machine slept. */
  get sleptMs(): number {
    return this.#sleptMs + (this.#asleepSinceMs === undefined ? 0 : this.world.nowMs - this.#asleepSinceMs)
  }

  /** It runs again, and finds everything that came meanwhile, in the order in which it came. */
  thaw(): void {
    if (!this.#isFrozen || !this.#isAlive) return
    this.#sleptMs = this.sleptMs
    this.#asleepSinceMs = undefined
    this.world.after(0, () => {
      const next = this.#waiting.shift()
      next?.()
      if (this.#waiting.length > 0) this.thaw()
      else this.#isFrozen = false
    })
  }

  /** Everything that reaches a process from outside comes through here: time, disks, sockets, calls. */
  reach(work: () => void): void {
    if (!this.#isAlive) return
    if (this.#isFrozen) this.#waiting.push(() => this.#isAlive && work())
    else work()
  }

  /** What the system does when a process ends: sockets close, locks are free. */
  onDeath(callback: () => void): void {
    this.#onDeath.push(callback)
  }

  end(): void {
    if (!this.#isAlive) return
    this.#isAlive = false
    this.#actsLeft = undefined
    this.#waiting.length = 0
    for (const callback of this.#onDeath.splice(0)) callback()
  }

  /** Runs `work` after `delayMs` unless the process is dead by then. */
  after(delayMs: number, work: () => void): void {
    this.world.after(delayMs, () => this.reach(work))
  }

  /** Lets a result through after `delayMs`; never settles once the process is dead. */
  delayed<T>(delayMs: number, work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.after(delayMs, () => {
        try {
          resolve(work())
        } catch (error) {
          reject(error)
        }
      })
    })
  }
}

/** What a dead process waits for. */
export function forever(): Promise<never> {
  return new Promise(() => undefined)
}

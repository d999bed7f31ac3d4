import type { SeededRandom } from './random.ts'
import type { World } from './world.ts'

interface Item {
  readonly arrive: () => void
  isLost: boolean
}

/** Delays of one direction between two processes, in milliseconds. */
export interface PipeDelays {
  readonly baseMs: number
  readonly jitterMs: number
}

/** One direction of one stream: what goes in comes out in order, later, or not at all once it was cut. */
export class Pipe {
  readonly #world: World
  readonly #random: SeededRandom
  readonly #delays: PipeDelays
  /** Whether nothing gets through at present; what would arrive is held, as in a network that drops and a sender that repeats. */
  readonly #isClogged: () => boolean
  #items: Item[] = []
  #held: Item[] = []
  #lastArrivalMs = 0
  #isCut = false

  constructor(options: {
    readonly world: World
    readonly random: SeededRandom
    readonly delays: PipeDelays
    readonly isClogged: () => boolean
  }) {
    this.#world = options.world
    this.#random = options.random
    this.#delays = options.delays
    this.#isClogged = options.isClogged
  }

  send(arrive: () => void): void {
    if (this.#isCut) return
    const { baseMs, jitterMs } = this.#delays
    const atMs = Math.max(this.#world.nowMs + baseMs + this.#random.next() * jitterMs, this.#lastArrivalMs + 0.001)
    this.#lastArrivalMs = atMs
    const item: Item = { arrive, isLost: false }
    this.#items.push(item)
    this.#world.after(atMs - this.#world.nowMs, () => this.#arrived(item))
  }

  /** Breaks at some byte of what is under way: a first part of it still arrives, the rest is lost. */
  cut(): void {
    if (this.#isCut) return
    this.#isCut = true
    const all = [...this.#held, ...this.#items]
    const kept = this.#random.int(0, all.length)
    for (const item of all.slice(kept)) item.isLost = true
    if (kept < all.length) this.#world.count('link broken with frames under way')
    // A network that holds everything back has nothing more to hand over.
    this.#held = []
  }

  /** Lets out what was held. */
  unclog(): void {
    const held = this.#held
    this.#held = []
    for (const [index, item] of held.entries()) {
      this.#items.push(item)
      this.#world.after(this.#delays.baseMs + index * 0.001, () => this.#arrived(item))
    }
    this.#lastArrivalMs = Math.max(this.#lastArrivalMs, this.#world.nowMs + this.#delays.baseMs + held.length * 0.001)
  }

  #arrived(item: Item): void {
    const index = this.#items.indexOf(item)
    if (index >= 0) this.#items.splice(index, 1)
    if (item.isLost) return
    if (this.#held.length > 0 || this.#isClogged()) {
      this.#held.push(item)
      return
    }
    item.arrive()
  }
}

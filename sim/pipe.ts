import type { SeededRandom } from './random.ts'
import type { World } from './world.ts'

interface Item {
  readonly arrive: () => void
  isLost: boolean
  /** Its time has come: it is handed over as soon as all before it were, and nothing holds it back. */
  isDue: boolean
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
  /** What is under way or held back, in the order in which it was sent. */
  readonly #items: Item[] = []
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
    const item: Item = { arrive, isLost: false, isDue: false }
    this.#items.push(item)
    this.#world.after(atMs - this.#world.nowMs, () => {
      item.isDue = true
      this.#handOver()
    })
  }

  /** Breaks at some byte of what is under way: a first part of it still arrives, the rest is lost. */
  cut(): void {
    if (this.#isCut) return
    this.#isCut = true
    const kept = this.#random.int(0, this.#items.length)
    // A network that holds everything back has nothing more to hand over.
    for (const [index, item] of this.#items.entries()) if (index >= kept || item.isDue) item.isLost = true
    if (kept < this.#items.length) this.#world.count('link broken with frames under way')
  }

  /** Lets out what was held, unless something else still holds it. */
  unclog(): void {
    if (this.#items[0]?.isDue === true) this.#world.after(this.#delays.baseMs, () => this.#handOver())
  }

  /** One at a time: what the receiver makes of one comes before the next. */
  #handOver(): void {
    const [first] = this.#items
    if (first?.isDue !== true || this.#isClogged()) return
    this.#items.shift()
    if (!first.isLost) first.arrive()
    if (this.#items[0]?.isDue === true) this.#world.after(0.001, () => this.#handOver())
  }
}

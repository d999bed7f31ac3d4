import type { FaultKind, FaultMix } from './fault-mix.ts'
import { type FaultTargets, Harm } from './harm.ts'
import type { SeededRandom } from './random.ts'
import { calmDisk, type DiskMood } from './store.ts'

/** Does harm at random moments until it is told to stop. */
export class Faults {
  readonly #targets: FaultTargets
  readonly #mix: FaultMix
  readonly #random: SeededRandom
  #planned = 0
  #isOver = false

  constructor(targets: FaultTargets, mix: FaultMix) {
    this.#targets = targets
    this.#mix = mix
    this.#random = targets.world.random('faults')
  }

  begin(): void {
    for (const mood of this.#targets.moods) Object.assign(mood, this.#calm)
    this.#plan()
  }

  get #calm(): Partial<DiskMood> {
    return this.#isOver ? calmDisk : { ...calmDisk, syncMaxMs: this.#mix.syncMaxMs }
  }

  #plan(): void {
    this.#targets.world.after(-Math.log(1 - this.#random.next()) * this.#mix.everyMs, () => {
      if (this.#isOver) return
      const kind = this.#random.weighted(this.#mix.weights)
      this.#planned += 1
      if (kind !== undefined) this.#harm(kind, `f${this.#planned}`)
      this.#plan()
    })
  }

  /** Each fault has chance of its own: leaving one out leaves the others as they are. */
  #harm(kind: FaultKind, id: string): void {
    const { world } = this.#targets
    if (!world.keeps(id, kind)) return
    const harm = new Harm(this.#targets, { random: world.random(`fault/${id}`), calm: () => this.#calm })
    if (harm.do(kind)) world.count(`fault: ${kind}`)
  }

  /** Everything works again, and stays so. */
  heal(): void {
    this.#isOver = true
    const { network, moods, world, processes, machines, workloads } = this.#targets
    network.heal()
    for (const one of processes) {
      one.spare()
      one.life?.thaw()
    }
    for (const { session } of workloads) {
      session?.life.spare()
      session?.life.thaw()
    }
    for (const machine of machines) machine.wake()
    for (const mood of moods) Object.assign(mood, calmDisk, { isFull: false })
    world.note('healed')
  }
}

import type { MachineKeepers } from './machine-keepers.ts'
import type { Network } from './network.ts'
import type { Process } from './process.ts'
import type { SeededRandom } from './random.ts'
import type { DiskMood } from './store.ts'
import type { Workload } from './workload.ts'
import type { World } from './world.ts'

export const faultKinds = [
  'crash',
  'crash between two effects',
  'broken connection',
  'broken stream',
  'clog one way',
  'clog both ways',
  'slow disk',
  'disk error',
  'keeper killed',
  'power cut',
  'session killed',
  'frozen process',
  'wall clock set',
] as const
export type FaultKind = (typeof faultKinds)[number]

/** What goes wrong in one run, and how often. Each seed draws its own: a world with few kinds of faults goes deeper. */
export interface FaultMix {
  readonly weights: Readonly<Record<FaultKind, number>>
  /** Mean time between two faults, in milliseconds. */
  readonly everyMs: number
  /** How long a sync of a disk in good order takes at most, in milliseconds: the window in which a crash forgets. */
  readonly syncMaxMs: number
  readonly latencyMs: number
  readonly jitterMs: number
  readonly cancelChance: number
  readonly isBulky: boolean
  readonly programCrashChance: number
}

export function drawMix(random: SeededRandom): FaultMix {
  const weights = Object.fromEntries(
    faultKinds.map((kind) => [kind, random.chance(0.55) ? 0.2 + random.next() : 0]),
  ) as Record<FaultKind, number>
  return {
    weights: { ...weights, 'power cut': weights['power cut'] / 3, 'disk error': weights['disk error'] / 3 },
    everyMs: random.int(300, 4_000),
    syncMaxMs: random.pick([3, 3, 30, 120]),
    latencyMs: random.pick([0.1, 2, 20, 80, 200]) * (0.5 + random.next()),
    jitterMs: random.pick([0.1, 5, 50, 200]) * random.next(),
    cancelChance: random.chance(0.5) ? random.next() * 0.3 : 0,
    isBulky: random.chance(0.25),
    programCrashChance: random.chance(0.5) ? random.next() * 0.2 : 0,
  }
}

export interface FaultTargets {
  readonly world: World
  readonly network: Network
  readonly processes: readonly Process[]
  readonly machines: readonly MachineKeepers[]
  readonly moods: readonly DiskMood[]
  readonly workloads: readonly Workload[]
  /** Everything on the machine dies. */
  readonly cutPower: (machine: MachineKeepers) => void
}

/** A disk in good order. */
export const calmDisk: DiskMood = { syncMaxMs: 3, slowChance: 0.005, failsNext: undefined }

/** Does harm at random moments until it is told to stop. */
export class Faults {
  readonly #targets: FaultTargets
  readonly #mix: FaultMix
  readonly #random: SeededRandom
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

  get #calm(): DiskMood {
    return this.#isOver ? calmDisk : { ...calmDisk, syncMaxMs: this.#mix.syncMaxMs }
  }

  #plan(): void {
    this.#targets.world.after(-Math.log(1 - this.#random.next()) * this.#mix.everyMs, () => {
      if (this.#isOver) return
      const kind = this.#random.weighted(this.#mix.weights)
      if (kind !== undefined) this.#harm(kind)
      this.#plan()
    })
  }

  /** Everything works again, and stays so. */
  heal(): void {
    this.#isOver = true
    const { network, moods, world, processes } = this.#targets
    network.heal()
    for (const one of processes) {
      one.spare()
      one.life?.thaw()
    }
    for (const mood of moods) Object.assign(mood, calmDisk)
    world.note('healed')
  }

  #harm(kind: FaultKind): void {
    const { network, processes, machines, moods, workloads, cutPower, world } = this.#targets
    const random = this.#random
    switch (kind) {
      case 'crash':
        random.pick(processes).crash('killed')
        break
      case 'crash between two effects':
        random.pick(processes).life?.dieAfter(random.int(0, 30))
        break
      case 'broken connection':
        if (!network.breakOne(random)) return
        break
      case 'broken stream':
        if (!network.breakStream(random)) return
        break
      case 'clog one way':
      case 'clog both ways':
        this.#clog(kind === 'clog both ways')
        break
      case 'slow disk': {
        const mood = random.pick(moods)
        Object.assign(mood, { syncMaxMs: random.int(3, 200), slowChance: random.next() * 0.3, failsNext: undefined })
        world.after(random.next() * 5_000, () => Object.assign(mood, this.#calm))
        break
      }
      case 'disk error':
        random.pick(processes).failDisk(random.chance(0.5))
        break
      case 'keeper killed': {
        const live = machines.flatMap((machine) => machine.live)
        if (live.length === 0) return
        random.pick(live).kill()
        break
      }
      case 'power cut':
        cutPower(random.pick(machines))
        break
      case 'session killed':
        random.pick(workloads).session?.die('killed')
        break
      case 'frozen process':
        if (!this.#freeze()) return
        break
      case 'wall clock set': {
        const { life } = random.pick(processes)
        if (life?.isAlive !== true) return
        life.wallOffMs += (random.chance(0.5) ? 1 : -1) * random.next() * (random.chance(0.8) ? 20_000 : 7_200_000)
        break
      }
    }
    world.count(`fault: ${kind}`)
  }

  /** A stopped process, a paused machine, a lid that was closed: it runs again later, or is killed first. */
  #freeze(): boolean {
    const { processes, world } = this.#targets
    const random = this.#random
    const { life } = random.pick(processes)
    if (life?.isAlive !== true || life.isFrozen) return false
    const forMs = random.next() * (random.chance(0.6) ? 4_000 : 30_000)
    world.note(`freeze ${life.name} for ${forMs.toFixed(0)}`)
    life.freeze()
    world.after(forMs, () => {
      if (life.isFrozen) world.note(`thaw ${life.name}`)
      life.thaw()
    })
    return true
  }

  #clog(isBothWays: boolean): void {
    const { network } = this.#targets
    const random = this.#random
    const hubs = this.#targets.workloads.map(({ hub }) => hub.self.peerId)
    const [hub, node] = [random.pick(hubs), random.pick(this.#nodes)]
    const forMs = random.next() * (random.chance(0.8) ? 4_000 : 20_000)
    const [from, to] = random.chance(0.5) ? [hub, node] : [node, hub]
    network.clog(from, to, forMs)
    if (isBothWays) network.clog(to, from, forMs)
  }

  get #nodes(): readonly string[] {
    return this.#targets.network.members
      .filter(({ roles }) => roles.includes('node'))
      .map((member) => member.machinePeerId)
  }
}

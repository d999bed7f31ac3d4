import { hex } from '../src/node/digest.ts'
import type { FaultKind } from './fault-mix.ts'
import type { HubProcess } from './hub-process.ts'
import type { Life } from './life.ts'
import type { MachineKeepers } from './machine-keepers.ts'
import type { Network } from './network.ts'
import type { NodeProcess } from './node-process.ts'
import type { Process } from './process.ts'
import type { SeededRandom } from './random.ts'
import type { DiskMood } from './store.ts'
import type { Workload } from './workload.ts'
import type { World } from './world.ts'

export interface FaultTargets {
  readonly world: World
  readonly network: Network
  readonly hubs: readonly HubProcess[]
  readonly nodes: readonly NodeProcess[]
  readonly processes: readonly Process[]
  readonly machines: readonly MachineKeepers[]
  readonly moods: readonly DiskMood[]
  readonly workloads: readonly Workload[]
}

/** One fault, with its own chance: whom it hits, and for how long. */
export class Harm {
  readonly #targets: FaultTargets
  readonly #random: SeededRandom
  /** How disks are that nothing is wrong with. */
  readonly #calm: () => Partial<DiskMood>

  constructor(
    targets: FaultTargets,
    options: { readonly random: SeededRandom; readonly calm: () => Partial<DiskMood> },
  ) {
    this.#targets = targets
    this.#random = options.random
    this.#calm = options.calm
  }

  /** @returns whether there was anything to be harmed */
  do(kind: FaultKind): boolean {
    return this.#kinds[kind]()
  }

  readonly #kinds: Readonly<Record<FaultKind, () => boolean>> = {
    crash: () => this.#crash(),
    'crash between two effects': () => this.#dieSoon(this.#random.pick(this.#targets.processes).life, 30),
    'hub taken over': () => this.#takeOver(),
    'node down for long': () => this.#down().length > 0,
    'keeper killed while its node is down': () => this.#killWhileDown(),
    'broken connection': () => this.#targets.network.breakOne(this.#random),
    'vanished connection': () => this.#targets.network.vanishOne(this.#random),
    'broken stream': () => this.#targets.network.breakStream(this.#random),
    'clog one way': () => this.#clog(false),
    'clog both ways': () => this.#clog(true),
    'machine cut off': () => this.#cutOff(),
    'links clogged one by one': () => this.#clogOneByOne(),
    'slow disk': () => this.#slowDisk(),
    'disk error': () => this.#failDisk(),
    'disk full': () => this.#fillDisk(),
    'keeper killed': () => this.#killKeeper(),
    'power cut': () => this.#cutPower(),
    'session killed': () => this.#killSession(),
    'session killed between two effects': () =>
      this.#dieSoon(this.#random.pick(this.#targets.workloads).session?.life, 4),
    'frozen process': () => this.#freeze(),
    'machine asleep': () => this.#sleep(),
    'wall clock set': () => this.#setClock(),
    'store put back': () => this.#putBack({ isNoticed: true }),
    'disk put back': () => this.#putBack({ isNoticed: false }),
    'store lost': () => this.#loseStore(),
  }

  #crash(): boolean {
    this.#random.pick(this.#targets.processes).crash('killed')
    return true
  }

  #dieSoon(life: Life | undefined, actsMax: number): boolean {
    life?.dieAfter(this.#random.int(0, actsMax))
    return life !== undefined
  }

  /** A hub that hangs is killed and another process is there at once; those it spoke with find out in their own time. */
  #takeOver(): boolean {
    const hub = this.#random.pick(this.#targets.hubs)
    const { life } = hub
    if (life?.isAlive !== true) return false
    life.freeze()
    this.#targets.world.after(this.#random.next() * 3_000, () => {
      if (hub.life !== life || !life.isAlive) return
      this.#targets.network.leaveHanging(life, () => this.#random.next() * 12_000)
      hub.crash('taken over')
      hub.start()
    })
    return true
  }

  /** A node is down until others than its first agents have ended. @returns the keepers that it left running */
  #down(): MachineKeepers['live'] {
    const node = this.#random.pick(this.#targets.nodes)
    if (node.life?.isAlive !== true) return []
    const live = node.machine.live
    node.crashFor(this.#random.next() * 15_000)
    return live
  }

  #killWhileDown(): boolean {
    const live = this.#down()
    if (live.length === 0) return false
    const kept = this.#random.pick(live)
    this.#targets.world.after(this.#random.next() * 1_000, () => kept.kill())
    return true
  }

  #slowDisk(): boolean {
    const mood = this.#random.pick(this.#targets.moods)
    Object.assign(mood, { syncMaxMs: this.#random.int(3, 200), slowChance: this.#random.next() * 0.3 })
    this.#targets.world.after(this.#random.next() * 5_000, () => Object.assign(mood, this.#calm()))
    return true
  }

  #failDisk(): boolean {
    this.#random.pick(this.#targets.processes).failDisk(this.#random.chance(0.5))
    return true
  }

  /** Every write fails until there is room again; a keeper waits with what it reads. */
  #fillDisk(): boolean {
    const mood = this.#random.pick(this.#targets.moods)
    if (mood.isFull) return false
    mood.isFull = true
    this.#targets.world.after(this.#random.next() * 5_000, () => {
      mood.isFull = false
    })
    return true
  }

  #killKeeper(): boolean {
    const live = this.#targets.machines.flatMap((machine) => machine.live)
    if (live.length === 0) return false
    this.#random.pick(live).kill()
    return true
  }

  #cutPower(): boolean {
    const node = this.#random.pick(this.#targets.nodes)
    node.crash('power cut')
    node.machine.losePower()
    return true
  }

  #killSession(): boolean {
    const { session } = this.#random.pick(this.#targets.workloads)
    session?.die('killed')
    return session !== undefined
  }

  /** A stopped process, a blocked loop: it runs again later, or is killed first. */
  #freeze(): boolean {
    const { life } = this.#random.pick(this.#targets.processes)
    if (life?.isAlive !== true || life.isFrozen) return false
    const forMs = this.#random.next() * (this.#random.chance(0.6) ? 4_000 : 30_000)
    this.#targets.world.note(`freeze ${life.name} for ${forMs.toFixed(0)}`)
    life.freeze()
    this.#targets.world.after(forMs, () => this.#thaw(life))
    return true
  }

  /** A lid that was closed: nothing on the machine runs, and its monotonic clocks stand still. */
  #sleep(): boolean {
    const { world, workloads, nodes } = this.#targets
    const process = this.#random.pick(this.#targets.processes)
    const workload = workloads.find(({ hub }) => hub === process)
    const lives = [process.life, workload?.session?.life].filter((life) => life !== undefined)
    if (lives.some((life) => !life.isAlive || life.isFrozen)) return false
    const machine = nodes.find((node) => node === process)?.machine
    const forMs = this.#random.next() * (this.#random.chance(0.5) ? 8_000 : 60_000)
    world.note(`sleep ${process.name} for ${forMs.toFixed(0)}`)
    for (const life of lives) life.sleep()
    machine?.sleep()
    world.after(forMs, () => {
      for (const life of lives) this.#thaw(life)
      machine?.wake()
    })
    return true
  }

  #thaw(life: Life): void {
    if (life.isFrozen) this.#targets.world.note(`thaw ${life.name}`)
    life.thaw()
  }

  #setClock(): boolean {
    const { life } = this.#random.pick(this.#targets.processes)
    if (life?.isAlive !== true) return false
    const farMs = this.#random.chance(0.8) ? 20_000 : 7_200_000
    life.wallOffMs += (this.#random.chance(0.5) ? 1 : -1) * this.#random.next() * farMs
    return true
  }

  #clog(isBothWays: boolean): boolean {
    const { network } = this.#targets
    const hub = this.#random.pick(this.#targets.hubs).self.peerId
    const node = this.#random.pick(this.#targets.nodes).self.peerId
    const forMs = this.#random.next() * (this.#random.chance(0.8) ? 4_000 : 20_000)
    const [from, to] = this.#random.chance(0.5) ? [hub, node] : [node, hub]
    network.clog(from, to, forMs)
    if (isBothWays) network.clog(to, from, forMs)
    return true
  }

  /** A machine reaches none of the others, or none of them reaches it, or both. */
  #cutOff(): boolean {
    const { network, hubs, nodes } = this.#targets
    const isHub = this.#random.chance(0.4)
    const one = this.#random.pick<HubProcess | NodeProcess>(isHub ? hubs : nodes).self.peerId
    const ways = this.#random.pick(['out', 'in', 'both'] as const)
    const forMs = this.#random.next() * (this.#random.chance(0.6) ? 6_000 : 30_000)
    for (const { self } of isHub ? nodes : hubs) {
      if (ways !== 'in') network.clog(one, self.peerId, forMs)
      if (ways !== 'out') network.clog(self.peerId, one, forMs)
    }
    return true
  }

  /** All links clog one after the other, and come back in another order. */
  #clogOneByOne(): boolean {
    const { network, world, hubs, nodes } = this.#targets
    for (const hub of hubs) {
      for (const node of nodes) {
        const forMs = this.#random.next() * 6_000
        world.after(this.#random.next() * 4_000, () => {
          network.clog(hub.self.peerId, node.self.peerId, forMs)
          network.clog(node.self.peerId, hub.self.peerId, forMs)
        })
      }
    }
    return true
  }

  /**
   * The store of a process is put back to what it was some time ago. `isNoticed`: by a copied folder, which the store tells from
   * the folder that it was made in; otherwise by whatever leaves no trace, as a snapshot of the disk or a file system that does
   * not say when a folder was made.
   */
  #putBack({ isNoticed }: { readonly isNoticed: boolean }): boolean {
    const process = this.#random.pick(this.#targets.processes)
    const { identity } = process.disk
    const entries = process.disk.entries()
    this.#targets.world.after(500 + this.#random.next() * 6_000, () => {
      this.#targets.world.note(`put back ${process.name}`)
      process.crash('store put back')
      const incarnation = identity.incarnation + (isNoticed ? 1 : 0)
      process.replaceDisk({ identity: { ...identity, incarnation }, entries })
    })
    return true
  }

  /** The store of a process is gone, and a new one is made in its place. */
  #loseStore(): boolean {
    const process = this.#random.pick(this.#targets.processes)
    this.#targets.world.note(`lose the store of ${process.name}`)
    process.crash('store lost')
    process.replaceDisk({ identity: { storeId: hex(this.#random.bytes(16)), incarnation: 1 }, entries: [] })
    return true
  }
}

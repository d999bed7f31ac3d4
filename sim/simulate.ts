import type { MemberFacts, PeerFacts } from '../src/ports/peers.ts'
import { DeedsLedger } from './deeds.ts'
import { tellWhatIsLeft, tellWhatIsOnRecord, whatIsLeft } from './evidence.ts'
import { calmDisk, drawMix, Faults } from './faults.ts'
import { HubProcess } from './hub-process.ts'
import { MachineKeepers } from './machine-keepers.ts'
import { Network } from './network.ts'
import { NodeProcess } from './node-process.ts'
import { Observer } from './observer.ts'
import type { Process } from './process.ts'
import type { Scene } from './scene.ts'
import { WatchedDisk, watchOutbox } from './watched-disk.ts'
import { Workload } from './workload.ts'
import { settled, type Violation, World } from './world.ts'

/** How long things go wrong, how long the rest may take after that, and how long nothing may happen then: milliseconds. */
const phases = { faultsMs: 20_000, healMs: 400_000, idleMs: 60_000 } as const

export interface Outcome {
  readonly seed: number
  readonly traceHash: string
  readonly steps: number
  readonly virtualMs: number
  readonly violations: readonly Violation[]
  readonly counts: ReadonlyMap<string, number>
  readonly lastTrace: readonly string[]
}

export interface SimulateOptions {
  readonly onTrace?: (line: string) => void
  /** Shows the world as it was at the end. */
  readonly onEnd?: (scene: Scene) => void
}

/** One whole run: two hubs and two nodes over the production code, in a world that the seed alone decides. */
export async function simulate(seed: number, options: SimulateOptions = {}): Promise<Outcome> {
  // The caller may be a callback of the event loop, in which nothing is in the order that one seed stands for.
  await settled()
  const world = new World(seed)
  world.onTrace = options.onTrace
  const onRejection = (error: unknown): void => {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    world.violate('no-bugs', `a promise was rejected and nobody looked: ${text}`)
  }
  process.on('unhandledRejection', onRejection)
  try {
    const run = new Run(world)
    await run.run()
    options.onEnd?.(run.scene)
  } finally {
    process.off('unhandledRejection', onRejection)
  }
  const { traceHash, steps, nowMs, violations, counts, lastTrace } = world
  return { seed, traceHash, steps, virtualMs: nowMs, violations, counts, lastTrace }
}

class Run {
  readonly #world: World
  readonly scene: Scene
  readonly #observer: Observer
  readonly #faults: Faults

  constructor(world: World) {
    this.#world = world
    const mix = drawMix(world.random('mix'))
    const shape = world.random('shape')
    const deeds = new DeedsLedger(world)
    const network = new Network({
      world,
      members: [...hubNames.map((name) => memberOf(name, 'hub')), ...nodeNames.map((name) => memberOf(name, 'node'))],
      delays: { baseMs: mix.latencyMs, jitterMs: mix.jitterMs },
      onFrame: (from, to, frame, link) => this.#observer.saw(from, to, frame, link),
    })
    const hubs = hubNames.map((name, index) => {
      const self = factsOf(name, 'hub')
      const disk = diskOf(world, name)
      return new HubProcess(name, { world, disk, mood: { ...calmDisk }, network, self, hubId: `hub_${index + 1}` })
    })
    const nodes = nodeNames.map((name) => {
      const mood = { ...calmDisk }
      const machine = new MachineKeepers(name, { world, deeds, mood })
      const self = factsOf(name, 'node')
      const disk = diskOf(world, name)
      return new NodeProcess(name, { world, disk, mood, network, machine, self, maxAgents: shape.int(1, 4) })
    })
    const workloads = hubs.map((hub) => {
      const plan = {
        spawns: shape.int(1, 6),
        machines: nodeNames,
        cancelChance: mix.cancelChance,
        isBulky: mix.isBulky,
        crashChance: mix.programCrashChance,
      }
      return new Workload(hub, { plan })
    })
    const processes: readonly Process[] = [...hubs, ...nodes]
    for (const one of processes) one.restartsAfter = () => shape.next() * 4_000
    const byPeerId = new Map<string, Process>([...hubs, ...nodes].map((one) => [one.self.peerId, one]))
    this.scene = { world, hubs, nodes, workloads, deeds }
    this.#observer = new Observer({
      world,
      processOf: (peerId) => {
        const found = byPeerId.get(peerId)
        if (found === undefined) throw new Error(`nobody is ${peerId}`)
        return found
      },
    })
    for (const hub of hubs) watchOutbox(hub, hub.hubId, new Map(nodes.map((node) => [node.self.peerId, node])))
    for (const node of nodes) watchOutbox(node, node.self.peerId, new Map(hubs.map((hub) => [hub.hubId, hub])))
    this.#faults = new Faults(
      {
        world,
        network,
        processes,
        machines: nodes.map(({ machine }) => machine),
        moods: processes.map(({ mood }) => mood),
        workloads,
        cutPower: (machine) => {
          nodes.find((node) => node.machine === machine)?.crash('power cut')
          machine.losePower()
        },
      },
      mix,
    )
  }

  /** A phase in which things go wrong, one in which everything ends, and one in which nothing may happen. */
  async run(): Promise<void> {
    const world = this.#world
    const { hubs, nodes, workloads } = this.scene
    for (const one of [...nodes, ...hubs]) one.start()
    for (const workload of workloads) workload.begin()
    this.#faults.begin()
    await world.run({ untilMs: phases.faultsMs })
    this.#faults.heal()
    for (const workload of workloads) workload.heal()
    const isOver = (): boolean => workloads.every(({ isDone }) => isDone) && whatIsLeft(this.scene).length === 0
    await world.run({ untilMs: phases.faultsMs + phases.healMs, isOver })
    if (world.violations.length > 0) return
    tellWhatIsLeft(this.scene)
    await tellWhatIsOnRecord(this.scene)
    await this.#rest()
    world.endHistory()
  }

  /** A minute in which nothing may happen. */
  async #rest(): Promise<void> {
    const world = this.#world
    if (world.violations.length > 0) return
    // What was on its way when the last word was read still arrives.
    await world.run({ untilMs: world.nowMs + 2_000 })
    const processes = [...this.scene.hubs, ...this.scene.nodes]
    const before = { frames: this.#observer.meaningful, syncs: processes.map((one) => one.syncs), steps: world.steps }
    await world.run({ untilMs: world.nowMs + phases.idleMs })
    const stirred = (who: string, what: string, count: number, allowed = 0): void =>
      world.tell({ type: 'stirred', who, what, count, allowed })
    stirred('the wire', 'frames', this.#observer.meaningful - before.frames)
    for (const [index, one] of processes.entries()) stirred(one.name, 'writes', one.syncs - (before.syncs[index] ?? 0))
    // A hub's one-second tick does nothing but look at its clocks.
    const ticks = this.scene.hubs.length * Math.ceil(phases.idleMs / 1_000 + 1)
    stirred('the world', 'events', world.steps - before.steps, ticks + idleStepsMax)
  }
}

/** Four links with a heartbeat of each side every 15 s, and whatever answers them, for a minute. */
const idleStepsMax = 150

const hubNames = ['hub-a', 'hub-b'] as const
const nodeNames = ['node-x', 'node-y'] as const

function factsOf(name: string, kind: 'hub' | 'node'): PeerFacts {
  const index = (hubNames as readonly string[]).indexOf(name) + 1
  return {
    peerId: kind === 'hub' ? `peer-${name}-process` : `peer-${name}`,
    machinePeerId: `peer-${name}`,
    name,
    kind,
    roles: [kind],
    ...(kind === 'hub' ? { hubId: `hub_${index}` } : {}),
    softwareVersion: '0.1.0',
    path: 'lan',
  }
}

function memberOf(name: string, kind: 'hub' | 'node'): MemberFacts {
  return {
    machinePeerId: `peer-${name}`,
    name,
    roles: [kind],
    addresses: [],
    issuedAtMs: 0,
    expiresAtMs: Date.UTC(2036, 0, 1),
  }
}

function diskOf(world: World, name: string): WatchedDisk {
  const id = [...world.random(`store/${name}`).bytes(16)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return new WatchedDisk({ storeId: id, incarnation: 1 })
}

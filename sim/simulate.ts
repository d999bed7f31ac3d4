import { auditAtWork } from './audit-at-work.ts'
import { factsOf, memberOf, partsOf } from './cast.ts'
import { DeedsLedger } from './deeds.ts'
import { tellTurns, tellWhatIsLeft, tellWhatIsOnRecord, whatIsLeft } from './evidence.ts'
import { drawMix, type FaultMix } from './fault-mix.ts'
import { Faults } from './faults.ts'
import { HubProcess } from './hub-process.ts'
import { MachineKeepers } from './machine-keepers.ts'
import { Network } from './network.ts'
import { NodeProcess } from './node-process.ts'
import { Observer } from './observer.ts'
import type { Process } from './process.ts'
import type { SeededRandom } from './random.ts'
import type { Scenario } from './scenario.ts'
import type { Scene } from './scene.ts'
import { watchOutbox } from './watched-disk.ts'
import { Workload, type WorkPlan } from './workload.ts'
import { settled, type Violation, World } from './world.ts'

/** How long things go wrong, how long the rest may take after that, and how long nothing may happen then: milliseconds. */
const phases = { faultsMs: 20_000, healMs: 400_000, idleMs: 60_000 } as const

/** When hubs are asked which turns may be running: late enough for a machine to have been away for long. */
const turnsToldMs = [11_000, 13_000, 15_000, 17_000, 19_999] as const

/** Where hubs are audited while things go on, they are until so long after everything healed. */
const auditedUntilMs = phases.faultsMs + 10_000

export interface Outcome {
  readonly seed: number
  readonly traceHash: string
  readonly steps: number
  readonly virtualMs: number
  readonly violations: readonly Violation[]
  readonly counts: ReadonlyMap<string, number>
  readonly lastTrace: readonly string[]
  /** What was done of what the seed planned: its faults and its calls, in their order. */
  readonly planned: readonly string[]
}

export interface SimulateOptions {
  readonly scenario?: Scenario
  /** What is done of what the seed plans; absent: all of it. */
  readonly kept?: ReadonlySet<string>
  readonly onTrace?: (line: string) => void
  /** Goes on after a broken promise, so that every check has its say. */
  readonly judgesAll?: boolean
  /** Shows the world as it was at the end. */
  readonly onEnd?: (scene: Scene) => void
}

/** One whole run: two hubs and four nodes over the production code, in a world that the seed alone decides. */
export async function simulate(seed: number, options: SimulateOptions = {}): Promise<Outcome> {
  // The caller may be a callback of the event loop, in which nothing is in the order that one seed stands for.
  await settled()
  const { scenario } = options
  const world = new World(seed, { kept: options.kept, excused: new Set(Object.keys(scenario?.excused ?? {})) })
  world.onTrace = options.onTrace
  world.judgesAll = options.judgesAll === true
  const onRejection = (error: unknown): void => {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    world.violate('no-bugs', `a promise was rejected and nobody looked: ${text}`)
  }
  process.on('unhandledRejection', onRejection)
  try {
    const run = new Run(world, scenario)
    await run.run()
    options.onEnd?.(run.scene)
    // What the last event left rejected is told only now, and belongs to this seed.
    await turn()
  } finally {
    process.off('unhandledRejection', onRejection)
  }
  const { traceHash, steps, nowMs, violations, counts, lastTrace, planned } = world
  return { seed, traceHash, steps, virtualMs: nowMs, violations, counts, lastTrace, planned }
}

/** One turn of the event loop. Nothing of the simulated world goes on any more. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

class Run {
  readonly #world: World
  readonly scene: Scene
  readonly #observer: Observer
  readonly #faults: Faults
  readonly #auditsAtMs: readonly number[]

  constructor(world: World, scenario: Scenario = {}) {
    this.#world = world
    const { auditsEveryMs: everyMs = auditedUntilMs } = scenario
    this.#auditsAtMs = Array.from(
      { length: Math.ceil(auditedUntilMs / everyMs) - 1 },
      (_, index) => (index + 1) * everyMs,
    )
    const mix = drawMix(world.random('mix'), scenario.faults)
    const shape = world.random('shape')
    const hubNames = names('hub', scenario.hubs ?? defaultShape.hubs)
    const nodeNames = names('node', scenario.nodes ?? defaultShape.nodes)
    const deeds = new DeedsLedger(world)
    const network = new Network({
      world,
      members: [...hubNames.map((name) => memberOf(name, 'hub')), ...nodeNames.map((name) => memberOf(name, 'node'))],
      delays: { baseMs: mix.latencyMs, jitterMs: mix.jitterMs },
      onFrame: (from, to, frame, link) => this.#observer.saw(from, to, frame, link),
    })
    const hubs = hubNames.map((name, index) => {
      const hubId = `hub_${index + 1}`
      return new HubProcess(name, { ...partsOf(world, name), network, self: factsOf(name, 'hub', hubId), hubId })
    })
    const nodes = nodeNames.map((name) => {
      const parts = partsOf(world, name)
      const maxAgents = shape.int(1, 4)
      const machine = new MachineKeepers(name, { world, deeds, mood: parts.mood, maxAgents })
      return new NodeProcess(name, {
        ...parts,
        network,
        machine,
        self: factsOf(name, 'node'),
        maxAgents,
      })
    })
    const tasks = (scenario.tasks ?? defaultShape.tasks) / hubs.length
    const workloads = hubs.map((hub) => new Workload(hub, { plan: planOf(tasks, nodeNames, mix, shape), deeds }))
    this.scene = { world, hubs, nodes, workloads, deeds }
    this.#observer = new Observer({ world, processOf: (peerId) => this.#processOf(peerId) })
    for (const one of this.#processes) one.restartsAfter = () => shape.next() * 4_000
    for (const hub of hubs) watchOutbox(hub, hub.hubId, new Map(nodes.map((node) => [node.self.peerId, node])))
    for (const node of nodes) watchOutbox(node, node.self.peerId, new Map(hubs.map((hub) => [hub.hubId, hub])))
    const machines = nodes.map(({ machine }) => machine)
    const moods = this.#processes.map(({ mood }) => mood)
    this.#faults = new Faults(
      { world, network, hubs, nodes, processes: this.#processes, machines, moods, workloads },
      mix,
    )
  }

  get #processes(): readonly Process[] {
    return [...this.scene.hubs, ...this.scene.nodes]
  }

  #processOf(peerId: string): Process {
    const found = [...this.scene.hubs, ...this.scene.nodes].find(({ self }) => self.peerId === peerId)
    if (found === undefined) throw new Error(`nobody is ${peerId}`)
    return found
  }

  /** A phase in which things go wrong, one in which everything ends, and one in which nothing may happen. */
  async run(): Promise<void> {
    const world = this.#world
    const { hubs, nodes, workloads } = this.scene
    for (const one of [...nodes, ...hubs]) one.start()
    for (const workload of workloads) workload.begin()
    this.#faults.begin()
    for (const atMs of turnsToldMs) world.after(atMs, () => tellTurns(this.scene))
    for (const atMs of this.#auditsAtMs) world.after(atMs, () => auditAtWork(this.scene))
    await world.run({ untilMs: phases.faultsMs })
    this.#faults.heal()
    for (const workload of workloads) workload.heal()
    const isOver = (): boolean => workloads.every(({ isDone }) => isDone) && whatIsLeft(this.scene).length === 0
    await world.run({ untilMs: phases.faultsMs + phases.healMs, isOver })
    if (world.isBroken) return
    tellWhatIsLeft(this.scene)
    await tellWhatIsOnRecord(this.scene)
    await this.#rest()
    world.endHistory()
  }

  /** A minute in which nothing may happen. */
  async #rest(): Promise<void> {
    const world = this.#world
    if (world.isBroken) return
    // What was on its way when the last word was read still arrives.
    await world.run({ untilMs: world.nowMs + 2_000 })
    const processes = this.#processes
    const before = { frames: this.#observer.meaningful, syncs: processes.map((one) => one.syncs), steps: world.steps }
    await world.run({ untilMs: world.nowMs + phases.idleMs })
    const stirred = (who: string, what: string, count: number, allowed = 0): void =>
      world.tell({ type: 'stirred', who, what, count, allowed })
    stirred('the wire', 'frames', this.#observer.meaningful - before.frames)
    for (const [index, one] of processes.entries()) stirred(one.name, 'writes', one.syncs - (before.syncs[index] ?? 0))
    // A hub's one-second tick does nothing but look at its clocks.
    const ticks = this.scene.hubs.length * Math.ceil(phases.idleMs / 1_000 + 1)
    const links = this.scene.hubs.length * this.scene.nodes.length
    stirred('the world', 'events', world.steps - before.steps, ticks + links * idleStepsMaxOfLink)
  }
}

/** A heartbeat of each side every 15 s, and whatever answers it, for a minute. */
const idleStepsMaxOfLink = 38

/** The world where a scenario does not ask for another one. `tasks`: spawns and messages of all projects. */
const defaultShape = { hubs: 2, nodes: 4, tasks: 40 } as const

/** hub-a, hub-b … */
function names(kind: 'hub' | 'node', count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${kind}-${String.fromCharCode(97 + index)}`)
}

/** What one project asks for: so many spawns and messages in all. */
function planOf(tasks: number, machines: readonly string[], mix: FaultMix, shape: SeededRandom): WorkPlan {
  const spawns = shape.int(Math.ceil(tasks / 4), Math.ceil((3 * tasks) / 4))
  const { cancelChance, isBulky, programCrashChance: crashChance, impatience } = mix
  return { spawns, messages: tasks - spawns, machines, cancelChance, isBulky, crashChance, impatience }
}

import { allChecks } from '../src/audit/all-checks.ts'
import { factsOf, memberOf, partsOf } from './cast.ts'
import { Session } from './client.ts'
import { HubProcess } from './hub-process.ts'
import { type Deeds, MachineKeepers } from './machine-keepers.ts'
import { Network } from './network.ts'
import { NodeProcess } from './node-process.ts'
import type { Script } from './program.ts'
import { laneOn } from './scene.ts'
import { World } from './world.ts'

/** How large a world is, in all. */
export interface GrowthPlan {
  /** Meshes, each with one hub and its share of nodes and tasks: one mesh takes at most a thousand members. */
  readonly meshes: number
  readonly nodes: number
  readonly tasks: number
  /** Agents that one hub has asked for and whose results it has not read. */
  readonly inFlight: number
}

/** How it went up to a moment. */
export interface GrowthReading {
  readonly tasks: number
  readonly events: number
  readonly virtualMs: number
}

export interface GrowthOutcome extends GrowthReading {
  /** Results that came twice, were never asked for, or did not complete, and what was left undone. */
  readonly wrong: readonly string[]
}

/** Readings of a run. */
const readings = 20
/** Agents that one machine takes. */
const maxAgents = 4
/** How long one wait lasts, in milliseconds. */
const waitMs = 60_000

/**
 * A world in which nothing goes wrong and much is done: whether the cost of a task stays the same, however many there were.
 * Every task is one agent that answers once; each result is counted, and its text is compared with what was asked.
 *
 * @param onReading - is told twenty times how far it is
 */
export async function grow(plan: GrowthPlan, onReading: (reading: GrowthReading) => void): Promise<GrowthOutcome> {
  // The checks would remember every task, and this is about what the product remembers.
  const world = new World(1, { excused: new Set(allChecks.map(({ name }) => name)) })
  const share = { nodes: Math.ceil(plan.nodes / plan.meshes), tasks: Math.ceil(plan.tasks / plan.meshes) }
  let done = 0
  const every = Math.max(1, Math.floor((share.tasks * plan.meshes) / readings))
  const reading = (): GrowthReading => ({ tasks: done, events: world.steps, virtualMs: world.nowMs })
  const meshes = Array.from({ length: plan.meshes }, (_, index) => {
    const onResult = (): void => {
      done += 1
      if (done % every === 0) onReading(reading())
    }
    return new GrowingMesh(world, { name: `m${index}`, ...share, inFlight: plan.inFlight, onResult })
  })
  for (const mesh of meshes) mesh.begin()
  await world.run({ untilMs: Number.MAX_SAFE_INTEGER, isOver: () => meshes.every(({ isDone }) => isDone) })
  // Receipts and acknowledgements of the last results are still on their way.
  await world.run({ untilMs: world.nowMs + waitMs })
  const wrong = [...world.violations.map(({ message }) => message), ...meshes.flatMap((mesh) => mesh.wrong())]
  return { ...reading(), wrong }
}

interface MeshPlan {
  readonly name: string
  readonly nodes: number
  readonly tasks: number
  readonly inFlight: number
  readonly onResult: () => void
}

/** One hub, its nodes, and the one session that asks for everything. */
class GrowingMesh {
  readonly #plan: MeshPlan
  readonly #hub: HubProcess
  readonly #nodes: readonly NodeProcess[]
  readonly #session: Session
  readonly #wrong: string[] = []
  /** By agent: the mark that its result has to begin with. */
  readonly #open = new Map<string, string>()
  #asked = 0
  #read = 0

  constructor(world: World, plan: MeshPlan) {
    this.#plan = plan
    const hubName = `${plan.name}-hub`
    const nodeNames = Array.from({ length: plan.nodes }, (_, index) => `${plan.name}-node-${index}`)
    const network = new Network({
      world,
      members: [memberOf(hubName, 'hub'), ...nodeNames.map((name) => memberOf(name, 'node'))],
      delays: { baseMs: 1, jitterMs: 1 },
      onFrame: () => undefined,
    })
    const hubId = `hub_${plan.name}`
    this.#hub = new HubProcess(hubName, {
      ...partsOf(world, hubName),
      network,
      self: factsOf(hubName, 'hub', hubId),
      hubId,
    })
    this.#nodes = nodeNames.map((name) => {
      const parts = partsOf(world, name)
      const machine = new MachineKeepers(name, { world, deeds: nobodyLooks, mood: parts.mood, maxAgents })
      return new NodeProcess(name, { ...parts, network, machine, self: factsOf(name, 'node'), maxAgents })
    })
    this.#session = new Session(this.#hub, { name: `${plan.name}-session` })
  }

  /** Everything was asked for and read. */
  get isDone(): boolean {
    return this.#read >= this.#plan.tasks
  }

  begin(): void {
    this.#hub.start()
    for (const node of this.#nodes) node.start()
    this.#work().catch((error: unknown) => this.#wrong.push(String(error)))
  }

  /** What did not go as it has to, once all is over. */
  wrong(): readonly string[] {
    const lanes = this.#nodes.flatMap((node) => {
      const sent = laneOn(node.disk, this.#hub.hubId)
      const isTold = sent === undefined || sent.sent === laneOn(this.#hub.disk, node.self.peerId)?.received
      const { live } = node.machine
      return [
        ...(isTold ? [] : [`the hub has not heard all of ${node.name}`]),
        ...live.map(({ attemptId }) => `the keeper of ${attemptId} still runs`),
      ]
    })
    return [...this.#wrong, ...lanes, ...[...this.#open.keys()].map((agentId) => `${agentId} never ended`)]
  }

  async #work(): Promise<void> {
    while (!this.isDone) {
      while (this.#asked < this.#plan.tasks && this.#open.size < this.#plan.inFlight) await this.#spawn()
      await this.#wait()
    }
  }

  async #spawn(): Promise<void> {
    this.#asked += 1
    const mark = `${this.#plan.name}.${this.#asked}`
    const script: Script = { mark, lines: 1, lineMs: 200, answerBytes: 100, crashes: false }
    const agentId = (await this.#call('spawn_agent', { brief: JSON.stringify(script) }))['agent_id']
    if (typeof agentId === 'string') this.#open.set(agentId, mark)
  }

  async #wait(): Promise<void> {
    const { results } = await this.#call('wait_for_agents', { timeout_ms: waitMs })
    for (const result of Array.isArray(results) ? (results as readonly Record<string, unknown>[]) : []) {
      const { agent_id: agentId, outcome, text } = result
      const mark = this.#open.get(String(agentId))
      if (!this.#open.delete(String(agentId))) this.#wrong.push(`a result of ${String(agentId)} that nobody waits for`)
      else if (outcome !== 'completed' || !String(text).startsWith(`${mark} `)) this.#wrong.push(JSON.stringify(result))
      this.#read += 1
      this.#plan.onResult()
    }
  }

  async #call(
    tool: 'spawn_agent' | 'wait_for_agents',
    args: Record<string, unknown>,
  ): Promise<Record<string, unknown>> {
    const answer = await this.#session.call(tool, args)
    if (answer.type === 'reply') return answer.document
    throw answer.type === 'refused' ? answer.error : new Error('a call was cancelled that nobody cancels')
  }
}

const nobodyLooks: Deeds = { launched: () => undefined, took: () => undefined, answered: () => undefined }

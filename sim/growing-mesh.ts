import { allChecks } from '../src/audit/all-checks.ts'
import { factsOf, memberOf, partsOf } from './cast.ts'
import { Session } from './client.ts'
import { HubProcess } from './hub-process.ts'
import { type Deeds, MachineKeepers } from './machine-keepers.ts'
import { Network } from './network.ts'
import { NodeProcess } from './node-process.ts'
import type { Script } from './program.ts'
import type { RecordsFile } from './records-file.ts'
import { laneOn } from './scene.ts'
import { World } from './world.ts'

/** What one mesh is to do. */
export interface MeshPlan {
  /** Unique among the meshes: its world draws by its names. */
  readonly name: string
  readonly nodes: number
  readonly tasks: number
  /** Agents that the hub has asked for and whose results were not read. */
  readonly inFlight: number
}

/** Agents that one machine takes. */
const maxAgents = 4
/** Calls that a session makes side by side. */
const spawnsAtOnce = 8
/** How long one wait lasts, in milliseconds. */
const waitMs = 60_000

/**
 * One hub, its nodes, and the one session that asks for everything, in a world of their own: what becomes of it depends on its
 * plan alone. Everything that is on a disk is in a file.
 */
export class GrowingMesh {
  // The checks would remember every task, and this is about what the product remembers.
  readonly #world = new World(1, { excused: new Set(allChecks.map(({ name }) => name)), hasSteadyClocks: true })
  readonly #plan: MeshPlan
  readonly #hub: HubProcess
  readonly #nodes: readonly NodeProcess[]
  readonly #session: Session
  readonly #wrong: string[] = []
  /** By agent: the mark that its result has to begin with. */
  readonly #open = new Map<string, string>()
  #asked = 0
  #read = 0
  /** When receipts and acknowledgements of the last results have had their time. */
  #restUntilMs: number | undefined

  constructor(plan: MeshPlan, file: RecordsFile) {
    this.#plan = plan
    const world = this.#world
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
      ...partsOf(world, hubName, file.disk()),
      network,
      self: factsOf(hubName, 'hub', hubId),
      hubId,
    })
    this.#nodes = nodeNames.map((name) => {
      const parts = partsOf(world, name, file.disk())
      const { mood } = parts
      const machine = new MachineKeepers(name, { world, deeds: nobodyLooks, mood, maxAgents, shelf: file.disk() })
      return new NodeProcess(name, { ...parts, network, machine, self: factsOf(name, 'node'), maxAgents })
    })
    this.#session = new Session(this.#hub, { name: `${plan.name}-session` })
  }

  /** Tasks whose results were read. */
  get tasks(): number {
    return this.#read
  }

  get events(): number {
    return this.#world.steps
  }

  get virtualMs(): number {
    return this.#world.nowMs
  }

  /** Nothing is left to be done. */
  get isOver(): boolean {
    return this.#world.isBroken || this.virtualMs >= (this.#restUntilMs ?? Number.POSITIVE_INFINITY)
  }

  begin(): void {
    this.#hub.start()
    for (const node of this.#nodes) node.start()
    this.#work().catch((error: unknown) => this.#wrong.push(String(error)))
  }

  /** Goes on for so many milliseconds of its time, or until it is over. */
  async advance(byMs: number): Promise<void> {
    const untilMs = Math.min(this.virtualMs + byMs, this.#restUntilMs ?? Number.POSITIVE_INFINITY)
    const isRead = (): boolean => this.#restUntilMs === undefined && this.#read >= this.#plan.tasks
    await this.#world.run({ untilMs, isOver: isRead })
    if (isRead()) this.#restUntilMs = this.virtualMs + waitMs
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
    return [
      ...this.#world.violations.map(({ message }) => message),
      ...this.#wrong,
      ...lanes,
      ...[...this.#open.keys()].map((agentId) => `${agentId} never ended`),
    ]
  }

  async #work(): Promise<void> {
    while (this.#read < this.#plan.tasks) {
      while (this.#room > 0)
        await Promise.all(Array.from({ length: Math.min(this.#room, spawnsAtOnce) }, () => this.#spawn()))
      await this.#wait()
    }
  }

  /** Agents that may be asked for now. */
  get #room(): number {
    const { tasks, inFlight } = this.#plan
    return Math.min(tasks - this.#asked, inFlight - this.#open.size)
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

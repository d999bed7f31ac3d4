import type { NfltrError } from '../src/core/errors.ts'
import { type Answer, Session } from './client.ts'
import type { HubProcess } from './hub-process.ts'
import type { Script } from './program.ts'
import type { SeededRandom } from './random.ts'
import type { World } from './world.ts'

/** What one project asks of its hub over a run. */
export interface WorkPlan {
  readonly spawns: number
  readonly machines: readonly string[]
  /** How likely each call is to be cancelled. */
  readonly cancelChance: number
  /** Whether texts are sometimes longer than one frame. */
  readonly isBulky: boolean
  readonly crashChance: number
}

/** Refusals that a model may meet in a world where things fail. */
const expected: ReadonlySet<NfltrError['code']> = new Set([
  'agent_closed',
  'stopping',
  'node_lost',
  'queue_full',
  'hub_held',
  'link_down',
])

/** How long a finished project waits between looks, in milliseconds. */
const quietMs = 12_000

/** One project: sessions one after the other that spawn, steer, stop, continue and wait, until everything is done. */
export class Workload {
  readonly hub: HubProcess
  /** What was asked for, by mark: every spawn and every message that the hub answered. */
  readonly spawned = new Map<string, string>()
  readonly sent = new Map<string, string>()
  readonly #world: World
  readonly #plan: WorkPlan
  readonly #random: SeededRandom
  #sessions = 0
  #session: Session | undefined
  #spawnsLeft: number
  #marks = 0
  #isHealed = false
  #isDone = false

  constructor(hub: HubProcess, options: { readonly plan: WorkPlan }) {
    this.hub = hub
    this.#world = hub.world
    this.#plan = options.plan
    this.#spawnsLeft = options.plan.spawns
    this.#random = hub.world.random(`workload/${hub.name}`)
  }

  get session(): Session | undefined {
    return this.#session?.life.isAlive === true ? this.#session : undefined
  }

  /** Everything was asked for, read, and nothing is named any more. */
  get isDone(): boolean {
    return this.#isDone
  }

  begin(): void {
    this.#sessions += 1
    const session = new Session(this.hub, { name: `${this.hub.name}-s${this.#sessions}` })
    this.#session = session
    session.life.onDeath(() => this.#world.after(this.#random.next() * 2_000, () => this.begin()))
    this.#work(session).catch((error: unknown) => {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
      this.#world.violate('no-bugs', `session ${session.name}: ${text}`)
    })
  }

  /** No more faults: what is still to be asked for is asked for, then only waited for. */
  heal(): void {
    this.#isHealed = true
  }

  async #work(session: Session): Promise<void> {
    while (!this.#isHealed || this.#spawnsLeft > 0) {
      await session.life.delayed(this.#random.next() * (this.#isHealed ? 50 : 800), () => undefined)
      await this.#oneCall(session)
    }
    await this.#finish(session)
  }

  async #oneCall(session: Session): Promise<void> {
    const agents = [...this.spawned.values()]
    const choice = this.#random.weighted({
      spawn: this.#spawnsLeft > 0 ? 4 : 0,
      wait: agents.length > 0 ? 4 : 0,
      send: agents.length > 0 ? 3 : 0,
      stop: agents.length > 0 ? 0.7 : 0,
      look: 0.7,
    })
    switch (choice) {
      case 'spawn':
        return await this.#spawn(session)
      case 'wait': {
        const timeout = { timeout_ms: this.#random.int(0, 6_000) }
        const some = this.#random.chance(0.2) ? { agent_ids: [this.#random.pick(agents)] } : {}
        const mode = this.#random.chance(0.2) ? { mode: 'all' } : {}
        this.#take(await session.call('wait_for_agents', { ...timeout, ...some, ...mode }, this.#cancelAfter()))
        return
      }
      case 'send':
        return await this.#send(session, this.#random.pick(agents))
      case 'stop':
        this.#take(await session.call('stop_agent', { agent_id: this.#random.pick(agents) }, this.#cancelAfter()))
        return
      default:
        this.#take(await session.call(this.#random.chance(0.5) ? 'list_agents' : 'list_nodes', {}))
    }
  }

  async #spawn(session: Session): Promise<void> {
    const { mark, text } = this.#script()
    this.#spawnsLeft -= 1
    const machine = this.#random.chance(0.4) ? { machine: this.#random.pick(this.#plan.machines) } : {}
    const answer = await session.call('spawn_agent', { brief: text, ...machine }, this.#cancelAfter())
    const document = this.#take(answer)
    const agentId = document?.['agent_id']
    if (typeof agentId === 'string') this.spawned.set(mark, agentId)
  }

  async #send(session: Session, agentId: string): Promise<void> {
    const { mark, text } = this.#script()
    const answer = await session.call('send_message', { agent_id: agentId, text }, this.#cancelAfter())
    const messageId = this.#take(answer)?.['message_id']
    if (typeof messageId === 'string') this.sent.set(mark, messageId)
  }

  /**
   * Waits until nothing runs, everything came and nothing is unconfirmed. A reply without a word of the adapter is named
   * half a minute later, so that long must pass without anything new.
   */
  async #finish(session: Session): Promise<void> {
    for (let quiet = 0; quiet < 4; ) {
      const document = this.#take(await session.call('wait_for_agents', { timeout_ms: 5_000 }))
      const left = ['results', 'still_running', 'unconfirmed'].map((name) => document?.[name])
      const isQuiet = document !== undefined && left.every((list) => Array.isArray(list) && list.length === 0)
      quiet = isQuiet ? quiet + 1 : 0
      await session.life.delayed(isQuiet ? quietMs : 100, () => undefined)
    }
    this.#isDone = true
    this.#world.note(`${this.hub.name} has read everything`)
  }

  #take(answer: Answer): Record<string, unknown> | undefined {
    if (answer.type === 'refused' && !expected.has(answer.error.code)) {
      this.#world.violate('no-bugs', `a call was refused with ${answer.error.code}: ${answer.error.stack}`)
    }
    return answer.type === 'reply' ? answer.document : undefined
  }

  #cancelAfter(): number | undefined {
    if (this.#isHealed || !this.#random.chance(this.#plan.cancelChance)) return undefined
    return this.#random.chance(0.5) ? this.#random.next() * 12 : this.#random.next() * 3_000
  }

  #script(): { readonly mark: string; readonly text: string } {
    this.#marks += 1
    const mark = `${this.hub.name}.${this.#marks}`
    const isBulky = this.#plan.isBulky && this.#random.chance(0.15)
    const script: Script = {
      mark,
      lines: this.#random.int(0, 8),
      lineMs: this.#random.int(5, 900),
      answerBytes: isBulky ? this.#random.int(60_000, 300_000) : this.#random.int(0, 300),
      crashes: this.#random.chance(this.#plan.crashChance),
    }
    return { mark, text: JSON.stringify(script) }
  }
}

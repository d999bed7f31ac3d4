import type { NfltrError } from '../src/core/errors.ts'
import { type Answer, Session } from './client.ts'
import type { DeedsLedger } from './deeds.ts'
import type { HubProcess } from './hub-process.ts'
import type { Script } from './program.ts'
import type { SeededRandom } from './random.ts'
import type { World } from './world.ts'

/** What one project asks of its hub over a run. */
export interface WorkPlan {
  readonly spawns: number
  /** Messages to agents: each steers a turn or begins another one. */
  readonly messages: number
  readonly machines: readonly string[]
  /** How likely each call is to be cancelled. */
  readonly cancelChance: number
  /** Whether texts are sometimes longer than one frame. */
  readonly isBulky: boolean
  readonly crashChance: number
  /** How likely an agent is to count as lost after a short silence. */
  readonly impatience: number
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

/** How long an answer is waited for that a call is to race with, in milliseconds. */
const raceMs = 2_000

/** How long a finished project waits between looks, in milliseconds. */
const quietMs = 12_000

/** One project: sessions one after the other that spawn, steer, stop, continue and wait, until everything is done. */
export class Workload {
  readonly hub: HubProcess
  /** What was asked for, by mark: every spawn and every message that the hub answered. */
  readonly spawned = new Map<string, string>()
  readonly sent = new Map<string, { readonly messageId: string; readonly text: string }>()
  readonly #world: World
  readonly #plan: WorkPlan
  readonly #pace: SeededRandom
  #sessions = 0
  #session: Session | undefined
  readonly #deeds: DeedsLedger
  /** Whom a text was for, by its mark. */
  readonly #agentOf = new Map<string, string>()
  #spawnsLeft: number
  #messagesLeft: number
  #calls = 0
  #marks = 0
  #isHealed = false
  #isDone = false

  constructor(hub: HubProcess, options: { readonly plan: WorkPlan; readonly deeds: DeedsLedger }) {
    this.hub = hub
    this.#world = hub.world
    this.#plan = options.plan
    this.#spawnsLeft = options.plan.spawns
    this.#messagesLeft = options.plan.messages
    this.#deeds = options.deeds
    this.#pace = hub.world.random(`workload/${hub.name}`)
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
    session.life.onDeath(() => this.#world.after(this.#pace.next() * 2_000, () => this.begin()))
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
    while (!this.#isHealed || this.#spawnsLeft + this.#messagesLeft > 0) {
      await session.life.delayed(this.#pace.next() * (this.#isHealed ? 50 : 600), () => undefined)
      await this.#oneCall(session)
    }
    await this.#finish(session)
  }

  /** Each call has chance of its own: leaving one out leaves the others much as they are. */
  async #oneCall(session: Session): Promise<void> {
    this.#calls += 1
    const id = `${this.hub.name}.${this.#calls}`
    const random = this.#world.random(`call/${id}`)
    const agents = [...this.spawned.values()]
    const some = agents.length > 0 ? 1 : 0
    const messages = this.#messagesLeft > 0 ? some : 0
    const choice = random.weighted({
      spawn: this.#spawnsLeft > 0 ? 5 : 0,
      wait: 3 * some,
      send: 5 * messages,
      stop: (this.#isHealed ? 0.2 : 0.6) * some,
      race: (this.#isHealed ? 0 : 1.2) * some,
      look: 0.6,
    })
    if (choice === 'spawn') this.#spawnsLeft -= 1
    if (choice === 'send') this.#messagesLeft -= 1
    // With nobody to write to, messages are never sent.
    if (this.#isHealed && some === 0 && this.#spawnsLeft === 0) this.#messagesLeft = 0
    if (choice === undefined || !this.#world.keeps(id, choice)) return
    await this.#doCall(session, choice, { random, agents })
  }

  async #doCall(
    session: Session,
    choice: 'spawn' | 'wait' | 'send' | 'stop' | 'race' | 'look',
    { random, agents }: { readonly random: SeededRandom; readonly agents: readonly string[] },
  ): Promise<void> {
    switch (choice) {
      case 'spawn':
        return await this.#spawn(session, random)
      case 'wait': {
        const timeout = { timeout_ms: random.int(0, 4_000) }
        const some = random.chance(0.2) ? { agent_ids: [random.pick(agents)] } : {}
        const mode = random.chance(0.2) ? { mode: 'all' } : {}
        this.#take(await session.call('wait_for_agents', { ...timeout, ...some, ...mode }, this.#cancelAfter(random)))
        return
      }
      case 'send':
        return await this.#send(session, random.pick(agents), random)
      case 'stop':
        return await this.#stop(session, random.pick(agents), random)
      case 'race':
        return await this.#race(session, random)
      case 'look':
        this.#take(await session.call(random.chance(0.5) ? 'list_agents' : 'list_nodes', {}))
    }
  }

  async #spawn(session: Session, random: SeededRandom): Promise<void> {
    const { mark, text } = this.#script(random)
    const machine = random.chance(0.4) ? { machine: random.pick(this.#plan.machines) } : {}
    const lostAfter = random.chance(this.#plan.impatience) ? { lost_after_ms: random.int(1_000, 12_000) } : {}
    const answer = await session.call(
      'spawn_agent',
      { brief: text, ...machine, ...lostAfter },
      this.#cancelAfter(random),
    )
    const document = this.#take(answer)
    const agentId = document?.['agent_id']
    if (typeof agentId !== 'string') return
    this.spawned.set(mark, agentId)
    this.#agentOf.set(mark, agentId)
  }

  async #send(session: Session, agentId: string, random: SeededRandom): Promise<void> {
    const { mark, text } = this.#script(random)
    this.#agentOf.set(mark, agentId)
    const answer = await session.call('send_message', { agent_id: agentId, text }, this.#cancelAfter(random))
    const messageId = this.#take(answer)?.['message_id']
    if (typeof messageId === 'string') this.sent.set(mark, { messageId, text })
  }

  async #stop(session: Session, agentId: string, random: SeededRandom): Promise<void> {
    this.#take(await session.call('stop_agent', { agent_id: agentId }, this.#cancelAfter(random)))
  }

  /** Stops an agent, or writes to it, at the very moment at which it gives its answer. */
  async #race(session: Session, random: SeededRandom): Promise<void> {
    const agentId = await this.#nextToAnswer(session)
    if (agentId === undefined) return
    await session.life.delayed(random.next() * (random.chance(0.5) ? 30 : 800), () => undefined)
    const isStop = random.chance(0.5)
    this.#world.count(isStop ? 'stop racing an end' : 'message racing an end')
    if (isStop) await this.#stop(session, agentId, random)
    else await this.#send(session, agentId, random)
  }

  /** Undefined where none answers soon. */
  #nextToAnswer(session: Session): Promise<string | undefined> {
    return new Promise((resolve) => {
      const stop = this.#deeds.onAnswer((mark) => {
        const agentId = this.#agentOf.get(mark)
        if (agentId === undefined) return
        stop()
        session.life.reach(() => resolve(agentId))
      })
      session.life.after(raceMs, () => {
        stop()
        resolve(undefined)
      })
    })
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
    const isExpected = (code: NfltrError['code']): boolean =>
      expected.has(code) || (code === 'not_found' && this.#world.isPutBack)
    if (answer.type === 'refused' && !isExpected(answer.error.code)) {
      this.#world.violate('no-bugs', `a call was refused with ${answer.error.code}: ${answer.error.stack}`)
    }
    return answer.type === 'reply' ? answer.document : undefined
  }

  #cancelAfter(random: SeededRandom): number | undefined {
    if (this.#isHealed || !random.chance(this.#plan.cancelChance)) return undefined
    return random.chance(0.5) ? random.next() * 12 : random.next() * 3_000
  }

  #script(random: SeededRandom): { readonly mark: string; readonly text: string } {
    this.#marks += 1
    const mark = `${this.hub.name}.${this.#marks}`
    const isBulky = this.#plan.isBulky && random.chance(0.15)
    const script: Script = {
      mark,
      lines: random.int(0, 8),
      lineMs: random.int(5, 900),
      answerBytes: isBulky ? random.int(60_000, 300_000) : random.int(0, 300),
      crashes: random.chance(this.#plan.crashChance),
    }
    return { mark, text: JSON.stringify(script) }
  }
}

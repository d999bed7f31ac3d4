import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { ProcessName } from '../../src/platform/process-table.ts'
import { SeededRandom } from '../random.ts'
import { isFatal, type Kill, type Phase, type ProcessKind, type TrialPlan } from './cells.ts'
import { Hands } from './hands.ts'
import { Life } from './life.ts'
import type { Mesh } from './mesh.ts'
import { type Document, SessionGone } from './session.ts'
import { until, untilTrue } from './until.ts'

/** Everything that fits into a reply whole, and more than fits between an adapter and a session that does not read. */
const longAnswerBytes = 60_000
const replyMaxBytes = 200_000

/** One agent, from its spawn until its result was read or named, with kills on the way. */
export class Trial {
  readonly plan: TrialPlan
  readonly brief: string
  readonly answer: string
  readonly life: Life
  readonly hands: Hands
  readonly #mesh: Mesh
  readonly #go: string
  readonly #random: SeededRandom
  /** The work goes no further. */
  #isBroken = false
  #heldHub: ProcessName | undefined

  constructor(mesh: Mesh, plan: TrialPlan) {
    this.#mesh = mesh
    this.plan = plan
    this.#random = new SeededRandom(plan.seed, 'trial')
    this.brief = `work of trial ${plan.number}`
    this.answer = `answer of trial ${plan.number} ✓ ${'é'.repeat(plan.isLong ? longAnswerBytes / 2 : 0)}`
    this.#go = join(mesh.folder, `go-${plan.number}`)
    this.life = new Life(mesh)
    this.hands = new Hands(mesh, this.life, this.#random)
    mesh.play({
      [this.brief]: [
        { tool: 'Bash', input: { command: `echo "$NFLTR_ATTEMPT ${this.brief}" >> ${mesh.world}` } },
        { wait_for_file: this.#go },
        { say: this.answer },
      ],
    })
  }

  async run(): Promise<void> {
    if (this.plan.kind === 'held') await this.#runHeld(this.plan.kills)
    else await this.#runDelays(this.plan.kills)
    this.hands.thaw()
    this.#open()
    await this.#mesh.startNode()
    await this.#mesh.openSession()
  }

  /** Whether a kill may have come between the claim and the launch, where nobody can tell whether it was started. */
  get mayBeLost(): boolean {
    return this.hands.killed.some(({ process, phase }) => process === 'node' && phase === 'claimed')
  }

  get agentId(): string {
    const { agentId } = this.life
    if (agentId === undefined) throw new Error('the agent was not spawned')
    return agentId
  }

  /** For whoever looks at a failed trial. */
  async whatIs(): Promise<Document> {
    const { agentId } = this.life
    const hub = await this.#mesh.hub()
    const node = await this.#mesh.node()
    const orNothing = async (work: Promise<unknown> | undefined): Promise<unknown> =>
      await work?.catch((error: unknown) => String(error))
    return {
      plan: this.plan,
      hub: await orNothing(hub?.client.status()),
      agent: await orNothing(agentId === undefined ? undefined : hub?.client.showAgent(agentId)),
      node: await orNothing(node?.status()),
      journal: await this.life.journal(),
      attempts: this.life.attemptIds(),
      replies: this.#mesh.sessions.map(({ replies }) => replies),
    }
  }

  wait(args: Document = {}): Promise<Document> {
    return this.#mesh.session.tool('wait_for_agents', {
      agent_ids: [this.agentId],
      max_bytes: replyMaxBytes,
      ...args,
    })
  }

  async #runHeld(kills: readonly Kill[]): Promise<void> {
    const drawn = new Map(kills.map(({ phase, process }) => [phase, process]))
    await this.#spawn(drawn.get('spawn'))
    await this.#start(drawn)
    await this.#end(drawn)
    await this.#accepted(drawn.get('accepted'))
    await this.#read(drawn)
  }

  /** Nothing is held; the session waits all the time, and kills come when they come. */
  async #runDelays(kills: readonly { readonly process: ProcessKind; readonly afterMs: number }[]): Promise<void> {
    this.#open()
    const started = performance.now()
    const reading = this.#spawnAndRead()
    reading.catch(() => undefined)
    for (const { process, afterMs } of kills) {
      await delay(Math.max(0, started + afterMs - performance.now()))
      const target = await this.hands.find(process)
      const phase = await this.life.phase()
      await this.hands.kill(process, phase, target)
      await this.hands.rest()
      if (process === 'node') await this.#mesh.startNode()
    }
    await reading
  }

  async #spawnAndRead(): Promise<void> {
    await this.#call(() => this.#askForAgent())
    await this.#call(() => this.wait())
    await delay(50)
    this.life.isConfirmed = true
  }

  async #askForAgent(): Promise<void> {
    // What a session repeats after a crash is the same call: it has the same key.
    const reply = await this.#mesh.session.tool('spawn_agent', { brief: this.brief, idempotency_key: this.#go })
    this.life.agentId = String(reply['agent_id'])
  }

  /** Repeats a call in another session as often as its session dies under it. */
  async #call(work: () => Promise<unknown>): Promise<void> {
    for (;;) {
      try {
        await this.#mesh.openSession()
        await work()
        return
      } catch (error) {
        if (!(error instanceof SessionGone)) throw error
        await this.#mesh.session.exited
      }
    }
  }

  async #spawn(victim: ProcessKind | undefined): Promise<void> {
    const target = victim === undefined ? undefined : await this.hands.find(victim)
    const hub = await this.hands.find('hub')
    // Unless it is the hub itself that dies, the call is on its way and the hub does not look at it.
    if (victim !== undefined && victim !== 'hub' && hub !== undefined) this.hands.freeze(hub)
    const asked = this.#askForAgent()
    asked.catch(() => undefined)
    if (victim !== undefined) {
      await this.hands.moment(12)
      await this.hands.kill(victim, await this.life.phase(), target)
      this.hands.thaw()
    }
    const [spawned] = await Promise.allSettled([asked])
    if (spawned.status === 'rejected' && !(spawned.reason instanceof SessionGone)) throw spawned.reason
    if (spawned.status === 'rejected') await this.#call(() => this.#askForAgent())
    // Another session has asked already where this one died.
    if (victim !== 'adapter') await this.#repair(victim)
  }

  async #start(drawn: ReadonlyMap<Phase, ProcessKind>): Promise<void> {
    const claimed = drawn.get('claimed')
    if (claimed !== undefined) {
      await this.#reach('the attempt is claimed', () => this.life.isClaimed())
      const target = await this.#present(claimed)
      await this.hands.moment(25)
      await this.#strike(claimed, { target, drawn, asks: true })
    }
    const launched = drawn.get('launched')
    if (launched !== undefined) {
      await this.#reach('the program is launched', async () => (await this.life.journal()).program !== undefined)
      if (this.#isBroken) return
      const target = await this.#present(launched)
      await this.hands.moment(20)
      await this.#strike(launched, { target, drawn, asks: true })
    }
    if (!this.#isBroken) await this.#reach('the agent works', () => this.#deeds() > 0)
    if (this.#isBroken) return
    const running = drawn.get('running')
    if (running === undefined) return
    await this.hands.moment(40)
    await this.#strike(running, { target: await this.#present(running), drawn, as: 'running' })
  }

  async #end(drawn: ReadonlyMap<Phase, ProcessKind>): Promise<void> {
    const result = drawn.get('result')
    if (result !== undefined && !this.#isBroken) {
      // The program stays until the node has read its result.
      this.hands.freeze(this.#mesh.nodeProcess)
      this.#open()
      await untilTrue('the result is in the journal', async () => (await this.life.journal()).hasResult)
      await this.hands.moment(10)
      await this.#strike(result, { target: await this.#present(result), drawn, as: 'result' })
    }
    const ended = drawn.get('ended')
    if (ended !== undefined) {
      if (!this.#isBroken) await this.#freezeHub()
      const target = ended === 'hub' ? this.#heldHub : await this.#present(ended)
      this.hands.thaw(this.#mesh.nodeProcess)
      this.#open()
      await untilTrue('the node has the end', () => this.life.isEndedAtNode())
      await this.hands.moment(10)
      await this.hands.kill(ended, 'ended', target)
      this.hands.thaw()
      await this.#repair(ended)
    }
    this.hands.thaw()
    this.#open()
  }

  /** From now on nothing is accepted. */
  async #freezeHub(): Promise<void> {
    const hub = await this.hands.find('hub')
    this.#heldHub = hub
    if (hub !== undefined) this.hands.freeze(hub)
  }

  async #accepted(victim: ProcessKind | undefined): Promise<void> {
    if (victim === undefined) return
    await untilTrue('the hub has the end', async () => ((await this.life.undelivered()) ?? 0) > 0)
    const target = await this.#present(victim)
    await this.hands.moment(10)
    await this.hands.kill(victim, 'accepted', target)
    await this.#repair(victim)
  }

  async #read(drawn: ReadonlyMap<Phase, ProcessKind>): Promise<void> {
    await untilTrue('the hub has the end', async () => ((await this.life.undelivered()) ?? 0) > 0)
    const phase = (['offered', 'written', 'confirmed'] as const).find((one) => drawn.has(one))
    const victim = phase === undefined ? undefined : drawn.get(phase)
    if (phase === undefined || victim === undefined) {
      await this.wait()
      return
    }
    const target = await this.#present(victim)
    const { whole } = await this.#waitWithoutReading()
    const bytes = this.#mesh.hubLogBytes()
    if (phase === 'written') await this.#freezeHub()
    const { session } = this.#mesh
    if (phase !== 'offered') {
      session.release()
      const isRead = await Promise.race([whole, delay(5_000, false)])
      if (!isRead) throw new Error('the reply was not read though nothing held it')
    }
    if (phase === 'confirmed') await untilTrue('the hub confirms', () => this.#mesh.hubLogBytes() > bytes, 5_000)
    await this.hands.moment(10)
    await this.hands.kill(victim, phase, target)
    this.hands.thaw()
    session.release()
    await whole
    await this.#repair(victim)
  }

  /**
   * Leaves the result on its way: offered by the hub, and behind a reply that the session does not read. Resolves to the
   * end of the wait, which comes once the session reads again: whether the reply was there whole.
   */
  async #waitWithoutReading(): Promise<{ readonly whole: Promise<boolean> }> {
    const { session } = this.#mesh
    session.hold()
    session.tool('get_result', { agent_id: this.#mesh.filler, max_bytes: replyMaxBytes }).catch(() => undefined)
    await untilTrue('the session has something to read', () => session.hasBegun)
    const whole = this.wait().then(
      () => true,
      () => false,
    )
    await untilTrue('the result is offered', async () => (await this.life.undelivered()) === 0)
    // The reply leaves the hub in the turn of its loop after that.
    await this.life.undelivered()
    await this.life.undelivered()
    return { whole }
  }

  /** The process as soon as there is one. */
  async #present(kind: ProcessKind): Promise<ProcessName | undefined> {
    if (kind === 'hub') {
      // The hub comes with the next call where an earlier one died.
      return await until('a hub runs', () => this.hands.find('hub'))
    }
    if (kind !== 'keeper' && kind !== 'agent') return await this.hands.find(kind)
    return await until(`the ${kind} runs`, () => this.hands.find(kind), 10_000)
  }

  /** Kills, and mends what somebody would mend. `asks`: the phase may have passed, so it is looked up. */
  async #strike(
    kind: ProcessKind,
    options: {
      readonly target: ProcessName | undefined
      readonly drawn: ReadonlyMap<Phase, ProcessKind>
      readonly as?: Phase
      readonly asks?: boolean
    },
  ): Promise<void> {
    // What a killed program leaves is judged by the node within a moment; the hub must not see it too early.
    if (isFatal({ process: kind }) && options.drawn.has('ended')) await this.#freezeHub()
    const isDone = await this.hands.kill(kind, options.as ?? (await this.life.phase()), options.target)
    if (isFatal({ process: kind }) && isDone) this.#isBroken = true
    await this.#repair(kind)
  }

  /** Starts again what a person, a service or the product would. */
  async #repair(kind: ProcessKind | undefined): Promise<void> {
    if (kind === undefined || isFatal({ process: kind })) return
    await this.hands.rest()
    if (kind === 'node') await this.#mesh.startNode()
    if (kind === 'adapter') {
      await untilTrue('the session sees its end', () => this.#mesh.session.isGone)
      await this.#mesh.openSession()
    }
    // Whatever the session asks next starts a hub.
    if (kind === 'hub') await this.#call(() => this.#mesh.session.tool('list_agents', { limit: 1 }))
  }

  /** Waits for a step of the work, or until it is clear that it goes no further. */
  async #reach(what: string, look: () => Promise<boolean> | boolean): Promise<void> {
    await untilTrue(what, async () => {
      if (await look()) return true
      this.#isBroken = await this.life.isEndedAtNode()
      return this.#isBroken
    })
  }

  #open(): void {
    writeFileSync(this.#go, '')
  }

  #deeds(): number {
    return this.#mesh.deeds().filter(({ brief }) => brief === this.brief).length
  }
}

import type { SeededRandom } from '../random.ts'
import type { AppendInput, Tail } from './appends.ts'
import type { Operation } from './operation.ts'
import type { Ownership, OwnershipInput } from './ownership.ts'
import { Gone, type Target } from './targets.ts'

export interface CampaignOptions {
  readonly operations: number
  /** Clients at the same time. */
  readonly clients: number
  /** Keys that they share at any time. */
  readonly keysAtOnce: number
  readonly operationsPerKey: number
  /** How likely an answer is dropped on its way. */
  readonly dropChance: number
  /** Operations between two crashes, in the mean. */
  readonly operationsPerCrash: number
}

export interface Histories {
  readonly ownership: readonly Operation<OwnershipInput, Ownership>[]
  readonly appends: readonly Operation<AppendInput, Tail>[]
  readonly crashes: number
}

/** What clients know of a task: attempts that they heard of, the newest last. */
interface Task {
  readonly key: string
  readonly attempts: { readonly attemptId: string; readonly epoch: number }[]
  left: number
}

/** Many clients at once against one service that dies now and then. What nobody knows stays open in the history. */
export class Campaign {
  readonly #target: Target
  readonly #options: CampaignOptions
  readonly #random: SeededRandom
  readonly #ownership: Operation<OwnershipInput, Ownership>[] = []
  readonly #appends: Operation<AppendInput, Tail>[] = []
  #tasks: Task[] = []
  #keys = 0
  #tick = 0
  #begun = 0
  #crashes = 0
  #crashing: Promise<void> | undefined

  constructor(target: Target, random: SeededRandom, options: CampaignOptions) {
    this.#target = target
    this.#random = random
    this.#options = options
  }

  async run(): Promise<Histories> {
    for (let index = 0; index < this.#options.keysAtOnce; index++) this.#tasks.push(await this.#newTask())
    await Promise.all(Array.from({ length: this.#options.clients }, () => this.#client()))
    return { ownership: this.#ownership, appends: this.#appends, crashes: this.#crashes }
  }

  async #client(): Promise<void> {
    while (this.#begun < this.#options.operations) {
      this.#begun += 1
      await this.#crashing
      if (this.#random.chance(1 / this.#options.operationsPerCrash)) await this.#crash()
      const task = await this.#taskForOne()
      if (this.#random.chance(0.5)) await this.#own(task)
      else await this.#append(task)
    }
  }

  async #crash(): Promise<void> {
    if (this.#crashing !== undefined) return await this.#crashing
    this.#crashes += 1
    this.#crashing = this.#target.crash().then(() => {
      this.#crashing = undefined
    })
    await this.#crashing
  }

  /** One of the shared tasks; one that was used up is replaced. */
  async #taskForOne(): Promise<Task> {
    const task = this.#random.pick(this.#tasks)
    task.left -= 1
    if (task.left > 0) return task
    const fresh = await this.#newTask()
    this.#tasks = this.#tasks.map((one) => (one === task ? fresh : one))
    return task
  }

  async #newTask(): Promise<Task> {
    const key = `k${++this.#keys}`
    for (;;) {
      await this.#crashing
      try {
        await this.#target.call({ kind: 'open', key })
        return { key, attempts: [], left: this.#options.operationsPerKey }
      } catch (error) {
        if (!(error instanceof Gone)) throw error
      }
    }
  }

  async #own(task: Task): Promise<void> {
    const { key } = task
    const input = this.#ownershipInput(task)
    await this.#record(this.#ownership, { key, input }, async () => {
      const answer = (await this.#target.call({ kind: 'ownership', key, input })) as Ownership
      const { attemptId, epoch } = answer
      if (epoch > (task.attempts.at(-1)?.epoch ?? 0)) task.attempts.push({ attemptId, epoch })
      return answer
    })
  }

  async #append(task: Task): Promise<void> {
    const { key } = task
    const isAppend = this.#random.chance(0.7)
    const input: AppendInput = isAppend
      ? { type: 'append', id: `a${this.#tick}`, lines: this.#random.int(1, 3) }
      : { type: 'tail' }
    await this.#record(this.#appends, { key, input }, async () => {
      return (await this.#target.call({ kind: 'append', key, input })) as Tail
    })
  }

  /** Mostly the owner's own words; sometimes those of one that was replaced, or under another epoch. */
  #ownershipInput(task: Task): OwnershipInput {
    const random = this.#random
    const isOld = random.chance(0.2)
    const known = isOld && task.attempts.length > 0 ? random.pick(task.attempts) : task.attempts.at(-1)
    // A task is left alone for most of its time, so that what is done to it is not over at once.
    const isLateInLife = task.left < this.#options.operationsPerKey / 6
    const type = random.weighted({
      place: 3,
      read: 3,
      claimed: known === undefined ? 0 : 2,
      started: known === undefined ? 0 : 0.7,
      declined: known === undefined ? 0 : 3,
      ended: known === undefined ? 0 : isLateInLife ? 1 : 0.02,
      expire: known === undefined ? 0 : isLateInLife ? 1 : 0.02,
    })
    if (type === undefined || type === 'read' || known === undefined) {
      return type === 'place' ? { type, attemptId: `t${this.#tick}` } : { type: 'read' }
    }
    if (type === 'place') return { type, attemptId: `t${this.#tick}` }
    if (type === 'expire') return { type, attemptId: known.attemptId }
    const epoch = random.chance(0.05) ? known.epoch + random.pick([-1, 1]) : known.epoch
    return { type, attemptId: known.attemptId, epoch }
  }

  async #record<Input, Output>(
    history: Operation<Input, Output>[],
    what: { readonly key: string; readonly input: Input },
    work: () => Promise<Output>,
  ): Promise<void> {
    const call = ++this.#tick
    const open = { ...what, call, return: Number.POSITIVE_INFINITY }
    const answer = work()
    if (this.#random.chance(this.#options.dropChance)) {
      // The answer is on its way, and never arrives; the client goes on without it.
      answer.catch(() => undefined)
      history.push(open)
      return
    }
    try {
      const output = await answer
      history.push({ ...what, call, return: ++this.#tick, output })
    } catch (error) {
      if (!(error instanceof Gone)) throw error
      history.push(open)
    }
  }
}

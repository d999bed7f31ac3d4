import type { Clock } from '../../src/ports/clock.ts'
import type { Keeper, Keepers } from '../../src/ports/keepers.ts'
import type { Workspaces } from '../../src/ports/workspaces.ts'

/**
 * What stands between one run of a node and its world, so that the run can be killed: from then on nothing it asks for
 * happens, and nothing it waits for comes. Before and after each call there is a point where that may be done.
 */
export class Gate {
  isDead = false
  readonly killed: Promise<void>
  readonly #resolveKilled: () => void
  readonly #atPoint: (name: string) => void

  constructor(atPoint: (name: string) => void) {
    this.#atPoint = atPoint
    const killed = Promise.withResolvers<void>()
    this.killed = killed.promise
    this.#resolveKilled = killed.resolve
  }

  kill(): void {
    this.isDead = true
    this.#resolveKilled()
  }

  /** A point where the process may die; does not return where it does. */
  async point(name: string): Promise<void> {
    if (!this.isDead) this.#atPoint(name)
    if (this.isDead) await forever()
  }

  async call<T>(name: string, work: () => Promise<T>): Promise<T> {
    await this.point(`before ${name}`)
    const value = await work()
    await this.point(`after ${name}`)
    return value
  }

  clock(clock: Clock): Clock {
    return {
      nowMs: () => clock.nowMs(),
      wallMs: () => clock.wallMs(),
      after: (delayMs, callback) =>
        clock.after(delayMs, () => {
          if (!this.isDead) callback()
        }),
    }
  }

  workspaces(workspaces: Workspaces): Workspaces {
    return {
      prepare: (request) => this.call('workspace', () => workspaces.prepare(request)),
      discardTemporary: (request) => this.call('discard', () => workspaces.discardTemporary(request)),
      freeBytes: () => this.call('free', () => workspaces.freeBytes()),
    }
  }

  keepers(keepers: Keepers): Keepers {
    return {
      launch: async (launch) => this.#keeper(await this.call('launch', () => keepers.launch(launch))),
      find: (options) => this.call('find', () => keepers.find(options)),
      adopt: async (attemptId) => this.#keeper(await this.call('adopt', () => keepers.adopt(attemptId))),
      sweep: (attemptId) => this.call('sweep', () => keepers.sweep(attemptId)),
      remove: (attemptId) => this.call('remove', () => keepers.remove(attemptId)),
    }
  }

  #keeper(keeper: Keeper): Keeper {
    return {
      attemptId: keeper.attemptId,
      records: (options) => this.#records(keeper.records(options)),
      write: (message) => this.call('write', () => keeper.write(message)),
      answer: (answer) => this.call('answer', () => keeper.answer(answer)),
      closeInput: () => this.call('close', () => keeper.closeInput()),
      stop: (options) => this.call('stop', () => keeper.stop(options)),
      [Symbol.asyncDispose]: async () => undefined,
    }
  }

  async *#records<T>(records: AsyncIterable<T>): AsyncIterable<T> {
    for await (const record of records) {
      await this.point('record')
      yield record
    }
  }
}

function forever(): Promise<never> {
  return new Promise(() => undefined)
}

import type { Deeds } from './machine-keepers.ts'
import type { ProgramInput, Script } from './program.ts'
import type { World } from './world.ts'

/** What agent programs did to the world, whoever knows of it. */
export class DeedsLedger implements Deeds {
  readonly #world: World
  /** Launches by attempt. */
  readonly launches = new Map<string, number>()
  /** By mark: where the text began to have its effect. */
  readonly taken = new Map<
    string,
    { readonly attemptId: string; readonly messageId: string; readonly script: Script }[]
  >()

  constructor(world: World) {
    this.#world = world
  }

  launched(attemptId: string): void {
    this.launches.set(attemptId, (this.launches.get(attemptId) ?? 0) + 1)
    this.#world.note(`program of ${attemptId} launched`)
    this.#world.count('turn launched')
  }

  took(attemptId: string, input: ProgramInput, script: Script): void {
    const known = this.taken.get(script.mark) ?? []
    this.taken.set(script.mark, [...known, { attemptId, messageId: input.id, script }])
    this.#world.note(`program of ${attemptId} took ${script.mark}`)
  }
}

import type { Deeds } from './machine-keepers.ts'
import type { ProgramInput, Script } from './program.ts'
import type { World } from './world.ts'

/** What agent programs did to the world, whoever knows of it. */
export class DeedsLedger implements Deeds {
  readonly #world: World
  /** By mark: where the text began to have its effect. */
  readonly taken = new Map<
    string,
    { readonly attemptId: string; readonly messageId: string; readonly script: Script }[]
  >()

  constructor(world: World) {
    this.#world = world
  }

  launched(attemptId: string): void {
    this.#world.note(`program of ${attemptId} launched`)
    this.#world.tell({ type: 'launched', attemptId })
    this.#world.count('turn launched')
  }

  took(attemptId: string, input: ProgramInput, script: Script): void {
    const known = this.taken.get(script.mark) ?? []
    this.taken.set(script.mark, [...known, { attemptId, messageId: input.id, script }])
    this.#world.note(`program of ${attemptId} took ${script.mark}`)
    this.#world.tell({ type: 'taken', mark: script.mark, attemptId })
  }
}

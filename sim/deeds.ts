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

  readonly #onAnswer = new Set<(mark: string) => void>()

  constructor(world: World) {
    this.#world = world
  }

  /** Is told of every answer by the mark that its turn began with, until it is taken back. */
  onAnswer(callback: (mark: string) => void): () => void {
    this.#onAnswer.add(callback)
    return () => this.#onAnswer.delete(callback)
  }

  answered(text: string): void {
    const [mark = ''] = text.split(' ', 1)
    for (const callback of [...this.#onAnswer]) callback(mark)
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

import { NfltrError } from '../core/errors.ts'
import type { MeshFiles } from '../ports/home.ts'

/**
 * The mesh's part of a home for as long as one process uses it: once `close` resolves, what was begun is on disk and nothing
 * more is written. Messages of peers are still being worked on when a process ends; what they bring comes again from any member.
 */
export class OwnFiles {
  readonly files: MeshFiles
  readonly #begun = new Set<Promise<unknown>>()
  #isClosed = false

  constructor(files: MeshFiles) {
    this.files = {
      ...files,
      saveMembership: this.#writing(files.saveMembership),
      saveMember: this.#writing(files.saveMember),
      removeMember: this.#writing(files.removeMember),
      saveRevocations: this.#writing(files.saveRevocations),
      saveCertificate: this.#writing(files.saveCertificate),
      saveSuccession: this.#writing(files.saveSuccession),
      saveDeparture: this.#writing(files.saveDeparture),
      removeDeparture: this.#writing(files.removeDeparture),
      raiseSeenTime: this.#writing(files.raiseSeenTime),
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.allSettled(this.#begun)
  }

  /** @throws {NfltrError} `stopping` after `close` */
  #writing<Args extends readonly unknown[], Result>(write: (...args: Args) => Promise<Result>) {
    return async (...args: Args): Promise<Result> => {
      if (this.#isClosed) throw new NfltrError('stopping', 'This process is ending and keeps nothing more.')
      const written = write(...args)
      this.#begun.add(written)
      try {
        return await written
      } finally {
        this.#begun.delete(written)
      }
    }
  }
}

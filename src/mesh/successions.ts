import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { countingKeys, type MeshLine, meshLine } from '../core/mesh-line.ts'
import { openSuccession } from '../identity/envelopes.ts'
import { meshClosed } from '../identity/mesh-keys.ts'
import type { MeshFiles } from '../ports/home.ts'

interface SuccessionsOptions {
  readonly meshId: string
  readonly files: Pick<MeshFiles, 'successions' | 'saveSuccession'>
  /** A key of the mesh named two successors. */
  readonly onRefused: (error: NfltrError) => void
}

interface Kept {
  readonly successorPeerId: string
  readonly envelope: Uint8Array
  readonly conflict?: { readonly successorPeerId: string; readonly envelope: Uint8Array }
}

/**
 * Which keys of the mesh took the place of which, each named by the one before it (rule 17). What a key named first is kept
 * for good, and one contradiction beside it: then nothing of the mesh counts any more.
 */
export class Successions {
  readonly #options: SuccessionsOptions
  readonly #kept = new Map<string, Kept>()
  #line: MeshLine

  constructor(options: SuccessionsOptions) {
    this.#options = options
    this.#line = meshLine(options.meshId, [])
  }

  get line(): MeshLine {
    return this.#line
  }

  /** The mesh keys that count: one, or none. */
  counting(): readonly string[] {
    return countingKeys(this.#line)
  }

  /** Why nothing counts any more; `undefined` in a mesh that is in order. */
  closed(): NfltrError | undefined {
    const { dispute } = this.#line
    return dispute === undefined ? undefined : meshClosed(dispute)
  }

  /** All that is known, in the order in which keys named each other, for whoever may lack it. */
  envelopes(): readonly Uint8Array[] {
    return this.#line.keys.flatMap((key) => {
      const kept = this.#kept.get(key)
      if (kept === undefined) return []
      return kept.conflict === undefined ? [kept.envelope] : [kept.envelope, kept.conflict.envelope]
    })
  }

  /**
   * Takes what a key of the mesh named; on disk when it resolves.
   *
   * @returns whether it was new
   * @throws {NfltrError} `bad_signature` where no key of the mesh signed it; `queue_full`
   */
  async take(envelope: Uint8Array): Promise<boolean> {
    const { meshId } = this.#options
    const { predecessorPeerId, successorPeerId } = await openSuccession(envelope, { meshId })
    if (!this.#line.keys.includes(predecessorPeerId)) {
      throw new NfltrError('bad_signature', 'A key that never was the mesh’s named a successor.')
    }
    const known = this.#kept.get(predecessorPeerId)
    if (known === undefined && this.#kept.size >= limits.successionsMax) {
      throw new NfltrError('queue_full', `The key of a mesh is replaced at most ${limits.successionsMax} times.`)
    }
    if (known !== undefined && (known.conflict !== undefined || known.successorPeerId === successorPeerId)) return false
    const named = { successorPeerId, envelope }
    const kept: Kept = known === undefined ? named : { ...known, conflict: named }
    this.#kept.set(predecessorPeerId, kept)
    this.#line = meshLine(meshId, this.#named())
    await this.#save(predecessorPeerId, kept)
    const closed = this.closed()
    if (closed !== undefined) this.#options.onRefused(closed)
    return true
  }

  /** Takes what another process of this home has learnt. @returns whether anything was new @throws {NfltrError} `store_damaged` */
  async reload(): Promise<boolean> {
    const records = await this.#options.files.successions()
    let isNews = false
    // In the order of the line, whatever that of the files is: a key is known once the one before it has named it.
    for (let isMore = true; isMore; ) {
      isMore = false
      for (const { predecessorPeerId, envelope, conflict } of records) {
        if (!this.#line.keys.includes(predecessorPeerId)) continue
        isMore = (await this.take(envelope)) || isMore
        if (conflict !== undefined) isMore = (await this.take(conflict)) || isMore
      }
      isNews ||= isMore
    }
    return isNews
  }

  #named(): Parameters<typeof meshLine>[1] {
    return [...this.#kept].flatMap(([predecessorPeerId, { successorPeerId, conflict }]) => [
      { predecessorPeerId, successorPeerId },
      ...(conflict === undefined ? [] : [{ predecessorPeerId, successorPeerId: conflict.successorPeerId }]),
    ])
  }

  async #save(predecessorPeerId: string, { envelope, conflict }: Kept): Promise<void> {
    await this.#options.files.saveSuccession({
      predecessorPeerId,
      envelope,
      ...(conflict === undefined ? {} : { conflict: conflict.envelope }),
    })
  }
}

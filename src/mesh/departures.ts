import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { openDeparture } from '../identity/envelopes.ts'
import type { MeshFiles } from '../ports/home.ts'
import type { Departure } from '../wire/record-codec.ts'

interface DeparturesOptions {
  readonly meshId: string
  readonly files: Pick<MeshFiles, 'departures' | 'saveDeparture' | 'removeDeparture'>
}

/**
 * Machines that left the mesh by themselves: each signed with its own key that its memberships up to a serial are void, so
 * that nobody needs its owner for that. A later membership, which has a higher serial, counts again.
 */
export class Departures {
  readonly #options: DeparturesOptions
  readonly #kept = new Map<string, { readonly body: Departure; readonly envelope: Uint8Array }>()

  constructor(options: DeparturesOptions) {
    this.#options = options
  }

  of(machinePeerId: string, serial: number): Departure | undefined {
    const kept = this.#kept.get(machinePeerId)
    return kept !== undefined && kept.body.serial >= serial ? kept.body : undefined
  }

  serialOf(machinePeerId: string): number {
    return this.#kept.get(machinePeerId)?.body.serial ?? 0
  }

  beyond(known: (machinePeerId: string) => number): readonly Uint8Array[] {
    return [...this.#kept.values()]
      .filter(({ body }) => body.serial > known(body.machinePeerId))
      .map(({ envelope }) => envelope)
  }

  /**
   * Takes a departure of a member; that of anybody else is passed over. On disk when it resolves.
   *
   * @returns whether it was new
   * @throws {NfltrError} `bad_signature`, `queue_full`
   */
  async take(envelope: Uint8Array, isMember: (machinePeerId: string) => boolean): Promise<boolean> {
    const body = await openDeparture(envelope, this.#options)
    const { machinePeerId, serial } = body
    const known = this.#kept.get(machinePeerId)
    if (!isMember(machinePeerId) || (known !== undefined && known.body.serial >= serial)) return false
    if (known === undefined && this.#kept.size >= limits.rosterMembersMax) {
      throw new NfltrError('queue_full', `More than ${limits.rosterMembersMax} machines left the mesh.`)
    }
    this.#kept.set(machinePeerId, { body, envelope })
    await this.#options.files.saveDeparture({ machinePeerId, serial, envelope })
    return true
  }

  /** Takes what another process of this home has learnt. @returns whether anything was new */
  async reload(): Promise<boolean> {
    let isNews = false
    for (const { machinePeerId, serial, envelope } of await this.#options.files.departures()) {
      if (this.serialOf(machinePeerId) >= serial) continue
      try {
        isNews = (await this.take(envelope, () => true)) || isNews
      } catch (error) {
        // It proves nothing: another mesh's, or not what we wrote. It is learnt again where it is true.
        if (!(error instanceof NfltrError)) throw error
        await this.#options.files.removeDeparture(machinePeerId)
      }
    }
    return isNews
  }
}

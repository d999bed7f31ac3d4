import { NfltrError } from '../core/errors.ts'
import { openIssuerCertificate, type SignedCertificate } from '../identity/envelopes.ts'
import type { MeshFiles } from '../ports/home.ts'
import type { Successions } from './successions.ts'

export interface KeptCertificate {
  readonly body: SignedCertificate
  readonly envelope: Uint8Array
}

interface CertificatesOptions {
  readonly meshId: string
  readonly files: Pick<MeshFiles, 'saveCertificate'>
}

/** Issuers of one mesh beside the mesh key; the wire's bound for certificates. */
const issuersMax = 8

/**
 * Certificates of further owners, former ones too: for each issuer the one of the latest mesh key, and of that the one with the
 * latest end. Which of them count is for whoever asks to say.
 */
export class OwnerCertificates {
  readonly #options: CertificatesOptions
  readonly #successions: Pick<Successions, 'line'>
  readonly #kept = new Map<string, KeptCertificate>()

  constructor(options: CertificatesOptions, successions: Pick<Successions, 'line'>) {
    this.#options = options
    this.#successions = successions
  }

  all(): readonly KeptCertificate[] {
    return [...this.#kept.values()]
  }

  bodies(): readonly SignedCertificate[] {
    return this.all().map(({ body }) => body)
  }

  /**
   * Takes a certificate; on disk when it resolves.
   *
   * @returns whether it was new
   * @throws {NfltrError} `bad_signature` unless a key of the mesh signed it, be it a former one; `queue_full`
   */
  async take(envelope: Uint8Array): Promise<boolean> {
    const { keys } = this.#successions.line
    const body = await openIssuerCertificate(envelope, { meshId: this.#options.meshId, meshKeys: keys })
    const { issuerId, expiresAtMs } = body
    if (keys.includes(issuerId)) return false
    const known = this.#kept.get(issuerId)
    const keyPlace = this.#placeOf(body)
    if (known !== undefined) {
      const byPlace = keyPlace - this.#placeOf(known.body)
      if (byPlace < 0 || (byPlace === 0 && known.body.expiresAtMs >= expiresAtMs)) return false
    } else {
      this.#makeRoom(keyPlace)
    }
    this.#kept.set(issuerId, { body, envelope })
    await this.#options.files.saveCertificate({ issuerId, expiresAtMs, envelope, keyPlace })
    return true
  }

  /** What a mesh key signed that was replaced makes room: it does not count. */
  #makeRoom(keyPlace: number): void {
    if (this.#kept.size < issuersMax) return
    const former = this.all().find(({ body }) => this.#placeOf(body) < keyPlace)
    if (former === undefined) throw new NfltrError('queue_full', `A mesh has at most ${issuersMax} further owners.`)
    this.#kept.delete(former.body.issuerId)
  }

  /** Which key of the line signed a certificate: 0 for the first. */
  #placeOf({ meshKey }: SignedCertificate): number {
    return this.#successions.line.keys.indexOf(meshKey)
  }
}

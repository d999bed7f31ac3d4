import type { Libp2p } from '@libp2p/interface'
import { NfltrError } from '../core/errors.ts'
import type { Membership } from '../core/membership.ts'
import type { Invite } from '../identity/invites.ts'
import { certifyProcess } from '../identity/mesh-setup.ts'
import type { OwnMembership } from '../ports/home.ts'
import type { Greeter } from './greeter.ts'
import {
  type JoinedMesh,
  type JoinHostOptions,
  type JoinWish,
  joinMesh,
  type Knock,
  knockAt,
  type MeshAtAddress,
  meshAt,
} from './join-host.ts'
import type { MeshOptions } from './mesh-options.ts'
import type { OwnPlace } from './own-place.ts'
import type { ProcessFacts, Standing } from './standing.ts'

export interface EnteringOptions {
  readonly mesh: MeshOptions
  readonly process: ProcessFacts
  readonly place: OwnPlace
  readonly greeter: Greeter
  readonly host: () => Libp2p
  /** Puts this process into the roster, and begins to keep its links. */
  readonly settle: () => Promise<void>
  /** Resolves once whoever was greeted has told what it knows of the mesh. */
  readonly learnt: () => Promise<void>
}

/** How a machine that is no member becomes one: with an invite, or by asking until an owner answers. */
export class Entering {
  readonly #options: EnteringOptions

  constructor(options: EnteringOptions) {
    this.#options = options
  }

  /** @throws {NfltrError} as `MeshHost.join` */
  async join(invite: Invite, wish: JoinWish): Promise<Membership> {
    this.#requireStranger()
    return await this.#enter(await joinMesh(invite, wish, this.options()))
  }

  /** @throws {NfltrError} as `MeshHost.knock` */
  async knock(knock: Knock): Promise<Membership> {
    this.#requireStranger()
    return await this.#enter(await knockAt(knock, this.options()))
  }

  async meshAt(at: MeshAtAddress): Promise<string> {
    this.#requireStranger()
    return await meshAt(at, this.options())
  }

  options(): JoinHostOptions {
    const { mesh, process, place } = this.#options
    const host = this.#options.host()
    return {
      ...mesh,
      host,
      ownPeerId: process.peerId,
      signAddresses: (meshId) => place.signAddresses(meshId, host.getMultiaddrs()),
    }
  }

  #requireStranger(): void {
    const { standing } = this.#options.place
    if (standing === undefined) return
    throw new NfltrError('already_exists', `This machine is already a member of a mesh, as ${standing.body.name}.`)
  }

  async #enter({ own, connection }: JoinedMesh): Promise<Membership> {
    const { mesh, place, process, greeter, settle, learnt } = this.#options
    const { body, ...kept } = own
    await mesh.files.saveMembership(kept)
    await place.take(await this.#standingAfterJoin(kept))
    if (own.issuerMembership !== undefined) {
      await place.roster?.take({ membership: own.issuerMembership, addressRecords: [] })
    }
    await settle()
    // The membership holds whether or not the issuer is still there to be greeted. A machine that may not be what this
    // process is has no hello to say: it would be refused, and turned away for a minute.
    if (process.kind !== 'node' || body.roles.includes('node')) await greeter.greet(connection).catch(() => {})
    else connection.abort(new Error('joined'))
    // A command that joins ends after this, and the issuer may be another one: what it does not say now is not known later.
    await learnt()
    return body
  }

  /** A joiner runs under its machine's key; where it is not the node it certifies itself as the process it is. */
  async #standingAfterJoin(kept: OwnMembership): Promise<Standing> {
    const { meshId, membership, issuerCertificates: certificates, successions = [] } = kept
    const { mesh, process } = this.#options
    if (process.kind === 'node') return { meshId, membership, certificates, successions }
    const nowMs = mesh.clock.wallMs()
    const certificate = await certifyProcess({ key: mesh.key, meshId }, { ...process, nowMs })
    return { meshId, membership, certificates, successions, certificate }
  }
}

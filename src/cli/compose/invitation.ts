import { NfltrError } from '../../core/errors.ts'
import { limits } from '../../core/limits.ts'
import { type Issuers, openMembership } from '../../identity/envelopes.ts'
import { encodeInvite } from '../../identity/invites.ts'
import { loadIssuerKey } from '../../identity/issuer-key.ts'
import { fingerprintOf, peerIdOf } from '../../identity/keys.ts'
import { ensureKey, loadMachine, type Machine } from '../../identity/mesh-setup.ts'
import { onlyMeshKey } from '../../mesh/owners.ts'
import { systemRandom } from '../../platform/random.ts'
import type { Home, InviteRecord } from '../../ports/home.ts'
import { openHome } from '../../store/home/home.ts'
import type { InviteEvent, InviteOptions } from '../commands/mesh.ts'
import type { Context } from '../compose.ts'
import { Bell } from './bell.ts'
import { instant } from './instant.ts'
import { type Issuer, playIssuer } from './issuer.ts'
import { processLifetime } from './lifetime.ts'
import { isSettledIn } from './settled-in.ts'

/** How often a waiting invite looks whether its issuer, another process, is still alive, in milliseconds. */
const issuerCheckMs = 1_000

/** How long a new member may take to say hello and to hear of the others before it is reported without, in milliseconds. */
const settlingMs = 5_000

/** How often it is looked at whether it has, in milliseconds. */
const lookEveryMs = 50

/**
 * `nfltr mesh invite`: writes an invite, shows it, and waits until it was used. The issuer is this process, or another one
 * of this home, whose role this one takes over should it die.
 *
 * @throws {NfltrError} `not_owner`; `no_issuer` with `--no-wait` and no issuer up; `timed_out` when it expired unused
 */
export async function invite(
  context: Context,
  options: InviteOptions,
  tell: (event: InviteEvent) => void,
): Promise<void> {
  const home = openHome({ ...options, env: context.env })
  const machine = await loadMachine(home)
  const signer = await loadIssuerKey(home)
  if (options.role === 'owner' && !signer.isMeshKey) throw onlyMeshKey()
  const wait = new InviteWait(context, home)
  try {
    await wait.begin(options)
    const record = await newInvite(home, machine, options)
    // What cannot be shown is not kept either.
    const event = await inviteEvent({ home, machine, record, addresses: await wait.addresses() })
    await home.issuer.addInvite(record)
    tell(event)
    if (!options.wait) return
    const peerId = await wait.untilJoined(record)
    if (peerId === undefined) return
    if (peerId === 'expired') {
      tell({ event: 'expired' })
      throw new NfltrError('timed_out', 'The invite expired before anyone used it.', {
        hint: 'Make a new one: nfltr mesh invite',
      })
    }
    tell({ event: 'joined', member: await memberDocument(home, { issuers: machine, peerId }) })
  } finally {
    await wait.close()
  }
}

/** The wait for one joiner, with the issuer's role in this process or in another one. */
class InviteWait {
  readonly #context: Context
  readonly #home: Home
  readonly #bell = new Bell()
  readonly #greeted = new Set<string>()
  readonly #unwatch: (() => void)[] = []
  #issuer: Issuer | undefined
  #listen: readonly string[] | undefined

  constructor(context: Context, home: Home) {
    this.#context = context
    this.#home = home
  }

  async begin(options: InviteOptions): Promise<void> {
    this.#listen = options.listen
    // Nobody would be there to answer an invite that is not waited for.
    if (options.wait) await this.#play()
    else if ((await this.#home.issuer.holder()) === undefined) {
      throw new NfltrError('no_issuer', 'No process of this machine answers invites.', {
        hint: 'Leave out --no-wait, or run beside it: nfltr mesh serve',
      })
    }
    this.#unwatch.push(this.#home.mesh.watch(() => this.#bell.ring()))
  }

  /** Where a joiner finds the issuer, whichever process plays it. */
  async addresses(): Promise<readonly string[]> {
    if (this.#issuer !== undefined) return this.#issuer.process.mesh.listenAddresses()
    for (let tries = 0; tries < 50; tries++) {
      const issuer = (await this.#home.running.list()).find((process) => process.kind === 'issuer')
      if (issuer !== undefined) return issuer.listen
      // The holder of the role registers itself a moment after it took the lock.
      await this.#bell.rung(100)
    }
    throw new NfltrError('no_issuer', 'The process that answers invites did not say where it listens.', {
      hint: 'Try again, or end it and run: nfltr mesh invite',
    })
  }

  /** The new member's PeerId, `expired`, or `undefined` when this command was ended by a signal. */
  async untilJoined(record: InviteRecord): Promise<string | undefined> {
    const lifetime = processLifetime()
    lifetime.signal.addEventListener('abort', () => this.#bell.ring(), { once: true })
    let joinedAtMs: number | undefined
    while (!lifetime.signal.aborted) {
      const claim = await this.#home.issuer.findClaim(record.inviteId)
      if (claim?.membership !== undefined) {
        joinedAtMs ??= Date.now()
        if (this.#isSettledIn(claim.peerId) || Date.now() - joinedAtMs > settlingMs) return claim.peerId
        await this.#bell.rung(lookEveryMs)
        continue
      }
      if (Date.now() > record.expiresAtMs) return 'expired'
      if (this.#issuer === undefined && (await this.#home.issuer.holder()) === undefined) await this.#play()
      await this.#bell.rung(Math.min(issuerCheckMs, Math.max(1, record.expiresAtMs - Date.now())))
    }
    return undefined
  }

  #isSettledIn(machinePeerId: string): boolean {
    if (this.#issuer === undefined) return true
    return this.#greeted.has(machinePeerId) && isSettledIn(this.#issuer.process.mesh, machinePeerId)
  }

  async close(): Promise<void> {
    for (const unwatch of this.#unwatch) unwatch()
    await this.#issuer?.close()
  }

  /** Plays the issuer, unless another process of this home does. */
  async #play(): Promise<void> {
    try {
      const listen = this.#listen
      this.#issuer = await playIssuer(this.#context, { home: this.#home, ...(listen === undefined ? {} : { listen }) })
    } catch (thrown) {
      if (thrown instanceof NfltrError && thrown.code === 'key_held') return
      throw thrown
    }
    this.#unwatch.push(
      this.#issuer.process.mesh.watch({
        up: (peer) => {
          this.#greeted.add(peer.machinePeerId)
          this.#bell.ring()
        },
        down: () => undefined,
      }),
    )
  }
}

async function newInvite(home: Home, machine: Machine, options: InviteOptions): Promise<InviteRecord> {
  const random = systemRandom()
  const createdAtMs = Date.now()
  const record: InviteRecord = {
    inviteId: Buffer.from(random.bytes(16)).toString('hex'),
    secret: random.bytes(16),
    roles: [options.role ?? 'node'],
    createdAtMs,
    expiresAtMs: createdAtMs + (options.ttl ?? limits.inviteTtlMs),
    ...(options.name === undefined ? {} : { name: options.name }),
    ...(options.replace === undefined ? {} : { replaces: options.replace }),
  }
  if (options.replace !== undefined && !(await isNameKnown(home, machine, options.replace))) {
    throw new NfltrError('not_found', `No member is called ${options.replace}.`, {
      hint: '`nfltr mesh members` names them.',
      details: { argument: '--replace' },
    })
  }
  return record
}

/** In this owner's book, or of a member that another owner let in. */
async function isNameKnown(home: Home, issuers: Issuers, name: string): Promise<boolean> {
  if ((await home.issuer.ownerOfName(name)) !== undefined) return true
  for (const record of await home.mesh.roster()) {
    const membership = await openMembership(record.membership, issuers).catch(() => undefined)
    if (membership?.name === name) return true
  }
  return false
}

async function inviteEvent(of: {
  readonly home: Home
  readonly machine: Machine
  readonly record: InviteRecord
  readonly addresses: readonly string[]
}): Promise<InviteEvent> {
  const { home, machine, record, addresses } = of
  const text = encodeInvite({
    meshId: machine.meshId,
    issuerPeerId: peerIdOf(await ensureKey(home, 'issuer')),
    addresses: addresses.slice(0, limits.addressesMax),
    relays: [],
    inviteId: record.inviteId,
    secret: record.secret,
    expiresAtMs: record.expiresAtMs,
  })
  const verb = record.roles.includes('node') ? 'node join' : 'mesh join'
  return {
    event: 'invite',
    invite: text,
    join_command: `nfltr ${verb} --invite-file FILE`,
    expires_at: instant(record.expiresAtMs),
  }
}

async function memberDocument(
  home: Home,
  of: { readonly issuers: Issuers; readonly peerId: string },
): Promise<Record<string, unknown>> {
  const record = await home.mesh.member(of.peerId)
  if (record === undefined) return { peer_id: of.peerId, fingerprint: fingerprintOf(of.peerId) }
  const membership = await openMembership(record.membership, of.issuers)
  return { name: membership.name, peer_id: of.peerId, fingerprint: fingerprintOf(of.peerId), roles: membership.roles }
}

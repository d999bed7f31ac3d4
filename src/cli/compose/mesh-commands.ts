import { NfltrError } from '../../core/errors.ts'
import { byHolder, isWithin, type Membership } from '../../core/membership.ts'
import type { MeshLine } from '../../core/mesh-line.ts'
import { findIssuerKey } from '../../identity/issuer-key.ts'
import { fingerprintOf } from '../../identity/keys.ts'
import { clearFormerMesh, createMesh, ensureKey, loadMachine } from '../../identity/mesh-setup.ts'
import { type RosterEntry, createMesh as startMesh } from '../../mesh/peers.ts'
import { systemClock } from '../../platform/clock.ts'
import { systemRandom } from '../../platform/random.ts'
import type { Home } from '../../ports/home.ts'
import { openHome } from '../../store/home/home.ts'
import type { JoinOptions, KnockEvent, MeshWorld } from '../commands/mesh.ts'
import type { Context } from '../compose.ts'
import { approveKnock, denyKnock, pendingKnocks } from './approval.ts'
import { instant } from './instant.ts'
import { invite } from './invitation.ts'
import { playIssuer } from './issuer.ts'
import { givenInvite, machineNameOfHost, redeem, refuseForeign } from './join-mesh.ts'
import { replaceKey } from './key-replacement.ts'
import { knockUntilAnswered, requireWayIn } from './knocking.ts'
import { processLifetime } from './lifetime.ts'
import { lookAround, type Surroundings } from './look-around.ts'
import { exportKey, importKey } from './mesh-key.ts'
import { addresses, settingsOfHome } from './mesh-process.ts'
import { promoteMember } from './promotion.ts'
import { renewByName } from './renewing.ts'
import { revokeMember } from './revocation.ts'

type Document = Readonly<Record<string, unknown>>

/** What the mesh commands do; loaded when one of them runs. */
export function meshCommands(context: Context): Omit<MeshWorld, 'io'> {
  const homeOf = (options: { readonly home?: string }): Home => openHome({ ...options, env: context.env })
  return {
    create: async (options) => {
      const created = await createMesh(homeOf(options), {
        name: options.name ?? (await settingsOfHome(context, homeOf(options))).name ?? machineNameOfHost(),
        nowMs: Date.now(),
      })
      return {
        mesh_id: created.meshId,
        mesh_fingerprint: created.meshFingerprint,
        machine: created.machine,
        peer_id: created.peerId,
        fingerprint: created.fingerprint,
        roles: created.roles,
      }
    },
    show: (options) => show(homeOf(options)),
    members: (options) => members(context, homeOf(options)),
    invite: (options, tell) => invite(context, options, tell),
    join: (options, tell) => join(context, { home: homeOf(options), options, tell }),
    pending: (options) => pendingKnocks(homeOf(options)),
    approve: (options) => approveKnock(homeOf(options), options),
    deny: (options) => denyKnock(homeOf(options), options.fingerprint),
    exportKey: (options) => exportKey(context, homeOf(options), options),
    importKey: (options) => importKey(context, homeOf(options), options),
    replaceKey: (options) => replaceKey(context, homeOf(options)),
    promote: (options) => promoteMember(context, homeOf(options), options.name),
    renew: (options) => renewByName(context, homeOf(options), options.name),
    revoke: (options) => revokeMember(context, homeOf(options), options.name),
    serve: async (options, ready) => {
      const lifetime = processLifetime()
      const home = homeOf(options)
      const issuer = await playIssuer(context, {
        home,
        ...(options.listen === undefined ? {} : { listen: options.listen }),
      })
      const { mesh } = issuer.process
      ready({ peer_id: mesh.self.peerId, listen: mesh.listenAddresses(), pid: process.pid })
      await lifetime.ending
      await issuer.close()
    },
  }
}

async function show(home: Home): Promise<Document> {
  const machine = await loadMachine(home)
  const running = await home.running.list()
  return {
    mesh_id: machine.meshId,
    mesh_fingerprint: fingerprintOf(machine.meshId),
    ...keyDocument(machine.line),
    machine: machine.membership.name,
    roles: machine.membership.roles,
    fingerprint: fingerprintOf(machine.peerId),
    peer_id: machine.peerId,
    listen: running.flatMap((process) => process.listen),
    is_owner: (await findIssuerKey(home)) !== undefined,
    expires_at: instant(machine.membership.expiresAtMs),
    relays: machine.files.relays,
  }
}

/** Which key of the mesh signs now, where it is not the first one; or that none does. */
function keyDocument({ meshId, current, dispute }: MeshLine): Document {
  if (dispute !== undefined) return { closed: true, successors: dispute.successors.map(fingerprintOf) }
  return current === undefined || current === meshId ? {} : { mesh_key_fingerprint: fingerprintOf(current) }
}

async function members(context: Context, home: Home): Promise<{ members: Document[]; alarms?: Document[] }> {
  const around = await lookAround(context, home)
  const machine = await loadMachine(home)
  // The machine that asks is there, whatever runs on it.
  const online = new Set([...around.onlinePeerIds, machine.peerId])
  const alarms = around.alarms.map(({ issuerId, version, successors }) => ({
    issuer_id: issuerId,
    ...(version === undefined ? {} : { version }),
    ...(successors === undefined ? {} : { successors: successors.map(fingerprintOf) }),
  }))
  return { members: memberDocuments(around, online), ...(alarms.length === 0 ? {} : { alarms }) }
}

function memberDocuments({ members, directory }: Surroundings, online: ReadonlySet<string>): Document[] {
  const facts = new Map(members.map((member) => [member.machinePeerId, member]))
  const byName = directory.toSorted(byNameAndHolder)
  return byName.map(({ membership: { body }, records, lastSeenAtMs }) => {
    const { revokedAtMs, hasLeft = false } = facts.get(body.machinePeerId) ?? {}
    return {
      name: body.name,
      peer_id: body.machinePeerId,
      fingerprint: fingerprintOf(body.machinePeerId),
      roles: body.roles,
      addresses: [...new Set([...records.values()].flatMap((record) => record.body.addresses))],
      issued_at: instant(body.issuedAtMs),
      expires_at: instant(body.expiresAtMs),
      ...(lastSeenAtMs === undefined ? {} : { last_seen_at: instant(lastSeenAtMs) }),
      ...(revokedAtMs === undefined ? {} : { [hasLeft ? 'left_at' : 'revoked_at']: instant(revokedAtMs) }),
      state: stateOf(body, { isRevoked: revokedAtMs !== undefined, hasLeft, isOnline: online.has(body.machinePeerId) }),
    }
  })
}

function byNameAndHolder({ membership: { body: a } }: RosterEntry, { membership: { body: b } }: RosterEntry): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : byHolder(a, b)
}

function stateOf(
  membership: Membership,
  seen: { readonly isRevoked: boolean; readonly hasLeft: boolean; readonly isOnline: boolean },
): 'left' | 'revoked' | 'online' | 'offline' | 'expired' {
  if (seen.hasLeft) return 'left'
  if (seen.isRevoked) return 'revoked'
  if (seen.isOnline) return 'online'
  return isWithin(membership, Date.now()) ? 'offline' : 'expired'
}

async function join(
  context: Context,
  asked: { readonly home: Home; readonly options: JoinOptions; readonly tell: (event: KnockEvent) => void },
): Promise<Document | undefined> {
  const { home, options, tell } = asked
  const lifetime = processLifetime()
  const existing = await home.mesh.loadMembership()
  if (existing !== undefined) {
    refuseForeign(await givenInvite(context, options, { mayAsk: false }), existing)
    throw new NfltrError('already_exists', `This machine belongs to mesh ${existing.meshId} already.`, {
      hint: 'See `nfltr mesh show`; another mesh needs another NFLTR_HOME.',
    })
  }
  const invitation = await givenInvite(context, options, { mayAsk: options.mesh === undefined })
  const { listen, peers } = await addresses(context, {
    home,
    ...(options.listen === undefined ? {} : { listen: options.listen }),
    ...(options.peer === undefined ? {} : { peers: options.peer }),
  })
  const knock = { ...options, peer: peers }
  if (invitation === undefined) requireWayIn(context, knock)
  const held = await home.keys.lock('machine')
  try {
    await clearFormerMesh(home)
    const mesh = await startMesh({
      key: await ensureKey(home, 'machine'),
      kind: 'cli',
      files: home.mesh,
      clock: systemClock(),
      random: systemRandom(),
      softwareVersion: context.version,
      ...(listen === undefined ? {} : { listen }),
    })
    try {
      if (invitation !== undefined) await redeem(mesh, invitation, options)
      else if (!(await knockUntilAnswered(context, { mesh, options: knock, roles: ['hub'], lifetime, tell })))
        return undefined
    } finally {
      await mesh.close()
    }
    const { roles: _roles, listen: _listen, is_owner: _isOwner, relays: _relays, ...joined } = await show(home)
    return { ...joined, roles: (await loadMachine(home)).membership.roles }
  } finally {
    await held.release()
  }
}

import { NfltrError } from '../../core/errors.ts'
import { isWithin } from '../../core/membership.ts'
import { openAddressRecord, openMembership } from '../../identity/envelopes.ts'
import { fingerprintOf } from '../../identity/keys.ts'
import { createMesh, ensureKey, loadMachine } from '../../identity/mesh-setup.ts'
import { createMesh as startMesh } from '../../mesh/peers.ts'
import { systemClock } from '../../platform/clock.ts'
import { systemRandom } from '../../platform/random.ts'
import type { Home } from '../../ports/home.ts'
import { openHome } from '../../store/home/home.ts'
import type { JoinOptions, MeshWorld } from '../commands/mesh.ts'
import type { Context } from '../compose.ts'
import { instant } from './instant.ts'
import { invite } from './invitation.ts'
import { playIssuer } from './issuer.ts'
import { givenInvite, machineNameOfHost, noInvite, redeem } from './join-mesh.ts'
import { processLifetime } from './lifetime.ts'
import { lookAround } from './look-around.ts'
import { addresses, settingsOfHome } from './mesh-process.ts'

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
    join: (options) => join(context, homeOf(options), options),
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
    machine: machine.membership.name,
    roles: machine.membership.roles,
    fingerprint: fingerprintOf(machine.peerId),
    peer_id: machine.peerId,
    listen: running.flatMap((process) => process.listen),
    is_owner: (await home.keys.load('mesh')) !== undefined,
    expires_at: instant(machine.membership.expiresAtMs),
    relays: machine.files.relays,
  }
}

async function members(context: Context, home: Home): Promise<{ members: Document[] }> {
  const { onlinePeerIds } = await lookAround(context, home)
  const machine = await loadMachine(home)
  const online = new Set(onlinePeerIds)
  if ((await home.running.list()).length > 0) online.add(machine.peerId)
  return { members: await memberDocuments(home, { meshId: machine.meshId, online }) }
}

async function memberDocuments(
  home: Home,
  of: { readonly meshId: string; readonly online: ReadonlySet<string> },
): Promise<Document[]> {
  const documents: Document[] = []
  for (const record of await home.mesh.roster()) {
    const membership = await openMembership(record.membership, { meshId: of.meshId })
    const records = await Promise.all(
      record.addresses.map(({ envelope }) => openAddressRecord(envelope, { meshId: of.meshId })),
    )
    documents.push({
      name: membership.name,
      peer_id: record.peerId,
      fingerprint: fingerprintOf(record.peerId),
      roles: membership.roles,
      addresses: [...new Set(records.flatMap(({ addresses }) => addresses))],
      issued_at: instant(membership.issuedAtMs),
      expires_at: instant(membership.expiresAtMs),
      ...(record.lastSeenAtMs === undefined ? {} : { last_seen_at: instant(record.lastSeenAtMs) }),
      state: of.online.has(record.peerId) ? 'online' : isWithin(membership, Date.now()) ? 'offline' : 'expired',
    })
  }
  return documents
}

async function join(context: Context, home: Home, options: JoinOptions): Promise<Document> {
  const invitation = await givenInvite(context, options, { mayAsk: true })
  if (invitation === undefined) throw noInvite()
  const existing = await home.mesh.loadMembership()
  if (existing !== undefined) {
    throw new NfltrError('already_exists', `This machine belongs to mesh ${existing.meshId} already.`, {
      hint: 'See `nfltr mesh show`; another mesh needs another NFLTR_HOME.',
    })
  }
  const held = await home.keys.lock('machine')
  try {
    const { listen } = await addresses(context, {
      home,
      ...(options.listen === undefined ? {} : { listen: options.listen }),
    })
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
      await redeem(mesh, invitation, options)
    } finally {
      await mesh.close()
    }
    const { roles: _roles, listen: _listen, is_owner: _isOwner, relays: _relays, ...joined } = await show(home)
    return { ...joined, roles: (await loadMachine(home)).membership.roles }
  } finally {
    await held.release()
  }
}

import { arch, platform } from 'node:os'
import { resolveSettings, type Settings, settingsOf } from '../../config/settings.ts'
import { NfltrError } from '../../core/errors.ts'
import type { PeerKind } from '../../core/membership.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../../identity/keys.ts'
import { certifyProcess, ensureKey, loadMachine, type Machine } from '../../identity/mesh-setup.ts'
import { type BorrowedKey, createMesh, type IssuerRole, type MeshHost } from '../../mesh/peers.ts'
import { systemClock } from '../../platform/clock.ts'
import { systemLan } from '../../platform/lan.ts'
import { interfacesText } from '../../platform/liveness.ts'
import { systemRandom } from '../../platform/random.ts'
import type { Held, Home, KeyName } from '../../ports/home.ts'
import type { Lan } from '../../ports/lan.ts'
import { loadConfigText } from '../../store/home/config-file.ts'
import type { Context } from '../compose.ts'
import { checkAddresses } from './address-settings.ts'
import { registerListening } from './registration.ts'

/** This process's part of the mesh, with the key it holds and its place in the list of running processes. */
export interface MeshProcess {
  readonly mesh: MeshHost
  readonly machine: Machine
  close(): Promise<void>
}

export interface MeshProcessOptions {
  readonly home: Home
  /** This machine, where the caller has read it. */
  readonly machine?: Machine
  readonly kind: Exclude<PeerKind, 'node'>
  readonly hubId?: string
  readonly listen?: readonly string[]
  readonly peers?: readonly string[]
  readonly issuer?: IssuerRole
}

/**
 * Starts a process of this machine that is not its node: with a key of its own that the machine certifies (rules 10, 11).
 *
 * @throws {NfltrError} `no_mesh`, `key_held` where another process uses the key, `invalid_argument` for addresses
 */
export async function openMeshProcess(context: Context, options: MeshProcessOptions): Promise<MeshProcess> {
  const { home, kind, hubId, issuer } = options
  const machine = options.machine ?? (await loadMachine(home))
  const { key, held } = await processKey(home, options)
  try {
    const clock = systemClock()
    const peerId = peerIdOf(key)
    const named = hubId === undefined ? {} : { hubId }
    const certify = (nowMs: number): Promise<Uint8Array> => certifyProcess(machine, { peerId, kind, nowMs, ...named })
    // A clock that starts in 1970 is not believed below what was seen before.
    const certificate = await certify(Math.max(clock.wallMs(), await home.mesh.seenTimeMs()))
    const where = await addresses(context, options)
    const mesh = await createMesh({
      key,
      kind,
      ...named,
      standing: { meshId: machine.meshId, membership: machine.files.membership, certificate },
      certify,
      ...(kind === 'hub' ? { borrowMachineKey: () => borrowMachineKey(home, machine) } : {}),
      files: home.mesh,
      clock,
      random: systemRandom(),
      softwareVersion: context.version,
      ...where,
      ...(issuer === undefined ? {} : { issuer }),
    })
    // A short command is nobody that others of this home would look for.
    const registered =
      kind === 'cli' ? undefined : await registerListening(home, { mesh, facts: { kind, peerId, ...named } })
    return {
      mesh,
      machine,
      close: async () => {
        await mesh.close()
        await registered?.release()
        await held?.release()
      },
    }
  } catch (thrown) {
    await held?.release()
    throw thrown
  }
}

/** The machine's key for a moment; undefined while the node or a joiner has it. */
async function borrowMachineKey(home: Home, { key }: Machine): Promise<BorrowedKey | undefined> {
  try {
    const held = await home.keys.lock('machine')
    return { key, giveBack: () => held.release() }
  } catch (thrown) {
    if (thrown instanceof NfltrError && thrown.code === 'key_held') return undefined
    throw thrown
  }
}

/** A short command has a key for its own life; every other process keeps one and holds it. */
async function processKey(home: Home, options: MeshProcessOptions): Promise<{ key: PrivateKey; held?: Held }> {
  const name = keyName(options)
  if (name === undefined) return { key: await generateKey() }
  const held = await home.keys.lock(name)
  return { key: await ensureKey(home, name), held }
}

function keyName(options: MeshProcessOptions): KeyName | undefined {
  if (options.kind === 'issuer') return 'issuer'
  return options.hubId === undefined ? undefined : `hub-${options.hubId}`
}

export async function settingsOfHome(context: Context, home: Home): Promise<Settings> {
  return settingsOf(resolveSettings({ env: context.env, fileText: await loadConfigText(home.paths) }))
}

/** Where a process listens, whom it dials, and whether it looks for members on the local network. */
export interface Where {
  readonly listen?: readonly string[]
  readonly peers: readonly string[]
  readonly lan?: Lan
  readonly interfaces: () => string
}

/**
 * Addresses from flags, else from `NFLTR_*`, else from the file; peers of the settings join those of the flags.
 * The local network is asked unless a flag or the setting `lan` forbids it.
 *
 * @throws {NfltrError} `invalid_argument` for one that is malformed, before anything is opened
 */
export async function addresses(
  context: Context,
  given: {
    readonly home: Home
    readonly listen?: readonly string[] | undefined
    readonly peers?: readonly string[] | undefined
    readonly lan?: boolean | undefined
  },
): Promise<Where> {
  const set = resolveSettings({ env: context.env, fileText: await loadConfigText(given.home.paths) })
  for (const { key, value, from } of set) {
    if (key !== 'listen' || given.listen === undefined) checkAddresses(key, value, from)
  }
  const settings = settingsOf(set)
  const listen = given.listen ?? settings.listen
  checkAddresses('listen', given.listen, 'the command line', '--listen')
  checkAddresses('peers', given.peers, 'the command line', '--peer')
  const peers = [...(given.peers ?? []), ...(settings.peers ?? [])]
  const isLanAllowed = (given.lan ?? true) && (settings.lan ?? true)
  return {
    peers,
    interfaces: interfacesText,
    ...(listen === undefined ? {} : { listen }),
    ...(isLanAllowed ? { lan: systemLan() } : {}),
  }
}

export const machineFacts = { os: platform(), arch: arch() } as const

/** @throws {NfltrError} `wrong_role` */
export function requireRole(machine: Machine, role: Machine['membership']['roles'][number]): void {
  if (machine.membership.roles.includes(role)) return
  throw new NfltrError('wrong_role', `This machine's membership does not have the role ${role}.`, {
    hint: `Its roles: ${machine.membership.roles.join(', ')}. An owner gives others with: nfltr mesh invite --role ${role}`,
  })
}

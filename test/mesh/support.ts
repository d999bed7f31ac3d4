import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { noise } from '@chainsafe/libp2p-noise'
import { yamux } from '@chainsafe/libp2p-yamux'
import type { Libp2p, Stream } from '@libp2p/interface'
import { tcp } from '@libp2p/tcp'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import type { Membership, PeerKind, ProcessCertificate, Role } from '../../src/core/membership.ts'
import { signMembership, signProcessCertificate } from '../../src/identity/envelopes.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../../src/identity/keys.ts'
import { createMesh, type MeshHost, type MeshOptions, type Standing } from '../../src/mesh/peers.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { systemRandom } from '../../src/platform/random.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { Home } from '../../src/ports/home.ts'
import type { MemberFacts, PeerFacts } from '../../src/ports/peers.ts'
import { openHome } from '../../src/store/home/home.ts'

export const day = 24 * 3_600_000

/** A mesh key and what it signs, for tests that need members without joining. */
export class TestMesh {
  readonly key: PrivateKey
  readonly id: string
  #serial = 0

  private constructor(key: PrivateKey) {
    this.key = key
    this.id = peerIdOf(key)
  }

  static async create(): Promise<TestMesh> {
    return new TestMesh(await generateKey())
  }

  async membership(key: PrivateKey, fields: Partial<Membership> = {}): Promise<Uint8Array> {
    return this.#sign(this.key, key, fields)
  }

  /** A membership that a further owner signed. */
  membershipBy(ownerKey: PrivateKey, key: PrivateKey, fields: Partial<Membership> = {}): Promise<Uint8Array> {
    return this.#sign(ownerKey, key, { issuerId: peerIdOf(ownerKey), ...fields })
  }

  #sign(signer: PrivateKey, key: PrivateKey, fields: Partial<Membership>): Promise<Uint8Array> {
    this.#serial += 1
    const nowMs = Date.now()
    return signMembership(signer, {
      meshId: this.id,
      issuerId: this.id,
      machinePeerId: peerIdOf(key),
      name: `machine-${this.#serial}`,
      roles: ['node', 'hub', 'owner'],
      issuedAtMs: nowMs,
      expiresAtMs: nowMs + day,
      serial: this.#serial,
      ...fields,
    })
  }
}

export async function certificate(
  machineKey: PrivateKey,
  fields: Partial<ProcessCertificate> & Pick<ProcessCertificate, 'meshId' | 'processPeerId' | 'kind'>,
): Promise<Uint8Array> {
  const nowMs = Date.now()
  return signProcessCertificate(machineKey, {
    machinePeerId: peerIdOf(machineKey),
    issuedAtMs: nowMs,
    expiresAtMs: nowMs + day,
    ...fields,
  })
}

/** Everything a test started, ended in the opposite order. */
export class Bench implements AsyncDisposable {
  readonly #endings: (() => Promise<unknown>)[] = []

  defer(ending: () => Promise<unknown>): void {
    this.#endings.push(ending)
  }

  async home(): Promise<Home> {
    const folder = await mkdtemp(join(tmpdir(), 'nfltr-mesh-'))
    this.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
    return openHome({ home: folder, env: {} })
  }

  async start(
    options: Omit<MeshOptions, 'clock' | 'random' | 'files' | 'softwareVersion'> & {
      readonly home?: Home
      readonly clock?: Clock
    },
  ): Promise<MeshHost> {
    const { home = await this.home(), ...rest } = options
    const mesh = await createMesh({
      clock: systemClock(),
      random: systemRandom(),
      files: home.mesh,
      softwareVersion: '0.1.0',
      listen: ['/ip4/127.0.0.1/tcp/0'],
      ...rest,
    })
    this.defer(() => mesh.close())
    return mesh
  }

  /** A member of its own machine. A node runs under the machine's key, everything else under one of its own. */
  async member(
    mesh: TestMesh,
    kind: PeerKind,
    options: {
      readonly roles?: readonly Role[]
      readonly name?: string
      readonly home?: Home
      readonly more?: Partial<MeshOptions>
    } = {},
  ): Promise<MeshHost> {
    const { standing, key, hubId } = await memberOf(mesh, kind, options)
    return this.start({
      kind,
      key,
      standing,
      ...(hubId === undefined ? {} : { hubId }),
      ...(options.home === undefined ? {} : { home: options.home }),
      ...options.more,
    })
  }

  /** A plain libp2p process that knows nothing of any mesh. */
  async stranger(key?: PrivateKey): Promise<Libp2p> {
    const host = await createLibp2p({
      privateKey: key ?? (await generateKey()),
      addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
      transports: [tcp()],
      connectionEncrypters: [noise()],
      streamMuxers: [yamux()],
      connectionGater: { denyDialMultiaddr: () => false },
      connectionMonitor: { enabled: false },
    })
    this.defer(async () => host.stop())
    return host
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const ending of this.#endings.reverse()) await ending()
  }
}

/** Key and standing of a member process. */
export async function memberOf(
  mesh: TestMesh,
  kind: PeerKind,
  options: { readonly roles?: readonly Role[]; readonly name?: string } = {},
): Promise<{
  readonly key: PrivateKey
  readonly machineKey: PrivateKey
  readonly standing: Standing
  readonly kind: PeerKind
  readonly hubId?: string
}> {
  const machineKey = await generateKey()
  const { roles, name } = options
  const membership = await mesh.membership(machineKey, {
    ...(roles === undefined ? {} : { roles }),
    ...(name === undefined ? {} : { name }),
  })
  if (kind === 'node') return { key: machineKey, machineKey, kind, standing: { meshId: mesh.id, membership } }
  const key = await generateKey()
  const hubId = kind === 'hub' ? { hubId: 'hub_test' } : {}
  const process = await certificate(machineKey, { meshId: mesh.id, processPeerId: peerIdOf(key), kind, ...hubId })
  return { key, machineKey, kind, standing: { meshId: mesh.id, membership, certificate: process }, ...hubId }
}

export function addressOf(mesh: MeshHost): string {
  const [address] = mesh.listenAddresses()
  if (address === undefined) throw new Error('the mesh listens nowhere')
  return address
}

export function connectionTo(stranger: Libp2p, mesh: MeshHost): ReturnType<Libp2p['dial']> {
  return stranger.dial(multiaddr(addressOf(mesh)))
}

/** Resolves with the peer once one that fits passed hello. */
export function peerUp(mesh: MeshHost, test: (peer: PeerFacts) => boolean = () => true): Promise<PeerFacts> {
  return new Promise((resolve) => {
    const stop = mesh.watch({
      up: (peer) => {
        if (!test(peer)) return
        queueMicrotask(() => stop())
        resolve(peer)
      },
      down: () => {},
    })
  })
}

export function peerDown(mesh: MeshHost, peerId: string): Promise<PeerFacts> {
  return new Promise((resolve) => {
    const stop = mesh.watch({
      up: () => {},
      down: (peer) => {
        if (peer.peerId !== peerId) return
        queueMicrotask(() => stop())
        resolve(peer)
      },
    })
  })
}

/** Resolves once the members of a mesh's roster fit. */
export function membersFit(mesh: MeshHost, test: (members: readonly MemberFacts[]) => boolean): Promise<void> {
  return new Promise((resolve) => {
    if (test(mesh.members())) {
      resolve()
      return
    }
    const stop = mesh.watchMembers(() => {
      if (!test(mesh.members())) return
      stop()
      resolve()
    })
  })
}

export function membersMatch(mesh: MeshHost, test: (names: readonly string[]) => boolean): Promise<void> {
  return membersFit(mesh, (members) => test(members.map((member) => member.name)))
}

/** Resolves once a stream is down both ways. */
export function streamClosed(stream: Stream): Promise<void> {
  return new Promise((resolve) => {
    if (stream.status !== 'open') resolve()
    else stream.addEventListener('close', () => resolve())
  })
}

export const soon = (): { readonly signal: AbortSignal } => ({ signal: AbortSignal.timeout(10_000) })

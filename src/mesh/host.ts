import { noise } from '@chainsafe/libp2p-noise'
import { FaultTolerance, type Libp2p, type PrivateKey } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { PeerKind } from '../core/membership.ts'
import type { Clock } from '../ports/clock.ts'
import { announceable, dialRank, isWebSocket, parseListenAddress, portOf } from './addresses.ts'
import { addressDialBackstopMs } from './dial.ts'
import type { Quarantine } from './quarantine.ts'
import { gatheringTcp } from './tcp.ts'
import { boundedWebSockets } from './websockets.ts'
import { sparingYamux } from './yamux.ts'

export interface HostOptions {
  readonly key: PrivateKey
  readonly kind: PeerKind
  /** Addresses given by a person; without any, the port of the kind on every interface, or the next free one. */
  readonly listen: readonly string[] | undefined
  /** The interfaces of the default, as the beginning of a multiaddr. */
  readonly interfaces?: readonly string[]
  readonly quarantine: Quarantine
  readonly clock: Clock
  /** Registers handlers and listeners before the first connection can come in. Called for each port that is tried. */
  readonly prepare: (host: Libp2p) => Promise<void>
}

/** Where the first port of a kind is; kinds that are not here take any free port. */
const firstPorts: Partial<Record<PeerKind, number>> = { node: 4701, issuer: 4702 }

/** How many ports after the first are tried before any free one is taken. */
const portsTried = 32

/** yamux's own bound; with a window below it a paused stream never reaches libp2p's 4 MiB limit, which would abort it. */
const streamWindowMaxBytes = 1024 * 1024

/** TCP asks a silent peer whether it is there after this time, in milliseconds; no timer of ours runs for it. */
const keepAliveMs = 30_000

/**
 * Starts libp2p for one process: its key, TCP and WebSockets, Noise, yamux, and nothing that answers a stranger (no identify, no ping).
 *
 * @throws {NfltrError} `invalid_argument` when an address given by a person cannot be listened on
 */
export async function startHost(options: HostOptions): Promise<Libp2p> {
  if (options.listen !== undefined) return listenOn(options, options.listen)
  const first = firstPorts[options.kind]
  const at = (port: number): readonly string[] =>
    (options.interfaces ?? everyInterface).map((start) => `${start}/tcp/${port}`)
  if (first !== undefined) {
    for (let port = first; port < first + portsTried; port += 1) {
      const host = await create(options, at(port))
      if (isListeningOn(host, at(port))) return host
      await host.stop()
    }
  }
  return create(options, at(0))
}

const everyInterface = ['/ip4/0.0.0.0', '/ip6/::'] as const

async function listenOn(options: HostOptions, listen: readonly string[]): Promise<Libp2p> {
  const addresses = listen.map((text) => parseListenAddress(text))
  const host = await create(options, listen)
  const missing = addresses.find((address) => !isListening(host, address))
  if (missing === undefined) return host
  await host.stop()
  throw new NfltrError('invalid_argument', `The address ${missing.toString()} could not be listened on.`, {
    hint: 'Another process may hold the port, or no interface has the address; choose another with --listen.',
  })
}

/** IPv6 may be missing on a machine; IPv4 may not. */
function isListeningOn(host: Libp2p, listen: readonly string[]): boolean {
  return listen.some((text) => text.startsWith('/ip4/') && isListening(host, parseListenAddress(text)))
}

function isListening(host: Libp2p, address: Multiaddr): boolean {
  const port = portOf(address)
  const family = address.getComponents()[0]?.code
  return listenersOf(host).some(
    (open) =>
      open.getComponents()[0]?.code === family &&
      (port === 0 || portOf(open) === port) &&
      isWebSocket(open) === isWebSocket(address),
  )
}

/** What the listeners really hold; `getMultiaddrs` is filtered for others to see. */
const openAddresses = new WeakMap<Libp2p, () => readonly Multiaddr[]>()

/** Every address that a host listens on, on each interface, loopback too. */
export function listenersOf(host: Libp2p): readonly Multiaddr[] {
  return openAddresses.get(host)?.() ?? []
}

async function create(options: HostOptions, listen: readonly string[]): Promise<Libp2p> {
  let seen: readonly Multiaddr[] = []
  const host = await createLibp2p({
    privateKey: options.key,
    addresses: {
      listen: [...listen],
      announceFilter: (addresses) => {
        seen = addresses
        return [...announceable(addresses)]
      },
    },
    transports: [
      gatheringTcp({
        // Heartbeats tell whether a session lives; a quiet link without a session is no fault.
        inboundSocketInactivityTimeout: 0,
        outboundSocketInactivityTimeout: 0,
        dialOpts: { keepAlive: true, keepAliveInitialDelay: keepAliveMs },
        listenOpts: { keepAlive: true, keepAliveInitialDelay: keepAliveMs },
      }),
      boundedWebSockets({
        clock: options.clock,
        isMemberHost: (host) => options.quarantine.isMemberHost(host),
      }),
    ],
    // A port that is taken must not keep a node from dialling out.
    transportManager: { faultTolerance: FaultTolerance.NO_FATAL },
    connectionEncrypters: [(components) => options.quarantine.wrapEncrypter(noise()(components))],
    streamMuxers: [
      () =>
        options.quarantine.wrapMuxer(
          sparingYamux({
            // One ping at the start gives the round trip without which windows never grow; then quiet.
            enableKeepAlive: true,
            keepAliveInterval: 2 ** 31 - 1,
            streamOptions: { maxStreamWindowSize: streamWindowMaxBytes },
          }),
        ),
    ],
    connectionGater: options.quarantine.gater,
    connectionMonitor: { enabled: false },
    connectionManager: {
      // Our own bounds hold for strangers (quarantine); these must never be the ones that members of one network meet.
      maxConnections: 2_000,
      inboundConnectionThreshold: 10_000,
      maxIncomingPendingConnections: 1_000,
      addressDialTimeout: addressDialBackstopMs,
      inboundUpgradeTimeout: limits.helloTimeoutMs,
      inboundStreamProtocolNegotiationTimeout: limits.helloTimeoutMs,
      outboundStreamProtocolNegotiationTimeout: limits.helloTimeoutMs,
      addressSorter: (a, b) => order(dialRank(a.multiaddr), dialRank(b.multiaddr)),
    },
    services: {},
    start: false,
  })
  openAddresses.set(host, () => {
    host.getMultiaddrs()
    return seen
  })
  await options.prepare(host)
  await host.start()
  return host
}

function order(a: number, b: number): -1 | 0 | 1 {
  if (a === b) return 0
  return a < b ? -1 : 1
}

import { CODE_IP4, CODE_IP6, CODE_P2P, CODE_TCP, CODE_WS, type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'

/**
 * Addresses as people write them and as libp2p wants them: a host, a TCP port, `/ws` where WebSockets are spoken there, and,
 * where it is known, a PeerId.
 */

const hostNames = new Set(['ip4', 'ip6', 'dns', 'dns4', 'dns6'])

/**
 * Reads the address of a peer: `/ip4/192.0.2.7/tcp/4701` or `/ip4/192.0.2.7/tcp/4780/ws`, with or without `/p2p/…`.
 *
 * @throws {NfltrError} `invalid_argument`, naming the address and what is wrong with it
 */
export function parsePeerAddress(text: string): Multiaddr {
  const address = parse(text)
  const [host, port, ...rest] = address.getComponents()
  const [peer, ...more] = rest[0]?.code === CODE_WS ? rest.slice(1) : rest
  const isFit =
    host !== undefined &&
    hostNames.has(host.name) &&
    port?.code === CODE_TCP &&
    Number(port.value) > 0 &&
    (peer === undefined || peer.code === CODE_P2P) &&
    more.length === 0
  if (!isFit) {
    throw malformed(
      text,
      'it is not a host and a TCP port',
      'Give it like /ip4/192.0.2.7/tcp/4701 or …/tcp/4780/ws, with or without /p2p/PEER_ID.',
    )
  }
  return address
}

/**
 * Reads an address to listen on: `/ip4/0.0.0.0/tcp/4701`, or with `/ws` at its end; port 0 means any free one.
 *
 * @throws {NfltrError} `invalid_argument`, naming the address and what is wrong with it
 */
export function parseListenAddress(text: string): Multiaddr {
  const address = parse(text)
  const [host, port, ...rest] = address.getComponents()
  const isTransport = rest.length === 0 || (rest.length === 1 && rest[0]?.code === CODE_WS)
  const isFit = (host?.code === CODE_IP4 || host?.code === CODE_IP6) && port?.code === CODE_TCP && isTransport
  if (!isFit) throw malformed(text, 'it is not an IP address and a TCP port', 'Give it like /ip4/0.0.0.0/tcp/4701.')
  return address
}

/** The PeerId that an address names, if it names one. */
export function peerIdIn(address: Multiaddr): string | undefined {
  return address.getComponents().findLast((component) => component.code === CODE_P2P)?.value
}

/** The IP address or host name of an address; `undefined` when it has none. */
export function hostOf(address: Multiaddr): string | undefined {
  return address.getComponents().find((component) => hostNames.has(component.name))?.value
}

/** The TCP port of an address. */
export function portOf(address: Multiaddr): number | undefined {
  const port = address.getComponents().find((component) => component.code === CODE_TCP)?.value
  return port === undefined ? undefined : Number(port)
}

/** Whether WebSockets are spoken at an address, and not plain TCP. */
export function isWebSocket(address: Multiaddr): boolean {
  return address.getComponents().some((component) => component.code === CODE_WS)
}

/** An address without its PeerId, as it stands in address records. */
export function withoutPeerId(address: Multiaddr): string {
  return address.toString().replace(/\/p2p\/[^/]+$/, '')
}

/** An address with a PeerId, so that whoever answers with another key is refused by Noise. */
export function withPeerId(text: string, peerId: string): Multiaddr {
  const address = multiaddr(text)
  return peerIdIn(address) === undefined ? address.encapsulate(`/p2p/${peerId}`) : address
}

/**
 * The network that an address counts against while a stranger has not said who it is: /24 for IPv4, /56 for IPv6,
 * which is what one household or one rented machine usually holds.
 */
export function prefixOf(host: string): string {
  if (!host.includes(':')) return host.split('.').slice(0, 3).join('.')
  const [head = '', tail] = host.split('::')
  const front = head === '' ? [] : head.split(':')
  const back = tail === undefined || tail === '' ? [] : tail.split(':')
  const middle = tail === undefined ? [] : Array.from({ length: 8 - front.length - back.length }, () => '0')
  const groups = [...front, ...middle, ...back].map((group) => group.padStart(4, '0'))
  return groups.slice(0, 4).join(':').slice(0, -2)
}

/**
 * The order in which addresses are dialled: the same machine, then private networks, then public ones and names; WebSockets,
 * which are slower, after TCP on the same.
 */
export function dialRank(address: Multiaddr): number {
  const host = hostOf(address) ?? ''
  const reach = isLoopback(host) ? 0 : isPrivate(host) ? 1 : 2
  return reach * 2 + (isWebSocket(address) ? 1 : 0)
}

/** Whether an address is on this machine or on a private network. */
export function isNearby(address: Multiaddr): boolean {
  const host = hostOf(address) ?? ''
  return isLoopback(host) || isPrivate(host)
}

/**
 * Picks what to tell others: at most eight, never link-local, loopback only where there is nothing else, private
 * networks first.
 */
export function announceable(addresses: readonly Multiaddr[]): readonly Multiaddr[] {
  const usable = addresses.filter((address) => {
    const host = hostOf(address)
    return host !== undefined && !isLinkLocal(host)
  })
  const beyondLoopback = usable.filter((address) => !isLoopback(hostOf(address) ?? ''))
  const chosen = beyondLoopback.length > 0 ? beyondLoopback : usable
  return [...chosen].sort((a, b) => dialRank(a) - dialRank(b)).slice(0, limits.addressesMax)
}

function isLoopback(host: string): boolean {
  return host === '::1' || host === 'localhost' || host.startsWith('127.')
}

function isLinkLocal(host: string): boolean {
  return host.startsWith('169.254.') || /^fe[89ab]/i.test(host)
}

function isPrivate(host: string): boolean {
  return (
    /^(10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.)/.test(host) ||
    /^f[cd]/i.test(host)
  )
}

function parse(text: string): Multiaddr {
  if (text.length > limits.addressMaxBytes) throw malformed(`${text.slice(0, 60)}…`, 'it is too long')
  try {
    return multiaddr(text)
  } catch (cause) {
    throw malformed(text, 'it is not a multiaddr', 'Give it like /ip4/192.0.2.7/tcp/4701.', cause)
  }
}

function malformed(text: string, what: string, hint?: string, cause?: unknown): NfltrError {
  return new NfltrError('invalid_argument', `The address ${JSON.stringify(text)} was not understood: ${what}.`, {
    ...(hint === undefined ? {} : { hint }),
    ...(cause === undefined ? {} : { cause }),
  })
}

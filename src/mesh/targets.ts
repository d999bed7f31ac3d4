import type { Libp2p } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { PeerKind } from '../core/membership.ts'
import type { Clock } from '../ports/clock.ts'
import type { PeerFacts } from '../ports/peers.ts'
import { parsePeerAddress, peerIdIn, withoutPeerId } from './addresses.ts'
import { dial } from './dial.ts'
import type { Greeter } from './greeter.ts'
import type { Target } from './link-keeper.ts'
import type { MemberLink, MemberLinks } from './member-links.ts'
import type { Roster, RosterEntry } from './roster.ts'
import type { Whereabouts } from './whereabouts.ts'

/** What targets need of the mesh they belong to. */
export interface TargetOptions {
  readonly host: Libp2p
  readonly clock: Clock
  readonly greeter: Greeter
  readonly links: MemberLinks
  readonly roster: () => Roster | undefined
  readonly whereabouts: Whereabouts
  readonly ownKind: PeerKind
  /** Whether this machine's membership holds, as far as its term goes. */
  readonly isTermLeft: () => boolean
}

/** A peer given by address alone. Who it is shows in hello; from then on it counts as reached while that peer is. */
export function addressTarget(text: string, options: TargetOptions): Target {
  const address = parsePeerAddress(text)
  let peerId = peerIdIn(address)
  return {
    key: text,
    isReached: () => peerId !== undefined && options.links.newest(peerId) !== undefined,
    version: () => (peerId === undefined ? 0 : options.whereabouts.versionOf(peerId)),
    connect: async (signal) => {
      const { whereabouts } = options
      if (peerId !== undefined) whereabouts.missing()
      // Who was there once may be elsewhere now; the address that was given comes first all the same.
      const elsewhere = peerId === undefined ? [] : whereabouts.candidates(peerId, [])
      const others = elsewhere.filter((other) => withoutPeerId(other) !== withoutPeerId(address))
      const link = await reach(options, [address, ...others], signal)
      peerId = link.facts.peerId
    },
  }
}

/**
 * A hub or an issuer, by its own process: for a node whose listener nobody reached, since it moved or came back elsewhere,
 * and for whoever has to hear what owners say. Those that are not running are tried ever more rarely; a new address of one
 * is tried at once. Whose own term is over is not to say hello to an issuer, which would turn it away for a minute: it asks
 * for another term.
 */
export function processTarget(
  wanted: { readonly machinePeerId: string; readonly peerId: string; readonly kind: PeerKind },
  options: TargetOptions,
): Target {
  const { links } = options
  const isIdle = (): boolean => wanted.kind === 'issuer' && !options.isTermLeft()
  const record = () => options.roster()?.entryOf(wanted.machinePeerId)?.records.get(wanted.peerId)?.body
  return {
    key: wanted.peerId,
    capMs: limits.redialHubCapMs,
    isReached: () => isIdle() || links.newest(wanted.peerId) !== undefined,
    version: () => (record()?.seq ?? 0) + options.whereabouts.versionOf(wanted.peerId),
    connect: async (signal) => {
      options.whereabouts.missing()
      await reach(options, options.whereabouts.candidates(wanted.peerId, record()?.addresses ?? []), signal)
    },
  }
}

/** Processes with which one stays in touch though it needs nothing of them now: a node with hubs, both with issuers. */
export function processesToStayWith(
  members: readonly RosterEntry[],
  self: PeerFacts,
): readonly { readonly machinePeerId: string; readonly peerId: string; readonly kind: PeerKind }[] {
  if (self.kind !== 'node' && self.kind !== 'hub') return []
  return members.flatMap(({ membership, records }) => {
    const { machinePeerId, roles } = membership.body
    return [...records].flatMap(([peerId, { body }]) => {
      const isHub = self.kind === 'node' && body.kind === 'hub' && roles.includes('hub')
      // The processes of one machine share what they know.
      const isOwner = body.kind === 'issuer' && roles.includes('owner') && machinePeerId !== self.machinePeerId
      return isHub || isOwner ? [{ machinePeerId, peerId, kind: body.kind }] : []
    })
  })
}

/** Which processes of a wanted machine count: a hub wants nodes; whoever has news for all, as a node that leaves, whoever is there. */
const wantedKinds: Record<PeerKind, readonly PeerKind[]> = {
  hub: ['node'],
  node: ['node', 'hub', 'issuer'],
  issuer: ['node', 'hub', 'issuer'],
  observer: ['node', 'hub', 'issuer'],
  cli: ['node', 'hub', 'issuer'],
}

/** A member, by its machine, at the addresses that the roster has. */
export function memberTarget(machinePeerId: string, options: TargetOptions): Target {
  const { links } = options
  const kinds = wantedKinds[options.ownKind]
  return {
    key: machinePeerId,
    isReached: () =>
      links.connected().some((facts) => facts.machinePeerId === machinePeerId && kinds.includes(facts.kind)),
    version: () => {
      const records = [...(options.roster()?.entryOf(machinePeerId)?.records.values() ?? [])]
      const newest = Math.max(0, ...records.map((record) => record.body.seq))
      const peerIds = new Set([machinePeerId, ...records.map((record) => record.body.peerId)])
      return [...peerIds].reduce((sum, peerId) => sum + options.whereabouts.versionOf(peerId), newest)
    },
    connect: async (signal) => {
      options.whereabouts.missing()
      const records = [...(options.roster()?.entryOf(machinePeerId)?.records.values() ?? [])]
        .filter(({ body }) => kinds.includes(body.kind))
        .sort((a, b) => b.body.seq - a.body.seq)
      const told = new Map(records.map(({ body }) => [body.peerId, body.addresses]))
      // A machine's node is known by the machine itself, also where nobody brought its record.
      if (kinds.includes('node') && !told.has(machinePeerId)) told.set(machinePeerId, [])
      await reachOne(
        options,
        [...told].map(([peerId, addresses]) => options.whereabouts.candidates(peerId, addresses)),
        signal,
      )
    },
  }
}

/**
 * Reaches one of several processes, all tried at once, so that those which are not there cost no time.
 *
 * @throws {NfltrError} the reason of the first that has one, with `details.addresses` of all
 */
async function reachOne(
  options: TargetOptions,
  processes: readonly (readonly Multiaddr[])[],
  signal: AbortSignal,
): Promise<void> {
  const found = new AbortController()
  const known = processes.filter((addresses) => addresses.length > 0)
  if (known.length === 0)
    throw new NfltrError('unreachable', 'No address of the machine is known.', { details: { addresses: [] } })
  try {
    await Promise.any(known.map((addresses) => reach(options, addresses, AbortSignal.any([signal, found.signal]))))
  } catch (error) {
    throw failureOf(error instanceof AggregateError ? error.errors : [error])
  } finally {
    found.abort()
  }
}

/** A refusal says more than that nobody was there. */
function failureOf(errors: readonly unknown[]): NfltrError {
  const failures = errors.map((error) =>
    error instanceof NfltrError ? error : new NfltrError('unreachable', String(error), { cause: error }),
  )
  const telling = failures.find(({ details }) => details['refused'] === true) ?? failures[0]
  const addresses = failures.flatMap(({ details }) => (Array.isArray(details['addresses']) ? details['addresses'] : []))
  const { code = 'unreachable', message = 'Nobody was reached.', hint, details } = telling ?? {}
  return new NfltrError(code, message, {
    cause: telling,
    details: { ...details, addresses },
    ...(hint === undefined ? {} : { hint }),
  })
}

/** Dials and waits for hello. @throws {NfltrError} as `dial`, or the reason why hello did not pass */
export async function reach(
  options: Pick<TargetOptions, 'host' | 'clock' | 'greeter' | 'whereabouts'>,
  addresses: readonly Multiaddr[],
  signal: AbortSignal,
): Promise<MemberLink> {
  const connection = await dial(options.host, addresses, {
    signal,
    clock: options.clock,
    onFailed: (address, { isLie }) => {
      const peerId = peerIdIn(address)
      if (peerId !== undefined) options.whereabouts.noteFailed(address, { peerId, isLie })
    },
  })
  return options.greeter.outcome(connection)
}

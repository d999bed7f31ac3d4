import type { Libp2p } from '@libp2p/interface'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { PeerKind } from '../core/membership.ts'
import { parsePeerAddress, peerIdIn, withPeerId } from './addresses.ts'
import { dial } from './dial.ts'
import type { Greeter } from './greeter.ts'
import type { Target } from './link-keeper.ts'
import type { MemberLink, MemberLinks } from './member-links.ts'
import type { Roster } from './roster.ts'

/** What targets need of the mesh they belong to. */
export interface TargetOptions {
  readonly host: Libp2p
  readonly greeter: Greeter
  readonly links: MemberLinks
  readonly roster: () => Roster | undefined
  readonly ownKind: PeerKind
}

/** A peer given by address alone. Who it is shows in hello; from then on it counts as reached while that peer is. */
export function addressTarget(text: string, options: TargetOptions): Target {
  const address = parsePeerAddress(text)
  let peerId = peerIdIn(address)
  return {
    key: text,
    isReached: () => peerId !== undefined && options.links.newest(peerId) !== undefined,
    connect: async (signal) => {
      const link = await reach(options, [address], signal)
      peerId = link.facts.peerId
    },
  }
}

/**
 * A hub, by its own process, for a node whose listener nobody reached: it moved, or it came back elsewhere. Hubs that are
 * not running are tried ever more rarely; a new address of one is tried at once.
 */
export function hubTarget(
  hub: { readonly machinePeerId: string; readonly peerId: string },
  options: TargetOptions,
): Target {
  const { links } = options
  const record = () => options.roster()?.entryOf(hub.machinePeerId)?.records.get(hub.peerId)?.body
  return {
    key: hub.peerId,
    capMs: limits.redialHubCapMs,
    isReached: () => links.newest(hub.peerId) !== undefined,
    version: () => record()?.seq ?? 0,
    connect: async (signal) => {
      const addresses = (record()?.addresses ?? []).slice(0, limits.addressesMax)
      await reach(
        options,
        addresses.map((text) => withPeerId(text, hub.peerId)),
        signal,
      )
    },
  }
}

/** Which processes of a wanted machine count: a hub wants nodes, a node hubs and owners, a command whoever is there. */
const wantedKinds: Record<PeerKind, readonly PeerKind[]> = {
  hub: ['node'],
  node: ['hub', 'issuer'],
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
      const records = options.roster()?.entryOf(machinePeerId)?.records.values() ?? []
      return Math.max(0, ...[...records].map((record) => record.body.seq))
    },
    connect: async (signal) => {
      const entry = options.roster()?.entryOf(machinePeerId)
      const records = [...(entry?.records.values() ?? [])]
        .filter(({ body }) => kinds.includes(body.kind))
        .sort((a, b) => b.body.seq - a.body.seq)
      let failure: NfltrError | undefined
      for (const { body } of records) {
        const addresses = body.addresses.slice(0, limits.addressesMax).map((text) => withPeerId(text, body.peerId))
        try {
          await reach(options, addresses, signal)
          return
        } catch (error) {
          failure = error instanceof NfltrError ? error : new NfltrError('unreachable', String(error), { cause: error })
        }
      }
      throw (
        failure ?? new NfltrError('unreachable', 'No address of the machine is known.', { details: { addresses: [] } })
      )
    },
  }
}

/** Dials and waits for hello. @throws {NfltrError} as `dial`, or the reason why hello did not pass */
export async function reach(
  options: Pick<TargetOptions, 'host' | 'greeter'>,
  addresses: Parameters<typeof dial>[1],
  signal: AbortSignal,
): Promise<MemberLink> {
  const connection = await dial(options.host, addresses, { signal })
  return options.greeter.outcome(connection)
}

import type { Connection, Libp2p } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { NfltrError } from '../core/errors.ts'

/**
 * Opens a connection to whoever answers first at some addresses of one peer. They are tried one after the other, this
 * machine and private networks first. A connection to the same PeerId that is up is returned instead.
 *
 * @throws {NfltrError} `unreachable` with every address tried; `bad_certificate` when another key answered than the
 *   address names; `own_peer_id` when it is this process itself
 */
export async function dial(
  host: Libp2p,
  addresses: readonly Multiaddr[],
  options: { readonly signal: AbortSignal },
): Promise<Connection> {
  const tried = addresses.map((address) => address.toString())
  if (tried.length === 0)
    throw new NfltrError('unreachable', 'No address of the peer is known.', { details: { addresses: [] } })
  try {
    return await host.dial([...addresses], { signal: options.signal })
  } catch (error) {
    throw dialError(error, tried)
  }
}

/** libp2p's errors are told apart by name and text: their classes exist in several copies, and some lose their cause. */
function dialError(error: unknown, tried: readonly string[]): NfltrError {
  const details = { addresses: tried }
  const all = flatten(error)
  if (all.some((one) => /dial self|own_peer_id|PeerId of this process/.test(one.message))) {
    return new NfltrError('own_peer_id', `The address ${tried.join(', ')} is this process itself.`, {
      details,
      cause: error,
    })
  }
  if (all.some((one) => /does not match expected remote identity key/.test(one.message))) {
    return new NfltrError('bad_certificate', `Another key answered at ${tried.join(', ')} than the address names.`, {
      details,
      cause: error,
      hint: 'The machine may have been set up anew, or something else listens there.',
    })
  }
  return new NfltrError('unreachable', `Nothing answered at ${tried.join(', ')}.`, {
    details,
    cause: error,
    hint: 'Check that nfltr runs there and that the port is open between the machines.',
  })
}

function flatten(error: unknown): readonly Error[] {
  if (error instanceof AggregateError) return error.errors.flatMap(flatten)
  if (error instanceof Error) return [error, ...(error.cause === undefined ? [] : flatten(error.cause))]
  return []
}

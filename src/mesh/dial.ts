import type { Connection, Libp2p } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { NfltrError } from '../core/errors.ts'
import type { Clock } from '../ports/clock.ts'

/** The longest that one address may take to answer, in milliseconds: what a stale one costs. */
export const addressDialTimeoutMs = 1_500

/** When libp2p itself gives an address up, in milliseconds: later, so that the bound above is the one that decides. */
export const addressDialBackstopMs: number = 4 * addressDialTimeoutMs

export interface DialOptions {
  readonly signal: AbortSignal
  readonly clock: Clock
  /** Told of each address at which the peer was not; `isLie` where another key answered. */
  readonly onFailed?: (address: Multiaddr, options: { readonly isLie: boolean }) => void
}

/**
 * Opens a connection to whoever answers first at some addresses of one peer. They are tried one after the other, in the order
 * given, each for 1.5 s at most. A connection to the same PeerId that is up is returned instead.
 *
 * @throws {NfltrError} `unreachable` with every address tried; `bad_certificate` when another key answered than the
 *   address names; `own_peer_id` when it is this process itself
 */
export async function dial(host: Libp2p, addresses: readonly Multiaddr[], options: DialOptions): Promise<Connection> {
  if (addresses.length === 0)
    throw new NfltrError('unreachable', 'No address of the peer is known.', { details: { addresses: [] } })
  const tried: string[] = []
  const errors: unknown[] = []
  for (const address of addresses) {
    if (options.signal.aborted) break
    tried.push(address.toString())
    const late = new AbortController()
    const timer = options.clock.after(addressDialTimeoutMs, () => late.abort(new Error('It did not answer in time.')))
    try {
      // One at a time: libp2p sorts what it is given by an order of its own, and takes a deadline for all of it.
      return await host.dial(address, { signal: AbortSignal.any([options.signal, late.signal]) })
    } catch (error) {
      errors.push(error)
      options.onFailed?.(address, { isLie: isAnotherKey(error) })
    } finally {
      timer.cancel()
    }
  }
  throw dialError(new AggregateError(errors), tried)
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
  if (all.some(isAnotherKey)) {
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

function isAnotherKey(error: unknown): boolean {
  return flatten(error).some((one) => /does not match expected remote identity key/.test(one.message))
}

function flatten(error: unknown): readonly Error[] {
  if (error instanceof AggregateError) return error.errors.flatMap(flatten)
  if (error instanceof Error) return [error, ...(error.cause === undefined ? [] : flatten(error.cause))]
  return []
}

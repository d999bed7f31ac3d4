import type { Connection, Libp2p } from '@libp2p/interface'
import { NfltrError } from '../core/errors.ts'
import type { Role } from '../core/membership.ts'
import type { Invite } from '../identity/invites.ts'
import type { Clock } from '../ports/clock.ts'
import type { Random } from '../ports/random.ts'
import { parsePeerAddress, peerIdIn, withPeerId } from './addresses.ts'
import { dial } from './dial.ts'
import { FrameStream } from './frame-stream.ts'
import { helloFrameMaxBytes } from './hello.ts'
import { type JoinedMembership, type JoinerFacts, joinProtocol, requestMembership } from './join.ts'
import { knockOnce, meetIssuer } from './knock.ts'

/** What a joiner says of itself. */
export interface JoinWish {
  /** The name it would like; the owner's choice in the invite goes before it. */
  readonly name?: string
  readonly os: string
  readonly arch: string
  /** Further addresses of the issuer, from `--peer`. */
  readonly peers?: readonly string[]
  readonly signal: AbortSignal
}

export interface JoinHostOptions {
  readonly host: Libp2p
  readonly clock: Clock
  readonly random: Random
  readonly ownPeerId: string
  readonly softwareVersion: string
  /** Signs this process's addresses for the mesh of the invite. */
  readonly signAddresses: (meshId: string) => Promise<Uint8Array>
}

export interface JoinedMesh {
  readonly own: JoinedMembership
  /** Still up: the new member says hello on it. */
  readonly connection: Connection
}

/**
 * Redeems an invite with its issuer.
 *
 * @throws {NfltrError} `unreachable` with the addresses tried; `invite_used` with `used_by` and `used_at_ms`;
 *   `invite_expired`, `invite_invalid`, `wrong_mesh`, `name_taken` and others as the issuer says
 */
export async function joinMesh(invite: Invite, wish: JoinWish, options: JoinHostOptions): Promise<JoinedMesh> {
  const addresses = [
    ...(wish.peers ?? []).map((text) => parsePeerAddress(text)),
    ...invite.addresses.map(parsePeerAddress),
  ]
    .filter((address) => (peerIdIn(address) ?? invite.issuerPeerId) === invite.issuerPeerId)
    .map((address) => withPeerId(address.toString(), invite.issuerPeerId))
  let connection: Connection
  try {
    connection = await dial(options.host, addresses, { signal: wish.signal, clock: options.clock })
  } catch (error) {
    // An invite that is over is no reason to look for the issuer's port.
    if (options.clock.wallMs() > invite.expiresAtMs) throw expired(invite, error)
    throw error
  }
  const addressRecord = await options.signAddresses(invite.meshId)
  const own = await converse(connection, options, (frames) =>
    requestMembership(frames, { ...factsOf(connection, wish, options), invite, addressRecord }),
  )
  return { own, connection }
}

/** Whom a machine without an invite asks, and what it knows of the mesh that it means. */
export interface Knock extends Omit<JoinWish, 'peers'> {
  /** An address of the issuer, with or without its PeerId. */
  readonly address: string
  readonly roles: readonly Role[]
  readonly accepts: (meshId: string) => boolean
}

/**
 * Asks once, without an invite, to be let in.
 *
 * @throws {NfltrError} `knock_pending` while no owner has answered; `knock_denied`; `wrong_mesh`; `unreachable`
 */
export async function knockAt(knock: Knock, options: JoinHostOptions): Promise<JoinedMesh> {
  const connection = await dial(options.host, [parsePeerAddress(knock.address)], {
    signal: knock.signal,
    clock: options.clock,
  })
  const own = await converse(connection, options, (frames) =>
    knockOnce(frames, {
      ...factsOf(connection, knock, options),
      accepts: knock.accepts,
      rolesWanted: knock.roles,
      addressRecordFor: options.signAddresses,
    }),
  )
  return { own, connection }
}

export type MeshAtAddress = Pick<JoinWish, 'os' | 'arch' | 'signal'> & { readonly address: string }

/**
 * Asks who issues at an address, and says nothing of this machine but its key.
 *
 * @returns the mesh whose issuer proved itself there
 * @throws {NfltrError} `unreachable`, or why the issuer is not what it says
 */
export async function meshAt(at: MeshAtAddress, options: JoinHostOptions): Promise<string> {
  const connection = await dial(options.host, [parsePeerAddress(at.address)], {
    signal: at.signal,
    clock: options.clock,
  })
  const { meshId } = await converse(connection, options, (frames) =>
    meetIssuer(frames, factsOf(connection, at, options)),
  )
  connection.abort(new Error('the mesh is known'))
  return meshId
}

/** Runs the joiner's half on a stream of its own; what fails takes the connection with it. */
async function converse<T>(
  connection: Connection,
  options: JoinHostOptions,
  talk: (frames: FrameStream) => Promise<T>,
): Promise<T> {
  const frames = await openJoin(connection, options)
  try {
    const found = await talk(frames)
    frames.close()
    return found
  } catch (error) {
    frames.close()
    await frames.closed
    connection.abort(new Error('the join ended'))
    throw error
  }
}

function factsOf(
  connection: Connection,
  wish: Pick<JoinWish, 'name' | 'os' | 'arch'>,
  options: JoinHostOptions,
): JoinerFacts {
  return {
    joinerPeerId: options.ownPeerId,
    issuerPeerId: connection.remotePeer.toString(),
    ...(wish.name === undefined ? {} : { nameWanted: wish.name }),
    softwareVersion: options.softwareVersion,
    os: wish.os,
    arch: wish.arch,
    random: options.random,
    wallMs: () => options.clock.wallMs(),
  }
}

async function openJoin(connection: Connection, options: JoinHostOptions): Promise<FrameStream> {
  try {
    const stream = await connection.newStream(joinProtocol)
    return new FrameStream(stream, { clock: options.clock, frameMaxBytes: helloFrameMaxBytes })
  } catch (cause) {
    connection.abort(new Error('no issuer there'))
    throw new NfltrError('unreachable', `The process at ${connection.remoteAddr.toString()} did not take joiners.`, {
      cause,
      details: { addresses: [connection.remoteAddr.toString()] },
      hint: 'Keep `nfltr mesh invite` or `nfltr mesh serve` running on the owner’s machine while this one joins.',
    })
  }
}

function expired(invite: Invite, cause: unknown): NfltrError {
  return new NfltrError('invite_expired', `The invite expired at ${new Date(invite.expiresAtMs).toISOString()}.`, {
    cause,
    hint: 'Ask for a new invite.',
    details: { expires_at_ms: invite.expiresAtMs },
  })
}

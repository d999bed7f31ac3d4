import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { isMachineName, type Membership } from '../core/membership.ts'
import type { InviteRecord, IssuerBook } from '../ports/home.ts'
import { openMembership, signMembership } from './envelopes.ts'
import { fingerprintOf, type PrivateKey, peerIdOf } from './keys.ts'

export interface JoinRequest {
  readonly inviteId: string
  /** PeerId that Noise proved for the joiner: its machine's. */
  readonly joinerPeerId: string
  /** A wish; the name that an owner chose for the invite goes first, and a name that is taken gets a number. */
  readonly nameWanted?: string
  readonly nowMs: number
}

export interface Issued {
  readonly envelope: Uint8Array
  readonly membership: Membership
}

/**
 * Turns an invite into a membership (rule 12): claims it durably, then signs. Call it while the issuer's lock is held,
 * and only after the joiner's proof was checked. Repeated by the same joiner, at whatever point the first call was cut
 * off, it gives one and the same membership.
 *
 * @throws {NfltrError} `invite_used`, `invite_expired`, `invite_invalid`, `name_taken`
 */
export function issueMembership(book: IssuerBook, meshKey: PrivateKey, request: JoinRequest): Promise<Issued> {
  // One after the other: a joiner that asks twice at once must not get two memberships.
  const issued = (turns.get(book) ?? Promise.resolve()).then(() => issue(book, meshKey, request))
  turns.set(
    book,
    issued.catch(() => undefined),
  )
  return issued
}

const turns = new WeakMap<IssuerBook, Promise<unknown>>()

async function issue(book: IssuerBook, meshKey: PrivateKey, request: JoinRequest): Promise<Issued> {
  const { inviteId, joinerPeerId, nowMs } = request
  const meshId = peerIdOf(meshKey)
  const claim = await book.claim({ inviteId, peerId: joinerPeerId, fingerprint: fingerprintOf(joinerPeerId), nowMs })
  if (claim.membership !== undefined) {
    return { envelope: claim.membership, membership: await openMembership(claim.membership, { meshId }) }
  }
  const invite = await book.findInvite(inviteId)
  if (invite === undefined) {
    throw new NfltrError('invite_invalid', 'The invite was forgotten before its membership was made.', {
      hint: 'Ask for a new invite.',
    })
  }
  const membership: Membership = {
    meshId,
    issuerId: meshId,
    machinePeerId: joinerPeerId,
    name: await nameFor(book, invite, request),
    roles: invite.roles,
    issuedAtMs: nowMs,
    expiresAtMs: nowMs + limits.membershipTermMs,
    serial: await book.nextSerial(),
  }
  const envelope = await signMembership(meshKey, membership)
  await book.settleClaim(claim, envelope)
  return { envelope, membership }
}

async function nameFor(book: IssuerBook, invite: InviteRecord, request: JoinRequest): Promise<string> {
  const { joinerPeerId, nameWanted } = request
  const chosen = invite.name ?? invite.replaces
  if (chosen !== undefined) {
    const owner = invite.replaces === chosen ? await book.ownerOfName(chosen) : undefined
    await book.takeName(chosen, joinerPeerId, owner === undefined ? {} : { replaces: owner })
    return chosen
  }
  const wanted = nameWanted !== undefined && isMachineName(nameWanted) ? nameWanted : 'machine'
  for (let count = 1; count <= namesTriedMax; count++) {
    const suffix = count === 1 ? '' : `-${count}`
    const name = `${wanted.slice(0, limits.nameMaxBytes - suffix.length)}${suffix}`
    if (await isFree(book, { name, peerId: joinerPeerId })) return name
  }
  throw new NfltrError('name_taken', `${namesTriedMax} machines are called ${wanted} already.`, {
    hint: 'Join with another --name.',
    details: { name: wanted },
  })
}

const namesTriedMax = 1000

async function isFree(book: IssuerBook, wish: { name: string; peerId: string }): Promise<boolean> {
  try {
    await book.takeName(wish.name, wish.peerId)
    return true
  } catch (error) {
    if (error instanceof NfltrError && error.code === 'name_taken') return false
    throw error
  }
}

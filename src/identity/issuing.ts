import { NfltrError } from '../core/errors.ts'
import { isMachineName } from '../core/membership.ts'
import type { InviteRecord, IssuerBook } from '../ports/home.ts'
import { type Issued, signNew } from './admission.ts'
import { openMembership } from './envelopes.ts'
import { type IssuerKey, issuersOf } from './issuer-key.ts'
import { fingerprintOf } from './keys.ts'

export interface JoinRequest {
  readonly inviteId: string
  /** PeerId that Noise proved for the joiner: its machine's. */
  readonly joinerPeerId: string
  /** A wish: the name that the owner chose for the invite goes first. */
  readonly nameWanted?: string | undefined
  readonly nowMs: number
  /** The highest serial that is known of other issuers; the new one is above it. */
  readonly serialAbove?: number
  /** The live member that has a name, whoever let it in; beside what this book knows. */
  readonly holderOf?: (name: string) => string | undefined
  /** Whether a machine that has a name in this book is out of the mesh: its name is free. */
  readonly isOut?: (machinePeerId: string) => boolean
  /** Voids the memberships that the replaced machine has so far. Before the new one is signed. */
  readonly retire?: (machinePeerId: string) => Promise<void>
}

/**
 * Turns an invite into a membership (rule 12): claims it durably, then signs. Call it while the issuer's lock is held,
 * and only after the joiner's proof was checked. Repeated by the same joiner, at whatever point the first call was cut
 * off, it gives one and the same membership.
 *
 * @throws {NfltrError} `invite_used`, `invite_expired`, `invite_invalid`; `name_taken`, `invalid_argument` before the invite
 *   is used
 */
export function issueMembership(book: IssuerBook, signer: IssuerKey, request: JoinRequest): Promise<Issued> {
  // One after the other: a joiner that asks twice at once must not get two memberships.
  const issued = (turns.get(book) ?? Promise.resolve()).then(() => issue(book, signer, request))
  turns.set(
    book,
    issued.catch(() => undefined),
  )
  return issued
}

const turns = new WeakMap<IssuerBook, Promise<unknown>>()

async function issue(book: IssuerBook, signer: IssuerKey, request: JoinRequest): Promise<Issued> {
  const { inviteId, joinerPeerId, nowMs } = request
  const invite = await book.findInvite(inviteId)
  // Before the claim, so that a name which cannot be had does not cost the invite.
  const isOpen = invite !== undefined && invite.expiresAtMs >= nowMs && (await book.findClaim(inviteId)) === undefined
  if (isOpen) await checkName(book, invite, request)
  const claim = await book.claim({ inviteId, peerId: joinerPeerId, fingerprint: fingerprintOf(joinerPeerId), nowMs })
  if (claim.membership !== undefined) {
    return { envelope: claim.membership, membership: await openMembership(claim.membership, issuersOf(signer)) }
  }
  if (invite === undefined) {
    throw new NfltrError('invite_invalid', 'The invite was forgotten before its membership was made.', {
      hint: 'Ask for a new invite.',
    })
  }
  const { name, replaces } = await checkName(book, invite, request)
  // Before the name changes hands: a crash in between finds the old holder again.
  if (replaces !== undefined) await request.retire?.(replaces)
  await book.takeName(name, joinerPeerId, replaces === undefined ? {} : { replaces })
  const issued = await signNew(book, signer, {
    machinePeerId: joinerPeerId,
    name,
    roles: invite.roles,
    nowMs,
    ...(request.serialAbove === undefined ? {} : { serialAbove: request.serialAbove }),
  })
  await book.settleClaim(claim, issued.envelope)
  return issued
}

/** The name that the joiner gets, and the machine that it takes it from where the owner said so. */
async function checkName(
  book: IssuerBook,
  invite: InviteRecord,
  request: JoinRequest,
): Promise<{ name: string; replaces: string | undefined }> {
  const name = invite.name ?? invite.replaces ?? request.nameWanted ?? ''
  if (!isMachineName(name)) {
    throw new NfltrError('invalid_argument', `${JSON.stringify(name.slice(0, 80))} cannot be a machine's name.`, {
      hint: 'Choose one with --name: 1 to 63 of a-z, 0-9 and -.',
      details: { argument: '--name' },
    })
  }
  const holder = async (wanted: string): Promise<string | undefined> =>
    (await book.ownerOfName(wanted)) ?? request.holderOf?.(wanted)
  const owner = await holder(name)
  const isFree = owner !== undefined && request.isOut?.(owner) === true
  const replaces = invite.replaces === undefined ? (isFree ? owner : undefined) : await holder(invite.replaces)
  const others = [owner, request.holderOf?.(name)].filter((one) => one !== undefined && !isFree)
  if (others.some((one) => one !== request.joinerPeerId && one !== replaces)) {
    throw new NfltrError('name_taken', `The name ${name} belongs to another machine of the mesh.`, {
      hint: 'Choose another with --name.',
      details: { name },
    })
  }
  return { name, replaces }
}

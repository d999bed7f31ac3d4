import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Membership, Role } from '../core/membership.ts'
import type { IssuerBook, KnockAnswer } from '../ports/home.ts'
import { openMembership, signMembership } from './envelopes.ts'
import { type IssuerKey, issuersOf } from './issuer-key.ts'

export interface Issued {
  readonly envelope: Uint8Array
  readonly membership: Membership
}

/** What a new membership says, but who signs it and its number. */
export interface NewMember {
  readonly machinePeerId: string
  readonly name: string
  readonly roles: readonly Role[]
  readonly nowMs: number
  /** The highest serial that is known of other issuers; the new one is above it. */
  readonly serialAbove?: number
  /** Since when the machine has this name, where it had it before. */
  readonly namedAtMs?: number
}

/** Signs a membership of a full term under a serial of its own. */
export async function signNew(book: IssuerBook, signer: IssuerKey, member: NewMember): Promise<Issued> {
  const { machinePeerId, name, roles, nowMs, serialAbove, namedAtMs } = member
  const membership: Membership = {
    meshId: signer.meshId,
    issuerId: signer.issuerId,
    machinePeerId,
    name,
    roles,
    issuedAtMs: nowMs,
    expiresAtMs: nowMs + limits.membershipTermMs,
    serial: await book.nextSerial(serialAbove),
    ...(namedAtMs === undefined ? {} : { namedAtMs }),
  }
  return { envelope: await signMembership(signer.key, membership), membership }
}

/**
 * Lets in a machine whose knock an owner approved: with the roles and the name of the approval, whatever the machine itself
 * asked for (rule 14). The same machine gets the same membership again.
 *
 * @throws {NfltrError} `knock_denied`; `name_taken` where another machine got the name meanwhile
 */
export async function admitKnocker(
  book: IssuerBook,
  signer: IssuerKey,
  given: { readonly answer: KnockAnswer; readonly nowMs: number; readonly serialAbove?: number },
): Promise<Issued> {
  const { answer, ...when } = given
  if (!answer.isApproved) throw new NfltrError('knock_denied', 'The owner of the mesh did not let this machine in.')
  if (answer.membership !== undefined) {
    const membership = await openMembership(answer.membership, issuersOf(signer))
    return { envelope: answer.membership, membership }
  }
  await book.takeName(answer.name, answer.peerId)
  const { peerId: machinePeerId, name, roles } = answer
  const issued = await signNew(book, signer, { machinePeerId, name, roles, ...when })
  await book.answerKnock({ ...answer, membership: issued.envelope })
  return issued
}

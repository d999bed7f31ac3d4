import { NfltrError } from '../core/errors.ts'
import { type Membership, mayRenew, type Role } from '../core/membership.ts'
import type { IssuerBook } from '../ports/home.ts'
import { type Issued, signNew } from './admission.ts'
import type { IssuerKey } from './issuer-key.ts'

/**
 * Signs a new term for a member, with its name and its roles, or with others where an owner says so. The caller has made
 * sure that it was not revoked.
 *
 * @throws {NfltrError} `name_taken` where the name has gone to another machine; `membership_expired` where it is over for so
 *   long that the machine has to be invited again
 */
export async function renewMembership(
  book: IssuerBook,
  signer: IssuerKey,
  renewal: {
    readonly membership: Membership
    readonly roles?: readonly Role[]
    readonly nowMs: number
    readonly serialAbove: number
  },
): Promise<Issued> {
  const { membership, nowMs, serialAbove } = renewal
  const { machinePeerId, name } = membership
  if (!mayRenew(membership, nowMs)) {
    throw new NfltrError('membership_expired', `The membership of ${name} expired too long ago to be renewed.`, {
      hint: `Invite the machine anew: nfltr mesh invite --replace ${name}`,
    })
  }
  await book.takeName(name, machinePeerId)
  const roles = renewal.roles ?? membership.roles
  const namedAtMs = membership.namedAtMs ?? membership.issuedAtMs
  return await signNew(book, signer, { machinePeerId, name, roles, nowMs, serialAbove, namedAtMs })
}

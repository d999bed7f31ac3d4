import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { clockToleranceMs } from '../core/membership.ts'
import { signRevocations } from '../identity/envelopes.ts'
import type { IssuerKey } from '../identity/issuer-key.ts'
import type { IssuerBook } from '../ports/home.ts'
import type { Revocation } from '../wire/record-codec.ts'
import type { Trust } from './trust.ts'

export interface Revoker {
  readonly trust: Trust
  readonly book: Pick<IssuerBook, 'whileRevoking'>
  readonly signer: IssuerKey
  readonly nowMs: number
}

/** For as long as a membership that an entry voids could be valid, or be renewed. */
const entryKeptMs = limits.membershipTermMs + limits.renewAfterExpiryMs + 2 * clockToleranceMs

/**
 * Publishes this issuer's next list, with these entries added, as of now unless they say since when. It holds here, and is on
 * disk, when it resolves; where it goes from here is the roster's work. Entries are forgotten once no membership that they void
 * can be valid or be renewed any more.
 *
 * @returns the list's version
 * @throws {NfltrError} `revoked` where this issuer itself may sign no more; `key_held`
 */
export function revoke(
  revoker: Revoker,
  added: readonly (Omit<Revocation, 'atMs'> & Partial<Pick<Revocation, 'atMs'>>)[],
): Promise<number> {
  const { trust, book, signer, nowMs } = revoker
  return book.whileRevoking(async () => {
    // Another process of this home may have published since.
    await trust.reload()
    const own = trust.listOf(signer.issuerId)
    const entries = new Map<string, Revocation>()
    for (const entry of [...own.entries, ...added.map((one) => ({ atMs: nowMs, ...one }))]) {
      if (entry.atMs < nowMs - entryKeptMs) continue
      const known = entries.get(entry.peerId)
      if (known === undefined || known.serial <= entry.serial) entries.set(entry.peerId, entry)
    }
    const version = own.version + 1
    const { meshId, issuerId, key } = signer
    const envelope = await signRevocations(key, { meshId, issuerId, version, entries: [...entries.values()] })
    await trust.takeLists([envelope])
    if (trust.listOf(issuerId).version === version) return version
    throw new NfltrError('revoked', 'This machine may sign for the mesh no more: its own certificate was revoked.')
  })
}

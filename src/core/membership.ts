import { limits } from './limits.ts'

/**
 * Who belongs to the mesh and what each member may be. Pure: signatures are checked by `identity`, which hands over
 * only what a valid signature covers.
 */
export const roles = ['node', 'hub', 'observer', 'owner'] as const

/** What a membership allows a machine to be. No role implies another (rule 10). */
export type Role = (typeof roles)[number]

export const peerKinds = ['node', 'hub', 'issuer', 'cli', 'observer'] as const

/** What a process is. A node is its machine; every other kind is a process with a certificate of its own. */
export type PeerKind = (typeof peerKinds)[number]

/** What a membership envelope says, once its signature was checked. Times are wall-clock milliseconds since 1970. */
export interface Membership {
  readonly meshId: string
  readonly issuerId: string
  readonly machinePeerId: string
  readonly name: string
  readonly roles: readonly Role[]
  readonly issuedAtMs: number
  readonly expiresAtMs: number
  readonly serial: number
  /** Since when the machine has its name; absent: since `issuedAtMs`. */
  readonly namedAtMs?: number
}

/** What a process certificate says, once its signature was checked. */
export interface ProcessCertificate {
  readonly meshId: string
  readonly machinePeerId: string
  readonly processPeerId: string
  readonly kind: PeerKind
  readonly hubId?: string
  readonly issuedAtMs: number
  readonly expiresAtMs: number
}

export interface Claimant {
  /** The PeerId that Noise proved: `connection.remotePeer`, never one from a payload. */
  readonly remotePeerId: string
  readonly ownPeerId: string
  readonly meshId: string
  readonly membership: Membership
  readonly certificate?: ProcessCertificate
  readonly claimedKind: PeerKind
  readonly claimedHubId?: string
  /** Wall clock, already held up to the newest verified issue time seen (rule 16). */
  readonly wallMs: number
}

export type MembershipRefusal = 'own_peer_id' | 'wrong_mesh' | 'membership_expired' | 'bad_certificate' | 'wrong_role'

/** Tolerance for clocks that differ, in milliseconds. @see docs/reference/limits.md */
export const clockToleranceMs = 10 * 60_000

/** The longest a process certificate may live, in milliseconds: 30 days. */
export const certificateMaxMs = 30 * 24 * 3_600_000

const roleOfKind: Record<PeerKind, Role | undefined> = {
  node: 'node',
  hub: 'hub',
  issuer: 'owner',
  observer: 'observer',
  cli: undefined,
}

/**
 * Decides whether a peer is what it claims to be. Signatures and revocations were checked before; this checks what they say
 * against the connection, the clock and each other, in the order of the protocol.
 *
 * @returns the first reason to refuse, or `undefined` when the peer is welcome
 * @see docs/reference/wire.md, hello
 */
export function judgeClaimant(claimant: Claimant): MembershipRefusal | undefined {
  const { membership, certificate, wallMs } = claimant
  if (claimant.remotePeerId === claimant.ownPeerId) return 'own_peer_id'
  if (membership.meshId !== claimant.meshId) return 'wrong_mesh'
  if (!isWithin(membership, wallMs)) return 'membership_expired'
  if (claimant.claimedKind === 'node') {
    if (certificate !== undefined || membership.machinePeerId !== claimant.remotePeerId) return 'bad_certificate'
  } else {
    if (certificate === undefined || !certificateFits(claimant, certificate)) return 'bad_certificate'
  }
  const needed = roleOfKind[claimant.claimedKind]
  if (needed !== undefined && !membership.roles.includes(needed)) return 'wrong_role'
  return undefined
}

function certificateFits(claimant: Claimant, certificate: ProcessCertificate): boolean {
  return (
    certificate.meshId === claimant.meshId &&
    certificate.machinePeerId === claimant.membership.machinePeerId &&
    certificate.processPeerId === claimant.remotePeerId &&
    certificate.kind === claimant.claimedKind &&
    certificate.hubId === claimant.claimedHubId &&
    (certificate.kind !== 'hub' || certificate.hubId !== undefined) &&
    certificate.expiresAtMs - certificate.issuedAtMs <= certificateMaxMs &&
    isWithin(certificate, claimant.wallMs)
  )
}

/** Whether a term covers an instant, with the tolerance for clocks that differ. */
export function isWithin(term: { readonly issuedAtMs: number; readonly expiresAtMs: number }, wallMs: number): boolean {
  return wallMs >= term.issuedAtMs - clockToleranceMs && wallMs <= term.expiresAtMs + clockToleranceMs
}

/** Whether the last third of a term has begun: from then on it is renewed (rule 16). */
export function isDueForRenewal(
  term: { readonly issuedAtMs: number; readonly expiresAtMs: number },
  wallMs: number,
): boolean {
  return wallMs >= term.issuedAtMs + ((term.expiresAtMs - term.issuedAtMs) * 2) / 3
}

/** Whether a membership, over or not, may still be renewed. Revocations are remembered for as long. */
export function mayRenew(term: { readonly expiresAtMs: number }, wallMs: number): boolean {
  return wallMs <= term.expiresAtMs + limits.renewAfterExpiryMs
}

/** Whether a machine that is known may not be this any more: it was revoked, or its newest membership says otherwise. */
export function isGoneFor(
  role: Role,
  member: { readonly roles: readonly Role[]; readonly revokedAtMs?: number },
): boolean {
  return member.revokedAtMs !== undefined || !member.roles.includes(role)
}

/** A machine that has a name, as the order of those that share one needs it. */
export type Named = Pick<Membership, 'machinePeerId' | 'issuedAtMs' | 'namedAtMs'>

/**
 * Orders machines that share a name, which two owners that do not hear of each other may give: it belongs to the one that has
 * had it longest, and among those to the lower PeerId (rule 17). The same everywhere, and a renewal changes nothing of it.
 */
export function byHolder(a: Named, b: Named): number {
  const byAge = (a.namedAtMs ?? a.issuedAtMs) - (b.namedAtMs ?? b.issuedAtMs)
  if (byAge !== 0) return byAge
  return a.machinePeerId < b.machinePeerId ? -1 : a.machinePeerId === b.machinePeerId ? 0 : 1
}

/** Why a machine that is known is no node or hub any more, in words. */
export function whyGone(member: { readonly revokedAtMs?: number; readonly hasLeft?: boolean } | undefined): string {
  if (member?.hasLeft === true) return 'it left'
  return member?.revokedAtMs === undefined ? 'its membership says otherwise' : 'an owner revoked it'
}

const namePattern = /^[a-z0-9-]{1,63}$/

/** Whether a text may be a machine's name (rule 14). */
export function isMachineName(text: string): boolean {
  return namePattern.test(text)
}

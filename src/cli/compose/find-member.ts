import { NfltrError } from '../../core/errors.ts'
import { fingerprintOf } from '../../identity/keys.ts'
import type { MemberFacts } from '../../ports/peers.ts'

/** The fewest hex digits of a fingerprint that name a machine. */
const fingerprintDigitsMin = 8

/**
 * The one member that a person means: by its name, or by at least 8 hex digits of its fingerprint.
 *
 * @throws {NfltrError} `not_found`; `invalid_argument` where several members fit
 */
export function findMember(members: readonly MemberFacts[], text: string): MemberFacts {
  const named = members.filter((member) => member.name === text)
  const live = named.filter((member) => member.revokedAtMs === undefined)
  const found = live.length > 0 ? live : named.length > 0 ? named : byFingerprint(members, text)
  const [only] = found
  if (only === undefined) {
    throw new NfltrError('not_found', `No member is called ${text}.`, {
      hint: 'nfltr mesh members shows names and fingerprints.',
      details: { argument: 'name' },
    })
  }
  if (found.length === 1) return only
  throw new NfltrError('invalid_argument', `${found.length} members fit ${text}.`, {
    hint: 'Name it by its fingerprint, from nfltr mesh members.',
    details: { argument: 'name', fingerprints: found.map((member) => fingerprintOf(member.machinePeerId)) },
  })
}

function byFingerprint(members: readonly MemberFacts[], text: string): readonly MemberFacts[] {
  const digits = text.replace(/^sha256:/i, '').toLowerCase()
  if (!/^[0-9a-f]+$/.test(digits) || digits.length < fingerprintDigitsMin) return []
  return members.filter((member) => fingerprintOf(member.machinePeerId).toLowerCase().startsWith(`sha256:${digits}`))
}

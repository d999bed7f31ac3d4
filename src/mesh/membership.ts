import { NfltrError } from '../core/errors.ts'
import { signDeparture } from '../identity/envelopes.ts'
import type { PrivateKey } from '../identity/keys.ts'
import type { MemberFacts } from '../ports/peers.ts'
import type { OwnPlace } from './own-place.ts'
import { factsOfMember } from './roster.ts'

/** Every member that the roster knows, with what became of its membership. */
export function memberFacts({ roster, trust }: OwnPlace): readonly MemberFacts[] {
  return (roster?.entries() ?? []).map((entry) => {
    const facts = factsOfMember(entry)
    const { machinePeerId, serial } = entry.membership.body
    const left = trust?.departureOf(machinePeerId, serial)
    if (left !== undefined) return { ...facts, revokedAtMs: left.atMs, hasLeft: true }
    const revoked = trust?.revocationOf(machinePeerId, serial)
    return revoked === undefined ? facts : { ...facts, revokedAtMs: revoked.atMs }
  })
}

/** Whether a machine that is known was revoked or has left. */
export function isOut({ roster, trust }: OwnPlace, machinePeerId: string): boolean {
  const serial = roster?.entryOf(machinePeerId)?.membership.body.serial
  if (serial === undefined || trust === undefined) return false
  return (
    trust.revocationOf(machinePeerId, serial) !== undefined || trust.departureOf(machinePeerId, serial) !== undefined
  )
}

/**
 * Gives this machine's membership up, for good. Holds, and is on disk, when it resolves.
 *
 * @returns the serial up to which its memberships are void
 * @throws {NfltrError} `no_mesh`
 */
export async function depart(place: OwnPlace, machineKey: PrivateKey): Promise<number> {
  const { roster, trust, standing } = place
  const own = standing?.body
  if (own === undefined || trust === undefined) {
    throw new NfltrError('no_mesh', 'This machine belongs to no mesh.')
  }
  const { meshId, machinePeerId } = own
  const serial = Math.max(own.serial, roster?.entryOf(machinePeerId)?.membership.body.serial ?? 0)
  await trust.takeDepartures(
    [await signDeparture(machineKey, { meshId, machinePeerId, serial, atMs: place.wallMs() })],
    () => true,
  )
  return trust.departedSerial(machinePeerId)
}

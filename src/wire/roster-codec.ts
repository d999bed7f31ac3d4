import { unreachable } from '../core/errors.ts'
import { decodeMessage, encodeMessage, filled, invalid, wide } from './codec.ts'
import { RosterMessageSchema } from './generated/rev1/handshake_pb.ts'
import { fromVersion, type RevocationVersion, toVersion } from './handshake-codec.ts'

/** What one side of a roster exchange has, so that the other sends only what is missing. */
export interface RosterDigest {
  readonly type: 'digest'
  readonly entries: readonly RosterDigestEntry[]
  readonly revocationVersions: readonly RevocationVersion[]
}

export interface RosterDigestEntry {
  readonly peerId: string
  readonly serial: number
  /** 0 where no address record is known. */
  readonly addressSeq: number
  /** Of the machine's newest departure; absent where none is known. */
  readonly departedSerial?: number
}

/** A page of what the other lacks. Everything in it is signed and proves itself. */
export interface RosterPush {
  readonly type: 'push'
  readonly members: readonly RosterMember[]
  readonly revocations: readonly Uint8Array[]
  readonly issuerCertificates: readonly Uint8Array[]
  /** Of members that left by themselves. */
  readonly departures: readonly Uint8Array[]
  /** Which keys of the mesh took the place of which. */
  readonly successions: readonly Uint8Array[]
  readonly isLast: boolean
}

export interface RosterMember {
  readonly membership: Uint8Array
  readonly addressRecords: readonly Uint8Array[]
}

export type RosterMessage = RosterDigest | RosterPush

/** Bytes of one roster message; a revocation list in it may take most of that. */
export const rosterMessageMaxBytes = 2 * 1024 * 1024

/** Members in one page, so that a page fits into a message whatever its members hold. */
export const rosterPageMembers = 64

/** @throws {NfltrError} `frame_too_large`, `invalid_frame` */
export function encodeRoster(message: RosterMessage): Uint8Array {
  switch (message.type) {
    case 'digest': {
      const entries = message.entries.map(({ peerId, serial, addressSeq, departedSerial = 0 }) => ({
        peerId,
        serial: wide(serial),
        addressSeq: wide(addressSeq),
        departedSerial: wide(departedSerial),
      }))
      const revocationVersions = message.revocationVersions.map(toVersion)
      const kind = { case: 'digest', value: { entries, revocationVersions } } as const
      return encodeMessage(RosterMessageSchema, { kind }, rosterMessageMaxBytes)
    }
    case 'push': {
      const value = {
        members: message.members.map(({ membership, addressRecords }) => ({
          membership,
          addressRecords: [...addressRecords],
        })),
        revocations: [...message.revocations],
        issuerCertificates: [...message.issuerCertificates],
        departures: [...message.departures],
        successions: [...message.successions],
        isLast: message.isLast,
      }
      return encodeMessage(RosterMessageSchema, { kind: { case: 'push', value } }, rosterMessageMaxBytes)
    }
    default:
      return unreachable(message)
  }
}

/** @throws {NfltrError} `frame_too_large`, `invalid_frame`; nothing else */
export function decodeRoster(bytes: Uint8Array): RosterMessage {
  const { kind } = decodeMessage(RosterMessageSchema, bytes, rosterMessageMaxBytes)
  switch (kind.case) {
    case 'digest':
      return {
        type: 'digest',
        entries: kind.value.entries.map(({ peerId, serial, addressSeq, departedSerial }) => ({
          peerId: filled(peerId, 'peer_id'),
          serial: Number(serial),
          addressSeq: Number(addressSeq),
          ...(departedSerial === 0n ? {} : { departedSerial: Number(departedSerial) }),
        })),
        revocationVersions: kind.value.revocationVersions.map(fromVersion),
      }
    case 'push':
      return {
        type: 'push',
        members: kind.value.members.map(({ membership, addressRecords }) => ({
          membership: filled(membership, 'membership'),
          addressRecords,
        })),
        revocations: kind.value.revocations,
        issuerCertificates: kind.value.issuerCertificates,
        departures: kind.value.departures,
        successions: kind.value.successions,
        isLast: kind.value.isLast,
      }
    case undefined:
      throw invalid('its kind is not known')
    default:
      return unreachable(kind)
  }
}

import { limits } from '../core/limits.ts'
import {
  isMachineName,
  type Membership,
  type PeerKind,
  type ProcessCertificate,
  peerKinds,
  type Role,
  roles,
} from '../core/membership.ts'
import { outcomes, reasons } from '../core/model.ts'
import type { ReceiptBody } from '../core/receipt.ts'
import {
  decodeMessage,
  defined,
  encodeMessage,
  filled,
  invalid,
  oneOf,
  optionalNumber,
  optionalOneOf,
  optionalWide,
  wide,
} from './codec.ts'
import {
  AddressRecordSchema,
  DepartureSchema,
  InviteSchema,
  IssuerCertificateSchema,
  MembershipSchema,
  ProcessCertificateSchema,
  ReceiptBodySchema,
  RevocationsSchema,
  SuccessionSchema,
} from './generated/rev1/records_pb.ts'

/** Lets a further owner's key sign memberships; signed by the mesh key. */
export interface IssuerCertificate {
  readonly meshId: string
  readonly issuerId: string
  /** PeerId of the key that may sign. */
  readonly keyPeerId: string
  readonly issuedAtMs: number
  readonly expiresAtMs: number
}

/** Everything one issuer has revoked, as of `version`. */
export interface Revocations {
  readonly meshId: string
  readonly issuerId: string
  readonly version: number
  readonly entries: readonly Revocation[]
}

export interface Revocation {
  readonly peerId: string
  /** Memberships of this machine up to this serial are void. */
  readonly serial: number
  readonly atMs: number
}

/** A machine gives up its memberships of a mesh up to this serial; signed by the machine itself. */
export interface Departure {
  readonly meshId: string
  readonly machinePeerId: string
  readonly serial: number
  readonly atMs: number
}

/** The mesh's key names the one that signs in its place from then on; signed by the key that is replaced. */
export interface Succession {
  readonly meshId: string
  readonly successorPeerId: string
  readonly atMs: number
}

/** Where a process can be reached; signed by the process itself. The highest `seq` is the newest. */
export interface AddressRecord {
  readonly meshId: string
  readonly peerId: string
  readonly kind: PeerKind
  readonly hubId?: string
  readonly addresses: readonly string[]
  readonly relays: readonly string[]
  readonly seq: number
}

/** What an invite string holds. The keys are raw Ed25519 public keys. */
export interface InvitePayload {
  readonly meshKey: Uint8Array
  readonly issuerKey: Uint8Array
  readonly addresses: readonly string[]
  readonly relays: readonly string[]
  readonly inviteId: Uint8Array
  readonly secret: Uint8Array
  readonly expiresAtMs: number
}

/** Bytes of a payload that is no list of revocations. */
const payloadMaxBytes = 4096

export function encodeMembership(membership: Membership): Uint8Array {
  const { issuedAtMs, expiresAtMs, serial, namedAtMs, ...rest } = membership
  const numbers = { issuedAtMs: wide(issuedAtMs), expiresAtMs: wide(expiresAtMs), serial: wide(serial) }
  const since = defined({ namedAtMs: optionalWide(namedAtMs) })
  return encodeMessage(MembershipSchema, { ...rest, roles: [...rest.roles], ...numbers, ...since }, payloadMaxBytes)
}

/** Roles that this version does not know grant nothing and are left out. */
export function decodeMembership(bytes: Uint8Array): Membership {
  const wire = decodeMessage(MembershipSchema, bytes, payloadMaxBytes)
  if (!isMachineName(wire.name)) throw invalid('the name of a machine is not of the form a-z, 0-9 and -')
  return {
    meshId: filled(wire.meshId, 'mesh_id'),
    issuerId: filled(wire.issuerId, 'issuer_id'),
    machinePeerId: filled(wire.machinePeerId, 'machine_peer_id'),
    name: wire.name,
    roles: wire.roles.filter((role): role is Role => roles.some((known) => known === role)),
    issuedAtMs: Number(wire.issuedAtMs),
    expiresAtMs: Number(wire.expiresAtMs),
    serial: Number(wire.serial),
    ...defined({ namedAtMs: optionalNumber(wire.namedAtMs) }),
  }
}

export function encodeIssuerCertificate(certificate: IssuerCertificate): Uint8Array {
  const { issuedAtMs, expiresAtMs, ...rest } = certificate
  const term = { issuedAtMs: wide(issuedAtMs), expiresAtMs: wide(expiresAtMs) }
  return encodeMessage(IssuerCertificateSchema, { ...rest, ...term }, payloadMaxBytes)
}

export function decodeIssuerCertificate(bytes: Uint8Array): IssuerCertificate {
  const wire = decodeMessage(IssuerCertificateSchema, bytes, payloadMaxBytes)
  return {
    meshId: filled(wire.meshId, 'mesh_id'),
    issuerId: filled(wire.issuerId, 'issuer_id'),
    keyPeerId: filled(wire.keyPeerId, 'key_peer_id'),
    issuedAtMs: Number(wire.issuedAtMs),
    expiresAtMs: Number(wire.expiresAtMs),
  }
}

export function encodeProcessCertificate(certificate: ProcessCertificate): Uint8Array {
  const { issuedAtMs, expiresAtMs, ...rest } = certificate
  const term = { issuedAtMs: wide(issuedAtMs), expiresAtMs: wide(expiresAtMs) }
  return encodeMessage(ProcessCertificateSchema, { ...rest, ...term }, payloadMaxBytes)
}

export function decodeProcessCertificate(bytes: Uint8Array): ProcessCertificate {
  const wire = decodeMessage(ProcessCertificateSchema, bytes, payloadMaxBytes)
  return {
    meshId: filled(wire.meshId, 'mesh_id'),
    machinePeerId: filled(wire.machinePeerId, 'machine_peer_id'),
    processPeerId: filled(wire.processPeerId, 'process_peer_id'),
    kind: oneOf(peerKinds, wire.kind, 'kind'),
    issuedAtMs: Number(wire.issuedAtMs),
    expiresAtMs: Number(wire.expiresAtMs),
    ...defined({ hubId: wire.hubId }),
  }
}

export function encodeRevocations(revocations: Revocations): Uint8Array {
  const { meshId, issuerId, version } = revocations
  const entries = revocations.entries.map(({ peerId, serial, atMs }) => ({
    peerId,
    serial: wide(serial),
    atMs: wide(atMs),
  }))
  return encodeMessage(
    RevocationsSchema,
    { meshId, issuerId, version: wide(version), entries },
    limits.revocationsMaxBytes,
  )
}

export function decodeRevocations(bytes: Uint8Array): Revocations {
  const wire = decodeMessage(RevocationsSchema, bytes, limits.revocationsMaxBytes)
  return {
    meshId: filled(wire.meshId, 'mesh_id'),
    issuerId: filled(wire.issuerId, 'issuer_id'),
    version: Number(wire.version),
    entries: wire.entries.map(({ peerId, serial, atMs }) => ({
      peerId: filled(peerId, 'peer_id'),
      serial: Number(serial),
      atMs: Number(atMs),
    })),
  }
}

export function encodeDeparture(departure: Departure): Uint8Array {
  const { serial, atMs, ...rest } = departure
  return encodeMessage(DepartureSchema, { ...rest, serial: wide(serial), atMs: wide(atMs) }, payloadMaxBytes)
}

export function decodeDeparture(bytes: Uint8Array): Departure {
  const wire = decodeMessage(DepartureSchema, bytes, payloadMaxBytes)
  return {
    meshId: filled(wire.meshId, 'mesh_id'),
    machinePeerId: filled(wire.machinePeerId, 'machine_peer_id'),
    serial: Number(wire.serial),
    atMs: Number(wire.atMs),
  }
}

export function encodeSuccession({ atMs, ...rest }: Succession): Uint8Array {
  return encodeMessage(SuccessionSchema, { ...rest, atMs: wide(atMs) }, payloadMaxBytes)
}

export function decodeSuccession(bytes: Uint8Array): Succession {
  const wire = decodeMessage(SuccessionSchema, bytes, payloadMaxBytes)
  return {
    meshId: filled(wire.meshId, 'mesh_id'),
    successorPeerId: filled(wire.successorPeerId, 'successor_peer_id'),
    atMs: Number(wire.atMs),
  }
}

export function encodeAddressRecord(record: AddressRecord): Uint8Array {
  const { meshId, peerId, kind, hubId, addresses, relays, seq } = record
  const lists = { addresses: [...addresses], relays: [...relays] }
  const fields = { meshId, peerId, kind, ...defined({ hubId }), ...lists, seq: wide(seq) }
  return encodeMessage(AddressRecordSchema, fields, payloadMaxBytes)
}

export function decodeAddressRecord(bytes: Uint8Array): AddressRecord {
  const wire = decodeMessage(AddressRecordSchema, bytes, payloadMaxBytes)
  return {
    meshId: filled(wire.meshId, 'mesh_id'),
    peerId: filled(wire.peerId, 'peer_id'),
    kind: oneOf(peerKinds, wire.kind, 'kind'),
    addresses: wire.addresses,
    relays: wire.relays,
    seq: Number(wire.seq),
    ...defined({ hubId: wire.hubId }),
  }
}

export function encodeReceipt(receipt: ReceiptBody): Uint8Array {
  const { reason, startedAtMs, claimedAtMs, endedAtMs, settledAtMs, ...rest } = receipt
  const times = { claimedAtMs: wide(claimedAtMs), endedAtMs: wide(endedAtMs), settledAtMs: wide(settledAtMs) }
  const fields = { ...rest, ...times, ...defined({ reason, startedAtMs: optionalWide(startedAtMs) }) }
  return encodeMessage(ReceiptBodySchema, fields, payloadMaxBytes)
}

export function decodeReceipt(bytes: Uint8Array): ReceiptBody {
  const wire = decodeMessage(ReceiptBodySchema, bytes, payloadMaxBytes)
  return {
    hubId: filled(wire.hubId, 'hub_id'),
    agentId: filled(wire.agentId, 'agent_id'),
    taskId: filled(wire.taskId, 'task_id'),
    attemptId: filled(wire.attemptId, 'attempt_id'),
    attempt: wire.attempt,
    owner: filled(wire.owner, 'owner'),
    inputsHash: wire.inputsHash,
    outcome: oneOf(outcomes, wire.outcome, 'outcome'),
    resultHash: wire.resultHash,
    claimedAtMs: Number(wire.claimedAtMs),
    endedAtMs: Number(wire.endedAtMs),
    settledAtMs: Number(wire.settledAtMs),
    previousHash: wire.previousHash,
    ...defined({
      reason: optionalOneOf(reasons, wire.reason, 'reason'),
      startedAtMs: optionalNumber(wire.startedAtMs),
    }),
  }
}

export function encodeInvitePayload(invite: InvitePayload): Uint8Array {
  const { meshKey, issuerKey, addresses, relays, inviteId, secret, expiresAtMs } = invite
  const lists = { addresses: [...addresses], relays: [...relays] }
  const fields = { meshKey, issuerKey, ...lists, inviteId, secret, expiresAtMs: wide(expiresAtMs) }
  return encodeMessage(InviteSchema, fields, payloadMaxBytes)
}

export function decodeInvitePayload(bytes: Uint8Array): InvitePayload {
  const { meshKey, issuerKey, addresses, relays, inviteId, secret, expiresAtMs } = decodeMessage(
    InviteSchema,
    bytes,
    payloadMaxBytes,
  )
  if (meshKey.length !== 32 || issuerKey.length !== 32) throw invalid('a key is not 32 bytes long')
  if (inviteId.length !== 16 || secret.length !== 16) throw invalid('an id or secret is not 16 bytes long')
  return { meshKey, issuerKey, addresses, relays, inviteId, secret, expiresAtMs: Number(expiresAtMs) }
}

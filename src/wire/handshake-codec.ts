import type { MessageInitShape } from '@bufbuild/protobuf'
import { type ErrorCode, errorCodes, unreachable } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { type PeerKind, peerKinds } from '../core/membership.ts'
import {
  decodeMessage,
  defined,
  encodeMessage,
  filled,
  invalid,
  oneOf,
  optionalNumber,
  optionalWide,
  required,
  wide,
} from './codec.ts'
import {
  HandshakeMessageSchema,
  type Hello as WireHello,
  type HandshakeMessage as WireMessage,
  type RevocationVersion as WireVersion,
} from './generated/rev1/handshake_pb.ts'

export interface RevocationVersion {
  readonly issuerId: string
  readonly version: number
  /** Of the list's envelope: two lists of one version are told apart by it. */
  readonly digest?: string
}

/** What each side of a connection says first. Envelopes are passed on as they are; `identity` opens them. */
export interface Hello {
  readonly type: 'hello'
  readonly revisions: readonly number[]
  readonly meshId: string
  readonly revocationVersions: readonly RevocationVersion[]
  readonly membership: Uint8Array
  readonly processCertificate?: Uint8Array
  readonly issuerCertificates: readonly Uint8Array[]
  /** Which keys of the mesh took the place of which. */
  readonly successions: readonly Uint8Array[]
  /** Random for each start of a process: two live copies of one key are told apart by it (rule 11). */
  readonly incarnation: string
  readonly kind: PeerKind
  readonly hubId?: string
  readonly softwareVersion: string
  readonly limits: { readonly frameMaxBytes: number }
  /** The sender's wall clock: gives an offset to show, decides nothing. */
  readonly nowMs: number
}

/** Follows each hello on the stream, with no lists where the peer lacks none. */
export interface RevocationUpdate {
  readonly type: 'revocations'
  readonly lists: readonly Uint8Array[]
}

export interface Welcome {
  readonly type: 'welcome'
  /** Node to hub (rule 7). */
  readonly highestEpochSeen?: number
}

/** May take the place of any answer in hello and join. */
export interface Refused {
  readonly type: 'refused'
  readonly code: ErrorCode
  readonly message: string
  /** Fingerprint of who used the invite, where that is the reason. */
  readonly usedBy?: string
  readonly usedAtMs?: number
}

export interface JoinStart {
  readonly type: 'join_start'
  readonly meshId?: string
  /** 32 hex digits. */
  readonly inviteId?: string
  readonly nonce: Uint8Array
}

export interface JoinChallenge {
  readonly type: 'join_challenge'
  readonly meshId: string
  readonly issuerMembership: Uint8Array
  /** Process certificate of the issuer's transport key. */
  readonly issuerCertificate: Uint8Array
  readonly nonce: Uint8Array
  readonly proof: Uint8Array
  /** Of further owners, where one of them signed the issuer's membership. */
  readonly issuerCertificates: readonly Uint8Array[]
  readonly successions: readonly Uint8Array[]
}

export interface JoinProof {
  readonly type: 'join_proof'
  readonly proof: Uint8Array
  readonly nameWanted?: string
  readonly addressRecord: Uint8Array
  readonly softwareVersion: string
  readonly os: string
  readonly arch: string
  /** Of a knock: a wish that is shown to the owner and grants nothing. */
  readonly rolesWanted: readonly string[]
}

export interface Joined {
  readonly type: 'joined'
  readonly membership: Uint8Array
  readonly issuerMembership: Uint8Array
  readonly issuerCertificates: readonly Uint8Array[]
  readonly relays: readonly string[]
  readonly successions: readonly Uint8Array[]
}

export type HandshakeMessage =
  | Hello
  | RevocationUpdate
  | Welcome
  | Refused
  | JoinStart
  | JoinChallenge
  | JoinProof
  | Joined

/** Bytes of any message of hello or join but a revocation update. */
export const handshakeMaxBytes = limits.helloMaxBytes

/** Bytes of a revocation update, which has a bound of its own. */
export const revocationUpdateMaxBytes = limits.revocationsMaxBytes

/** @throws {NfltrError} `frame_too_large`, `invalid_frame` */
export function encodeHandshake(message: HandshakeMessage): Uint8Array {
  const maxBytes = message.type === 'revocations' ? revocationUpdateMaxBytes : handshakeMaxBytes
  return encodeMessage(HandshakeMessageSchema, { kind: toWire(message) }, maxBytes)
}

/**
 * Reads one message. Where the protocol expects a revocation update, pass `revocationUpdateMaxBytes`.
 *
 * @throws {NfltrError} `frame_too_large`, `invalid_frame` (also for a kind that is not known); nothing else
 */
export function decodeHandshake(bytes: Uint8Array, maxBytes: number = handshakeMaxBytes): HandshakeMessage {
  return fromWire(decodeMessage(HandshakeMessageSchema, bytes, maxBytes))
}

type WireKind = Exclude<MessageInitShape<typeof HandshakeMessageSchema>['kind'], undefined>

function toWire(message: HandshakeMessage): WireKind {
  switch (message.type) {
    case 'hello':
      return { case: 'hello', value: toHello(message) }
    case 'revocations':
      return { case: 'revocations', value: { lists: [...message.lists] } }
    case 'welcome':
      return { case: 'welcome', value: defined({ highestEpochSeen: optionalWide(message.highestEpochSeen) }) }
    case 'refused': {
      const { code, message: text, usedBy, usedAtMs } = message
      return {
        case: 'refused',
        value: { code, message: text, ...defined({ usedBy, usedAtMs: optionalWide(usedAtMs) }) },
      }
    }
    case 'join_start': {
      const { meshId, inviteId, nonce } = message
      return { case: 'joinStart', value: { nonce, ...defined({ meshId, inviteId }) } }
    }
    case 'join_challenge': {
      const { type: _, issuerCertificates, successions, ...fields } = message
      const lists = { issuerCertificates: [...issuerCertificates], successions: [...successions] }
      return { case: 'joinChallenge', value: { ...fields, ...lists } }
    }
    case 'join_proof': {
      const { type: _, nameWanted, rolesWanted, ...fields } = message
      return { case: 'joinProof', value: { ...fields, rolesWanted: [...rolesWanted], ...defined({ nameWanted }) } }
    }
    case 'joined': {
      const { membership, issuerMembership, issuerCertificates, relays, successions } = message
      const lists = {
        issuerCertificates: [...issuerCertificates],
        relays: [...relays],
        successions: [...successions],
      }
      return { case: 'joined', value: { membership, issuerMembership, ...lists } }
    }
    default:
      return unreachable(message)
  }
}

function toHello(hello: Hello): Extract<WireKind, { case: 'hello' }>['value'] {
  const { type: _, revocationVersions, processCertificate, hubId, nowMs, ...rest } = hello
  return {
    ...rest,
    revisions: [...rest.revisions],
    issuerCertificates: [...rest.issuerCertificates],
    successions: [...rest.successions],
    revocationVersions: revocationVersions.map(toVersion),
    limits: { frameMaxBytes: rest.limits.frameMaxBytes },
    nowMs: wide(nowMs),
    ...defined({ processCertificate, hubId }),
  }
}

function fromWire(message: WireMessage): HandshakeMessage {
  const { kind } = message
  switch (kind.case) {
    case 'hello':
      return fromHello(kind.value)
    case 'revocations':
      return { type: 'revocations', lists: kind.value.lists }
    case 'welcome':
      return { type: 'welcome', ...defined({ highestEpochSeen: optionalNumber(kind.value.highestEpochSeen) }) }
    case 'refused': {
      const { code, message: text, usedBy, usedAtMs } = kind.value
      return {
        type: 'refused',
        code: knownCode(code),
        message: text,
        ...defined({ usedBy, usedAtMs: optionalNumber(usedAtMs) }),
      }
    }
    case 'joinStart': {
      const { meshId, inviteId, nonce } = kind.value
      return { type: 'join_start', nonce: random32(nonce, 'nonce'), ...defined({ meshId, inviteId }) }
    }
    case 'joinChallenge': {
      const { meshId, issuerMembership, issuerCertificate, nonce, proof, issuerCertificates, successions } = kind.value
      const proven = { nonce: random32(nonce, 'nonce'), proof: random32(proof, 'proof') }
      return {
        type: 'join_challenge',
        meshId: filled(meshId, 'mesh_id'),
        issuerMembership,
        issuerCertificate,
        issuerCertificates,
        successions,
        ...proven,
      }
    }
    case 'joinProof': {
      const { proof, nameWanted, addressRecord, softwareVersion, os, arch, rolesWanted } = kind.value
      const facts = { addressRecord, softwareVersion, os, arch, rolesWanted, ...defined({ nameWanted }) }
      return { type: 'join_proof', proof: random32(proof, 'proof'), ...facts }
    }
    case 'joined': {
      const { membership, issuerMembership, issuerCertificates, relays, successions } = kind.value
      return {
        type: 'joined',
        membership: filled(membership, 'membership'),
        issuerMembership,
        issuerCertificates,
        relays,
        successions,
      }
    }
    case undefined:
      throw invalid('its kind is not known')
    default:
      return unreachable(kind)
  }
}

function fromHello(hello: WireHello): Hello {
  return {
    type: 'hello',
    revisions: hello.revisions,
    meshId: filled(hello.meshId, 'mesh_id'),
    revocationVersions: hello.revocationVersions.map(fromVersion),
    membership: filled(hello.membership, 'membership'),
    issuerCertificates: hello.issuerCertificates,
    successions: hello.successions,
    incarnation: filled(hello.incarnation, 'incarnation'),
    kind: oneOf(peerKinds, hello.kind, 'kind'),
    softwareVersion: hello.softwareVersion,
    limits: { frameMaxBytes: required(hello.limits, 'limits').frameMaxBytes },
    nowMs: Number(hello.nowMs),
    ...defined({ processCertificate: hello.processCertificate, hubId: hello.hubId }),
  }
}

export function toVersion({ issuerId, version, digest }: RevocationVersion) {
  return { issuerId, version: wide(version), ...defined({ digest }) }
}

export function fromVersion(wire: WireVersion): RevocationVersion {
  return { issuerId: wire.issuerId, version: Number(wire.version), ...defined({ digest: wire.digest }) }
}

/** A newer peer's word for a refusal is still a refusal. */
export function knownCode(code: string): ErrorCode {
  return Object.hasOwn(errorCodes, code) ? (code as ErrorCode) : 'unsupported'
}

function random32(bytes: Uint8Array, field: string): Uint8Array {
  if (bytes.length !== 32) throw invalid(`${field} is not 32 bytes long`)
  return bytes
}

import { RecordEnvelope } from '@libp2p/peer-record'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Membership, ProcessCertificate } from '../core/membership.ts'
import type { ReceiptBody } from '../core/receipt.ts'
import {
  type AddressRecord,
  type Departure,
  decodeAddressRecord,
  decodeDeparture,
  decodeIssuerCertificate,
  decodeMembership,
  decodeProcessCertificate,
  decodeReceipt,
  decodeRevocations,
  decodeSuccession,
  encodeAddressRecord,
  encodeDeparture,
  encodeIssuerCertificate,
  encodeMembership,
  encodeProcessCertificate,
  encodeReceipt,
  encodeRevocations,
  encodeSuccession,
  type IssuerCertificate,
  type Revocations,
  type Succession,
} from '../wire/record-codec.ts'
import { type PrivateKey, peerIdOfRaw, publicKeyOf } from './keys.ts'
import { signedBytes, type VerifySignature } from './signatures.ts'

/**
 * Signed things. Each kind has a domain string, which is part of what is signed, and a payload type, so that no signature
 * for one thing passes for another (rule 10). libp2p's envelope checks neither payload type nor signer, and throws
 * whatever its parser throws; here both are checked and every failure is one typed refusal, `bad_signature`.
 *
 * @see https://github.com/libp2p/specs/blob/master/RFC/0002-signed-envelopes.md
 */
interface Kind<T> {
  readonly domain: string
  readonly encode: (value: T) => Uint8Array
  readonly decode: (payload: Uint8Array) => T
}

const kinds = {
  membership: { domain: 'nfltr/membership/1', encode: encodeMembership, decode: decodeMembership },
  issuer: { domain: 'nfltr/issuer/1', encode: encodeIssuerCertificate, decode: decodeIssuerCertificate },
  process: { domain: 'nfltr/process/1', encode: encodeProcessCertificate, decode: decodeProcessCertificate },
  revocations: { domain: 'nfltr/revocations/1', encode: encodeRevocations, decode: decodeRevocations },
  departure: { domain: 'nfltr/departure/1', encode: encodeDeparture, decode: decodeDeparture },
  succession: { domain: 'nfltr/succession/1', encode: encodeSuccession, decode: decodeSuccession },
  addresses: { domain: 'nfltr/addresses/1', encode: encodeAddressRecord, decode: decodeAddressRecord },
  receipt: { domain: 'nfltr/receipt/1', encode: encodeReceipt, decode: decodeReceipt },
} as const

/** Who may sign memberships and revocations: the mesh key itself, and the keys that its issuer certificates name. */
export interface Issuers {
  /** PeerId of the first mesh key, which is the mesh's id. */
  readonly meshId: string
  /** PeerIds of the mesh keys that count: the one that signs now, or none. Absent: the first one, which was not replaced. */
  readonly meshKeys?: readonly string[]
  /** Certificates that were opened against this mesh before. */
  readonly certificates?: readonly IssuerCertificate[]
}

export function signMembership(key: PrivateKey, membership: Membership): Promise<Uint8Array> {
  return seal(kinds.membership, key, membership)
}

/** @throws {NfltrError} `bad_signature` unless the mesh key signed it, or a key certified for its `issuerId` and its day */
export async function openMembership(envelope: Uint8Array, issuers: Issuers): Promise<Membership> {
  const { value, signer } = await open(kinds.membership, envelope)
  if (value.meshId !== issuers.meshId) throw refused('names another mesh')
  if (!mayIssue(issuers, { signer, issuerId: value.issuerId, atMs: value.issuedAtMs })) throw wrongSigner()
  return value
}

export function signIssuerCertificate(meshKey: PrivateKey, certificate: IssuerCertificate): Promise<Uint8Array> {
  return seal(kinds.issuer, meshKey, certificate)
}

/** An opened certificate, with the mesh key that signed it. */
export type SignedCertificate = IssuerCertificate & { readonly meshKey: string }

/** @throws {NfltrError} `bad_signature` unless a mesh key that counts signed it */
export async function openIssuerCertificate(
  envelope: Uint8Array,
  expected: Pick<Issuers, 'meshId' | 'meshKeys'>,
): Promise<SignedCertificate> {
  const { value, signer } = await open(kinds.issuer, envelope)
  if (value.meshId !== expected.meshId) throw refused('names another mesh')
  if (!isMeshKey(expected, signer)) throw wrongSigner()
  return { ...value, meshKey: signer }
}

export function signSuccession(meshKey: PrivateKey, succession: Succession): Promise<Uint8Array> {
  return seal(kinds.succession, meshKey, succession)
}

/**
 * Whether the key that signed it ever was a key of the mesh is still to be seen: `meshLine`.
 *
 * @throws {NfltrError} `bad_signature` unless it is about this mesh and names a key
 */
export async function openSuccession(
  envelope: Uint8Array,
  expected: { readonly meshId: string },
): Promise<Succession & { readonly predecessorPeerId: string }> {
  const { value, signer } = await open(kinds.succession, envelope)
  if (value.meshId !== expected.meshId) throw refused('names another mesh')
  publicKeyOf(value.successorPeerId)
  return { ...value, predecessorPeerId: signer }
}

export function signProcessCertificate(machineKey: PrivateKey, certificate: ProcessCertificate): Promise<Uint8Array> {
  return seal(kinds.process, machineKey, certificate)
}

/**
 * What it says is still to be compared with the connection and the membership: `judgeClaimant`.
 *
 * @throws {NfltrError} `bad_signature` unless that machine signed it for itself
 */
export async function openProcessCertificate(
  envelope: Uint8Array,
  expected: { machinePeerId: string },
): Promise<ProcessCertificate> {
  const { value, signer } = await open(kinds.process, envelope)
  if (signer !== expected.machinePeerId || value.machinePeerId !== expected.machinePeerId) throw wrongSigner()
  return value
}

export function signRevocations(key: PrivateKey, revocations: Revocations): Promise<Uint8Array> {
  return seal(kinds.revocations, key, revocations)
}

/** @throws {NfltrError} `bad_signature` unless that issuer signed its own list */
export async function openRevocations(envelope: Uint8Array, issuers: Issuers): Promise<Revocations> {
  const { value, signer } = await open(kinds.revocations, envelope)
  if (value.meshId !== issuers.meshId) throw refused('names another mesh')
  if (!mayIssue(issuers, { signer, issuerId: value.issuerId })) throw wrongSigner()
  return value
}

export function signDeparture(machineKey: PrivateKey, departure: Departure): Promise<Uint8Array> {
  return seal(kinds.departure, machineKey, departure)
}

/** @throws {NfltrError} `bad_signature` unless that machine signed it for itself, for this mesh */
export async function openDeparture(envelope: Uint8Array, expected: { meshId: string }): Promise<Departure> {
  const { value, signer } = await open(kinds.departure, envelope)
  if (value.meshId !== expected.meshId) throw refused('names another mesh')
  if (signer !== value.machinePeerId) throw wrongSigner()
  return value
}

export function signAddressRecord(key: PrivateKey, record: AddressRecord): Promise<Uint8Array> {
  return seal(kinds.addresses, key, record)
}

/** @throws {NfltrError} `bad_signature` unless the process that it is about signed it, for this mesh */
export async function openAddressRecord(envelope: Uint8Array, expected: { meshId: string }): Promise<AddressRecord> {
  const { value, signer } = await open(kinds.addresses, envelope)
  if (value.meshId !== expected.meshId) throw refused('names another mesh')
  if (signer !== value.peerId) throw wrongSigner()
  return value
}

/** Use `makeReceipt` of receipts.ts, which names the result. */
export function sealReceipt(machineKey: PrivateKey, body: ReceiptBody): Promise<Uint8Array> {
  return seal(kinds.receipt, machineKey, body)
}

/**
 * @param verify - does the arithmetic elsewhere; the library's own way where it is absent
 * @throws {NfltrError} `bad_signature` unless the machine that did the work signed it
 */
export async function openReceipt(
  envelope: Uint8Array,
  expected: { machinePeerId: string },
  verify?: VerifySignature,
): Promise<ReceiptBody> {
  const { value, signer } = await open(kinds.receipt, envelope, verify)
  if (signer !== expected.machinePeerId || value.owner !== expected.machinePeerId) throw wrongSigner()
  return value
}

const toUtf8 = new TextEncoder()

/** Bytes around a payload: key, signature, payload type and their tags, with room. */
const overheadMaxBytes = 1024

async function seal<T>(kind: Kind<T>, key: PrivateKey, value: T): Promise<Uint8Array> {
  const payload = kind.encode(value)
  const record = { domain: kind.domain, codec: payloadTypeOf(kind), marshal: () => payload, equals: () => false }
  return (await RecordEnvelope.seal(record, key)).marshal()
}

async function open<T>(
  kind: Kind<T>,
  envelope: Uint8Array,
  verify?: VerifySignature,
): Promise<{ value: T; signer: string }> {
  if (envelope.length > limits.revocationsMaxBytes + overheadMaxBytes) throw refused('is too long')
  const opened = await certify(kind.domain, envelope, verify)
  if (!equal(opened.payloadType.subarray(), payloadTypeOf(kind))) throw refused('holds another kind of thing')
  // One thing, one spelling: an envelope with unknown or repeated fields would have another hash and still verify.
  if (!equal(opened.marshal(), envelope)) throw refused('is not spelt as its signer spelt it')
  const signer = peerIdOfRaw(opened.publicKey.raw)
  try {
    return { value: kind.decode(opened.payload), signer }
  } catch (cause) {
    throw refused('holds something else than it should', cause)
  }
}

async function certify(domain: string, envelope: Uint8Array, verify?: VerifySignature): Promise<RecordEnvelope> {
  let opened: RecordEnvelope
  let isSound: boolean
  try {
    opened = RecordEnvelope.createFromProtobuf(envelope)
    const { publicKey, payloadType, payload, signature } = opened
    isSound =
      verify === undefined || publicKey.type !== 'Ed25519'
        ? await opened.validate(domain)
        : await verify(publicKey.raw, signedBytes(domain, payloadType, payload), signature)
  } catch (cause) {
    throw refused('does not verify', cause)
  }
  if (!isSound) throw refused('does not verify')
  if (opened.publicKey.type !== 'Ed25519') throw refused('is signed by a key of another kind')
  return opened
}

function mayIssue(issuers: Issuers, claim: { signer: string; issuerId: string; atMs?: number }): boolean {
  const { signer, issuerId, atMs } = claim
  if (issuerId === signer && isMeshKey(issuers, signer)) return true
  return (issuers.certificates ?? []).some(
    (certificate) =>
      certificate.meshId === issuers.meshId &&
      certificate.issuerId === issuerId &&
      certificate.keyPeerId === signer &&
      (atMs === undefined || (atMs >= certificate.issuedAtMs && atMs <= certificate.expiresAtMs)),
  )
}

function isMeshKey({ meshId, meshKeys = [meshId] }: Pick<Issuers, 'meshId' | 'meshKeys'>, peerId: string): boolean {
  return meshKeys.includes(peerId)
}

function payloadTypeOf(kind: { readonly domain: string }): Uint8Array {
  return toUtf8.encode(`/${kind.domain}`)
}

function equal(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}

function wrongSigner(): NfltrError {
  return refused('was signed by a key that may not sign it')
}

function refused(what: string, cause?: unknown): NfltrError {
  return new NfltrError('bad_signature', `A signed envelope was refused: it ${what}.`, { cause })
}

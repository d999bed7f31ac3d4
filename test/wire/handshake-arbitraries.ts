import fc from 'fast-check'
import { type ErrorCode, errorCodes } from '../../src/core/errors.ts'
import { type Membership, type ProcessCertificate, peerKinds, roles } from '../../src/core/membership.ts'
import { outcomes, reasons } from '../../src/core/model.ts'
import type { ReceiptBody } from '../../src/core/receipt.ts'
import type { HandshakeMessage } from '../../src/wire/handshake-codec.ts'
import type {
  AddressRecord,
  InvitePayload,
  IssuerCertificate,
  Revocations,
  Succession,
} from '../../src/wire/record-codec.ts'
import type { RosterMessage } from '../../src/wire/roster-codec.ts'
import { bytes, count, id, instant, prose, record, small } from './arbitraries.ts'

const all = <T>(model: { [P in keyof T]: fc.Arbitrary<T[P]> }): fc.Arbitrary<T> =>
  fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>
const just = fc.constant

const envelope = bytes(1, 300)
const envelopes = fc.array(envelope, { maxLength: 4 })
const addresses = fc.array(id, { maxLength: 8 })
const relays = fc.array(id, { maxLength: 4 })
const kind = fc.constantFrom(...peerKinds)
const versions = fc.array(record({ issuerId: id, version: count, digest: id }, ['issuerId', 'version']), {
  maxLength: 4,
})
const nonce = bytes(32, 32)
const code = fc.constantFrom(...(Object.keys(errorCodes) as ErrorCode[]))

export const handshake: fc.Arbitrary<HandshakeMessage> = fc.oneof(
  record(
    {
      type: just('hello' as const),
      revisions: fc.array(small, { maxLength: 4 }),
      meshId: id,
      revocationVersions: versions,
      membership: envelope,
      processCertificate: envelope,
      issuerCertificates: envelopes,
      successions: envelopes,
      incarnation: id,
      kind,
      hubId: id,
      softwareVersion: id,
      limits: all({ frameMaxBytes: small }),
      nowMs: instant,
    },
    [
      'type',
      'revisions',
      'meshId',
      'revocationVersions',
      'membership',
      'issuerCertificates',
      'successions',
      'incarnation',
      'kind',
      'softwareVersion',
      'limits',
      'nowMs',
    ],
  ),
  all({ type: just('revocations' as const), lists: envelopes }),
  record({ type: just('welcome' as const), highestEpochSeen: count }, ['type']),
  record({ type: just('refused' as const), code, message: prose, usedBy: id, usedAtMs: instant }, [
    'type',
    'code',
    'message',
  ]),
  record({ type: just('join_start' as const), meshId: id, inviteId: id, nonce }, ['type', 'nonce']),
  all({
    type: just('join_challenge' as const),
    meshId: id,
    issuerMembership: envelope,
    issuerCertificate: envelope,
    nonce,
    proof: nonce,
    issuerCertificates: envelopes,
    successions: envelopes,
  }),
  record(
    {
      type: just('join_proof' as const),
      proof: nonce,
      nameWanted: id,
      addressRecord: envelope,
      softwareVersion: id,
      os: id,
      arch: id,
      rolesWanted: fc.array(id, { maxLength: 4 }),
    },
    ['type', 'proof', 'addressRecord', 'softwareVersion', 'os', 'arch', 'rolesWanted'],
  ),
  all({
    type: just('joined' as const),
    membership: envelope,
    issuerMembership: envelope,
    issuerCertificates: envelopes,
    relays,
    successions: envelopes,
  }),
) as fc.Arbitrary<HandshakeMessage>

export const roster: fc.Arbitrary<RosterMessage> = fc.oneof(
  all({
    type: just('digest' as const),
    entries: fc.array(
      record({ peerId: id, serial: count, addressSeq: count, departedSerial: count.filter((serial) => serial > 0) }, [
        'peerId',
        'serial',
        'addressSeq',
      ]),
      { maxLength: 20 },
    ),
    revocationVersions: versions,
  }),
  all({
    type: just('push' as const),
    members: fc.array(all({ membership: envelope, addressRecords: envelopes }), { maxLength: 10 }),
    revocations: envelopes,
    issuerCertificates: envelopes,
    departures: envelopes,
    successions: envelopes,
    isLast: fc.boolean(),
  }),
)

export const machineName = fc.stringMatching(/^[a-z0-9-]{1,63}$/)

export const membership: fc.Arbitrary<Membership> = record(
  {
    meshId: id,
    issuerId: id,
    machinePeerId: id,
    name: machineName,
    roles: fc.subarray([...roles]),
    issuedAtMs: instant,
    expiresAtMs: instant,
    serial: count,
    namedAtMs: instant,
  },
  ['meshId', 'issuerId', 'machinePeerId', 'name', 'roles', 'issuedAtMs', 'expiresAtMs', 'serial'],
)

export const issuerCertificate: fc.Arbitrary<IssuerCertificate> = all({
  meshId: id,
  issuerId: id,
  keyPeerId: id,
  issuedAtMs: instant,
  expiresAtMs: instant,
})

export const processCertificate: fc.Arbitrary<ProcessCertificate> = record(
  { meshId: id, machinePeerId: id, processPeerId: id, kind, hubId: id, issuedAtMs: instant, expiresAtMs: instant },
  ['meshId', 'machinePeerId', 'processPeerId', 'kind', 'issuedAtMs', 'expiresAtMs'],
)

export const succession: fc.Arbitrary<Succession> = all({ meshId: id, successorPeerId: id, atMs: instant })

export const revocations: fc.Arbitrary<Revocations> = all({
  meshId: id,
  issuerId: id,
  version: count,
  entries: fc.array(all({ peerId: id, serial: count, atMs: instant }), { maxLength: 20 }),
})

export const addressRecord: fc.Arbitrary<AddressRecord> = record(
  { meshId: id, peerId: id, kind, hubId: id, addresses, relays, seq: count },
  ['meshId', 'peerId', 'kind', 'addresses', 'relays', 'seq'],
)

export const receipt: fc.Arbitrary<ReceiptBody> = record(
  {
    hubId: id,
    agentId: id,
    taskId: id,
    attemptId: id,
    attempt: small,
    owner: id,
    inputsHash: id,
    outcome: fc.constantFrom(...outcomes),
    reason: fc.constantFrom(...reasons),
    resultHash: id,
    claimedAtMs: instant,
    startedAtMs: instant,
    endedAtMs: instant,
    settledAtMs: instant,
    previousHash: id,
  },
  [
    'hubId',
    'agentId',
    'taskId',
    'attemptId',
    'attempt',
    'owner',
    'inputsHash',
    'outcome',
    'resultHash',
    'claimedAtMs',
    'endedAtMs',
    'settledAtMs',
    'previousHash',
  ],
)

export const invitePayload: fc.Arbitrary<InvitePayload> = all({
  meshKey: bytes(32, 32),
  issuerKey: bytes(32, 32),
  addresses,
  relays,
  inviteId: bytes(16, 16),
  secret: bytes(16, 16),
  expiresAtMs: instant,
})

import { RecordEnvelope } from '@libp2p/peer-record'
import fc from 'fast-check'
import type { SeededRandom } from '../../sim/random.ts'
import * as envelopes from '../../src/identity/envelopes.ts'
import { decodeInvite, encodeInvite } from '../../src/identity/invites.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../../src/identity/keys.ts'
import { frameMaxBytes, frameReader } from '../../src/keeper/frames.ts'
import { decodeAccount, encodeAccount } from '../../src/wire/account-codec.ts'
import { decodeHandshake, encodeHandshake } from '../../src/wire/handshake-codec.ts'
import * as records from '../../src/wire/record-codec.ts'
import { decodeRoster, encodeRoster } from '../../src/wire/roster-codec.ts'
import { decodeFrame, encodeFrame } from '../../src/wire/session-codec.ts'
import { decodeWork, encodeWork } from '../../src/wire/work-codec.ts'
import { account, frame, work } from '../wire/arbitraries.ts'
import * as handshakes from '../wire/handshake-arbitraries.ts'
import { mutate, mutateText } from './mutate.ts'
import { type Target, verdictOn } from './target.ts'

/** Valid messages of each kind from which wrong ones are made. */
const poolSize = 300

export function pool<T>(random: SeededRandom, values: fc.Arbitrary<T>, encode: (value: T) => Uint8Array): Uint8Array[] {
  return fc.sample(values, { numRuns: poolSize, seed: random.int(0, 0x7fff_ffff) }).map((value) => encode(value))
}

function decoder<T>(
  kind: string,
  share: number,
  of: { values: fc.Arbitrary<T>; encode: (value: T) => Uint8Array; decode: (bytes: Uint8Array) => unknown },
): Target {
  return {
    kind,
    share,
    open: async (seed) => {
      const valid = pool(seed, of.values, of.encode)
      return {
        try: (random) => {
          const bytes = mutate(random, valid)
          return verdictOn(bytes, () => of.decode(bytes))
        },
        close: async () => undefined,
      }
    },
  }
}

interface Signed<T> {
  readonly values: fc.Arbitrary<T>
  readonly encode: (value: T) => Uint8Array
  /** The names under which its signer may sign it. */
  readonly names: (peerId: string) => Partial<T>
  readonly domain: string
  readonly open: (envelope: Uint8Array, signer: PrivateKey) => Promise<unknown>
}

/** Certificates as they come: in envelopes, which the right key signed over a wrong payload, or that were changed after. */
function signed<T extends object>(kind: string, share: number, of: Signed<T>): Target {
  return {
    kind,
    share,
    open: async (seed) => {
      const signer = await generateKey()
      const names = of.names(peerIdOf(signer))
      const valid = pool(seed, of.values, (value) => of.encode({ ...value, ...names }))
      const codec = new TextEncoder().encode(`/${of.domain}`)
      const seal = async (payload: Uint8Array): Promise<Uint8Array> => {
        const record = { domain: of.domain, codec, marshal: () => payload, equals: () => false }
        return (await RecordEnvelope.seal(record, signer)).marshal()
      }
      const sealed = await Promise.all(valid.slice(0, 30).map(seal))
      return {
        try: async (random) => {
          const envelope = random.chance(0.5) ? await seal(mutate(random, valid)) : mutate(random, sealed)
          return verdictOn(envelope, () => of.open(envelope, signer))
        },
        close: async () => undefined,
      }
    },
  }
}

const invites: Target = {
  kind: 'invite',
  share: 12,
  open: async () => {
    const [mesh, issuer] = await Promise.all([generateKey(), generateKey()])
    const text = encodeInvite({
      meshId: peerIdOf(mesh),
      issuerPeerId: peerIdOf(issuer),
      addresses: ['/ip4/127.0.0.1/tcp/4702', '/ip6/::1/tcp/4702', '/dns4/laptop/tcp/4702'],
      relays: [],
      inviteId: '0123456789abcdef0123456789abcdef',
      secret: new Uint8Array(16).fill(7),
      expiresAtMs: 1_900_000_000_000,
    })
    return {
      try: (random) => {
        let wrong = text
        for (let round = random.int(1, 3); round > 0; round--) wrong = mutateText(random, wrong)
        return verdictOn(wrong, () => decodeInvite(wrong))
      },
      close: async () => undefined,
    }
  },
}

/** Frames on the socket of a keeper, from somebody who has proven nothing and from somebody who has. */
const keeperFrames: Target = {
  kind: 'keeper frame',
  share: 3,
  open: async () => ({
    try: (random) => {
      const json = Buffer.from(mutateText(random, '{"type":"write","id":1,"messageId":"msg_1","bytes":"aGk="}'))
      const length = Buffer.alloc(4)
      length.writeUInt32BE(random.pick([json.length, json.length, 0, 1, json.length - 1, 0xffff_ffff]) >>> 0)
      const bytes = Buffer.concat([length, json])
      const reader = frameReader(random.pick([1_024, frameMaxBytes]))
      return verdictOn(bytes, () => {
        for (let at = 0; at < bytes.length; at += 7) reader.push(bytes.subarray(at, at + 7))
      })
    },
    close: async () => undefined,
  }),
}

const { encodeMembership, encodeIssuerCertificate, encodeProcessCertificate, encodeRevocations } = records
const { encodeAddressRecord, encodeReceipt, encodeInvitePayload } = records

export const decoders: readonly Target[] = [
  decoder('session frame', 14, { values: frame, encode: encodeFrame, decode: decodeFrame }),
  decoder('work message', 12, { values: work, encode: encodeWork, decode: decodeWork }),
  decoder('handshake message', 12, { values: handshakes.handshake, encode: encodeHandshake, decode: decodeHandshake }),
  decoder('roster message', 6, { values: handshakes.roster, encode: encodeRoster, decode: decodeRoster }),
  decoder('account message', 6, { values: account, encode: encodeAccount, decode: decodeAccount }),
  decoder('invite payload', 4, {
    values: handshakes.invitePayload,
    encode: encodeInvitePayload,
    decode: records.decodeInvitePayload,
  }),
  signed('membership', 4, {
    values: handshakes.membership,
    encode: encodeMembership,
    names: (id) => ({ meshId: id, issuerId: id }),
    domain: 'nfltr/membership/1',
    open: (envelope, signer) => envelopes.openMembership(envelope, { meshId: peerIdOf(signer) }),
  }),
  signed('issuer certificate', 3, {
    values: handshakes.issuerCertificate,
    encode: encodeIssuerCertificate,
    names: (id) => ({ meshId: id }),
    domain: 'nfltr/issuer/1',
    open: (envelope, signer) => envelopes.openIssuerCertificate(envelope, { meshId: peerIdOf(signer) }),
  }),
  signed('process certificate', 3, {
    values: handshakes.processCertificate,
    encode: encodeProcessCertificate,
    names: (id) => ({ machinePeerId: id }),
    domain: 'nfltr/process/1',
    open: (envelope, signer) => envelopes.openProcessCertificate(envelope, { machinePeerId: peerIdOf(signer) }),
  }),
  signed('revocation list', 3, {
    values: handshakes.revocations,
    encode: encodeRevocations,
    names: (id) => ({ meshId: id, issuerId: id }),
    domain: 'nfltr/revocations/1',
    open: (envelope, signer) => envelopes.openRevocations(envelope, { meshId: peerIdOf(signer) }),
  }),
  signed('address record', 3, {
    values: handshakes.addressRecord,
    encode: encodeAddressRecord,
    names: (id) => ({ meshId: id, peerId: id }),
    domain: 'nfltr/addresses/1',
    open: (envelope, signer) => envelopes.openAddressRecord(envelope, { meshId: peerIdOf(signer) }),
  }),
  signed('receipt', 3, {
    values: handshakes.receipt,
    encode: encodeReceipt,
    names: (id) => ({ owner: id }),
    domain: 'nfltr/receipt/1',
    open: (envelope, signer) => envelopes.openReceipt(envelope, { machinePeerId: peerIdOf(signer) }),
  }),
  invites,
  keeperFrames,
]

import { generateKeyPair } from '@libp2p/crypto/keys'
import { RecordEnvelope } from '@libp2p/peer-record'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { type ErrorCode, NfltrError } from '../../src/core/errors.ts'
import type { Membership } from '../../src/core/membership.ts'
import {
  openAddressRecord,
  openIssuerCertificate,
  openMembership,
  openProcessCertificate,
  openReceipt,
  openRevocations,
  sealReceipt,
  signAddressRecord,
  signIssuerCertificate,
  signMembership,
  signProcessCertificate,
  signRevocations,
} from '../../src/identity/envelopes.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../../src/identity/keys.ts'
import { encodeMembership } from '../../src/wire/record-codec.ts'

let meshKey: PrivateKey
let machineKey: PrivateKey
let strangerKey: PrivateKey
let meshId: string
let machinePeerId: string

beforeAll(async () => {
  meshKey = await generateKey()
  machineKey = await generateKey()
  strangerKey = await generateKey()
  meshId = peerIdOf(meshKey)
  machinePeerId = peerIdOf(machineKey)
})

function membership(over: Partial<Membership> = {}): Membership {
  const term = { issuedAtMs: 1_000, expiresAtMs: 2_000, serial: 1 }
  return { meshId, issuerId: meshId, machinePeerId, name: 'vm1', roles: ['node'], ...term, ...over }
}

async function refusalOf(action: Promise<unknown>): Promise<ErrorCode | undefined> {
  try {
    await action
    return undefined
  } catch (error) {
    if (error instanceof NfltrError) return error.code
    throw error
  }
}

describe('a membership', () => {
  test('opens for whoever knows the mesh', async () => {
    const envelope = await signMembership(meshKey, membership())

    expect(await openMembership(envelope, { meshId })).toEqual(membership())
  })

  test('is refused when another key signed it', async () => {
    const envelope = await signMembership(strangerKey, membership())

    expect(await refusalOf(openMembership(envelope, { meshId }))).toBe('bad_signature')
  })

  test('is refused in another mesh', async () => {
    const strangerMesh = peerIdOf(strangerKey)
    const theirs = await signMembership(strangerKey, membership({ meshId: strangerMesh, issuerId: strangerMesh }))

    expect(await refusalOf(openMembership(theirs, { meshId }))).toBe('bad_signature')
    expect(await refusalOf(openMembership(theirs, { meshId: strangerMesh }))).toBeUndefined()
  })

  test('is refused when the machine signed its own', async () => {
    const envelope = await signMembership(machineKey, membership({ roles: ['owner'] }))

    expect(await refusalOf(openMembership(envelope, { meshId }))).toBe('bad_signature')
  })

  test('of a further owner opens only with its certificate, for its issuer id, within its term', async () => {
    const ownerKey = await generateKey()
    const certificate = {
      meshId,
      issuerId: 'second',
      keyPeerId: peerIdOf(ownerKey),
      issuedAtMs: 500,
      expiresAtMs: 1_500,
    }
    const certificates = [certificate]
    const by = (over: Partial<Membership>) => signMembership(ownerKey, membership({ issuerId: 'second', ...over }))

    expect(await refusalOf(openMembership(await by({}), { meshId, certificates }))).toBeUndefined()
    expect(await refusalOf(openMembership(await by({}), { meshId }))).toBe('bad_signature')
    expect(await refusalOf(openMembership(await by({ issuerId: meshId }), { meshId, certificates }))).toBe(
      'bad_signature',
    )
    expect(await refusalOf(openMembership(await by({ issuedAtMs: 1_501 }), { meshId, certificates }))).toBe(
      'bad_signature',
    )
    const foreign = [{ ...certificate, meshId: peerIdOf(strangerKey) }]
    expect(await refusalOf(openMembership(await by({}), { meshId, certificates: foreign }))).toBe('bad_signature')
  })
})

describe('signed things', () => {
  test('open as what they are and as nothing else', async () => {
    const process = { meshId, machinePeerId, processPeerId: peerIdOf(strangerKey), kind: 'hub' as const, hubId: 'h' }
    const receipt = {
      hubId: 'h',
      agentId: 'a',
      taskId: 't',
      attemptId: 'x',
      attempt: 1,
      owner: machinePeerId,
      inputsHash: '',
      outcome: 'completed' as const,
      resultHash: '',
      claimedAtMs: 1,
      endedAtMs: 2,
      settledAtMs: 3,
      previousHash: '',
    }
    // The same key for all, so that only domain and payload type tell them apart.
    const self = { meshId: machinePeerId, machinePeerId, peerId: machinePeerId }
    const key = machineKey
    const envelopes = {
      membership: await signMembership(key, membership({ meshId: machinePeerId, issuerId: machinePeerId })),
      issuer: await signIssuerCertificate(key, {
        meshId: machinePeerId,
        issuerId: 'i',
        keyPeerId: machinePeerId,
        issuedAtMs: 1,
        expiresAtMs: 2,
      }),
      process: await signProcessCertificate(key, { ...process, issuedAtMs: 1, expiresAtMs: 2 }),
      revocations: await signRevocations(key, {
        meshId: machinePeerId,
        issuerId: machinePeerId,
        version: 1,
        entries: [],
      }),
      addresses: await signAddressRecord(key, { ...self, kind: 'node', addresses: [], relays: [], seq: 1 }),
      receipt: await sealReceipt(key, receipt),
    }
    const openers: Record<keyof typeof envelopes, (envelope: Uint8Array) => Promise<unknown>> = {
      membership: (envelope) => openMembership(envelope, self),
      issuer: (envelope) => openIssuerCertificate(envelope, self),
      process: (envelope) => openProcessCertificate(envelope, self),
      revocations: (envelope) => openRevocations(envelope, self),
      addresses: (envelope) => openAddressRecord(envelope, self),
      receipt: (envelope) => openReceipt(envelope, self),
    }

    for (const [made, envelope] of Object.entries(envelopes)) {
      for (const [asked, open] of Object.entries(openers)) {
        expect(await refusalOf(open(envelope)), `${made} opened as ${asked}`).toBe(
          made === asked ? undefined : 'bad_signature',
        )
      }
    }
  })

  test('open only for the one that is expected to have signed them', async () => {
    const process = {
      meshId,
      machinePeerId,
      processPeerId: meshId,
      kind: 'cli' as const,
      issuedAtMs: 1,
      expiresAtMs: 2,
    }
    const forged = await signProcessCertificate(strangerKey, process)
    const foreignAddress = await signAddressRecord(strangerKey, {
      meshId,
      peerId: machinePeerId,
      kind: 'node',
      addresses: ['/ip4/192.0.2.1/tcp/1'],
      relays: [],
      seq: 9,
    })

    expect(await refusalOf(openProcessCertificate(forged, { machinePeerId }))).toBe('bad_signature')
    expect(await refusalOf(openProcessCertificate(forged, { machinePeerId: peerIdOf(strangerKey) }))).toBe(
      'bad_signature',
    )
    expect(await refusalOf(openAddressRecord(foreignAddress, { meshId }))).toBe('bad_signature')
  })

  test('are refused with a payload type of another kind under the right domain', async () => {
    const payload = encodeMembership(membership())
    const record = {
      domain: 'nfltr/membership/1',
      codec: new TextEncoder().encode('/nfltr/receipt/1'),
      marshal: () => payload,
      equals: () => false,
    }
    const envelope = (await RecordEnvelope.seal(record, meshKey)).marshal()

    expect(await refusalOf(openMembership(envelope, { meshId }))).toBe('bad_signature')
  })

  test('are refused when a key of another kind signed them', async () => {
    const rsa = await generateKeyPair('secp256k1')
    const payload = encodeMembership(membership())
    const codec = new TextEncoder().encode('/nfltr/membership/1')
    const record = { domain: 'nfltr/membership/1', codec, marshal: () => payload, equals: () => false }
    const envelope = (await RecordEnvelope.seal(record, rsa)).marshal()

    expect(await refusalOf(openMembership(envelope, { meshId }))).toBe('bad_signature')
  })

  test('are refused with anything behind them, so that one thing has one hash', async () => {
    const envelope = await signMembership(meshKey, membership())

    expect(await refusalOf(openMembership(new Uint8Array([...envelope, 0xa0, 0x1f, 1]), { meshId }))).toBe(
      'bad_signature',
    )
  })

  test('are refused after any one byte was changed', async () => {
    const envelope = await signMembership(meshKey, membership())

    for (let index = 0; index < envelope.length; index++) {
      const changed = envelope.map((byte, at) => (at === index ? byte ^ 1 : byte))
      expect(await refusalOf(openMembership(changed, { meshId })), `byte ${index}`).toBe('bad_signature')
    }
  })

  test('are refused as junk with the same refusal', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (junk) => {
        expect(await refusalOf(openMembership(junk, { meshId }))).toBe('bad_signature')
      }),
      { numRuns: 300 },
    )
  })
})

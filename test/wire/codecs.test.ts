import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import { decodeAccount, encodeAccount } from '../../src/wire/account-codec.ts'
import { decodeHandshake, encodeHandshake } from '../../src/wire/handshake-codec.ts'
import * as records from '../../src/wire/record-codec.ts'
import { decodeRoster, encodeRoster } from '../../src/wire/roster-codec.ts'
import { decodeFrame, encodeFrame } from '../../src/wire/session-codec.ts'
import { decodeWork, encodeWork } from '../../src/wire/work-codec.ts'
import { account, frame, work } from './arbitraries.ts'
import * as handshakes from './handshake-arbitraries.ts'

interface Codec {
  readonly name: string
  readonly decode: (bytes: Uint8Array) => unknown
  /** Encoded messages together with what they say. */
  readonly messages: fc.Arbitrary<{ readonly value: unknown; readonly bytes: Uint8Array }>
}

function codec<T>(
  name: string,
  values: fc.Arbitrary<T>,
  encode: (value: T) => Uint8Array,
  decode: (bytes: Uint8Array) => unknown,
): Codec {
  return { name, decode, messages: values.map((value) => ({ value, bytes: encode(value) })) }
}

const codecs: readonly Codec[] = [
  codec('session frame', frame, encodeFrame, decodeFrame),
  codec('work message', work, encodeWork, decodeWork),
  codec('handshake message', handshakes.handshake, encodeHandshake, (bytes) => decodeHandshake(bytes)),
  codec('roster message', handshakes.roster, encodeRoster, decodeRoster),
  codec('account message', account, encodeAccount, decodeAccount),
  codec('membership', handshakes.membership, records.encodeMembership, records.decodeMembership),
  codec(
    'issuer certificate',
    handshakes.issuerCertificate,
    records.encodeIssuerCertificate,
    records.decodeIssuerCertificate,
  ),
  codec(
    'process certificate',
    handshakes.processCertificate,
    records.encodeProcessCertificate,
    records.decodeProcessCertificate,
  ),
  codec('revocation list', handshakes.revocations, records.encodeRevocations, records.decodeRevocations),
  codec('address record', handshakes.addressRecord, records.encodeAddressRecord, records.decodeAddressRecord),
  codec('receipt', handshakes.receipt, records.encodeReceipt, records.decodeReceipt),
  codec('invite', handshakes.invitePayload, records.encodeInvitePayload, records.decodeInvitePayload),
]

/** Runs a decoder over bytes that may be anything. Fails on every throw that is not a typed refusal of the bytes. */
function decodesOrRefuses(decode: (bytes: Uint8Array) => unknown, bytes: Uint8Array): void {
  try {
    decode(bytes)
  } catch (error) {
    if (!(error instanceof NfltrError) || !['invalid_frame', 'frame_too_large'].includes(error.code)) throw error
  }
}

/** One valid message with some bytes replaced, taken out or put in. */
const damage = fc.array(
  fc.record({ at: fc.nat(), remove: fc.nat({ max: 4 }), insert: fc.uint8Array({ maxLength: 4 }) }),
  { minLength: 1, maxLength: 4 },
)

function damaged(bytes: Uint8Array, edits: readonly { at: number; remove: number; insert: Uint8Array }[]): Uint8Array {
  let current = [...bytes]
  for (const { at, remove, insert } of edits) current = current.toSpliced(at % (current.length + 1), remove, ...insert)
  return new Uint8Array(current)
}

describe.each(codecs)('$name', ({ decode, messages }) => {
  test('comes back as it was sent', () => {
    fc.assert(
      fc.property(messages, ({ value, bytes }) => {
        expect(decode(bytes)).toEqual(value)
      }),
      { numRuns: 300 },
    )
  })

  test('is read from a slice of a larger buffer as from bytes of its own', () => {
    fc.assert(
      fc.property(messages, ({ value, bytes }) => {
        const buffer = Buffer.concat([Buffer.from([8, 255]), bytes, Buffer.from([1])])

        expect(decode(buffer.subarray(2, 2 + bytes.length))).toEqual(value)
      }),
      { numRuns: 30 },
    )
  })

  test('refuses any bytes with a typed refusal and nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => decodesOrRefuses(decode, bytes)),
      { numRuns: 1000 },
    )
  })

  test('refuses damaged messages with a typed refusal and nothing else', () => {
    fc.assert(
      fc.property(messages, damage, ({ bytes }, edits) => decodesOrRefuses(decode, damaged(bytes, edits))),
      { numRuns: 500 },
    )
  })

  test('ignores fields that it does not know', () => {
    // Field 500: a number; field 501: three bytes; field 502: eight; field 503: four.
    const unknown = [
      0xa0, 0x1f, 0x07, 0xaa, 0x1f, 3, 1, 2, 3, 0xb1, 0x1f, 1, 2, 3, 4, 5, 6, 7, 8, 0xbd, 0x1f, 1, 2, 3, 4,
    ]

    fc.assert(
      fc.property(messages, ({ value, bytes }) => {
        expect(decode(new Uint8Array([...unknown, ...bytes, ...unknown]))).toEqual(value)
      }),
      { numRuns: 50 },
    )
  })
})

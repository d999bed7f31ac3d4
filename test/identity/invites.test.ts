import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import {
  decodeInvite,
  encodeInvite,
  type Invite,
  inviteProof,
  type ProofInput,
  proofsEqual,
} from '../../src/identity/invites.ts'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'

let invite: Invite
let line: string

beforeAll(async () => {
  invite = {
    meshId: peerIdOf(await generateKey()),
    issuerPeerId: peerIdOf(await generateKey()),
    addresses: ['/ip4/192.0.2.7/tcp/4702', '/ip6/2001:db8::7/tcp/4702'],
    relays: [],
    inviteId: 'a1'.repeat(16),
    secret: new Uint8Array(16).fill(9),
    expiresAtMs: 1_800_000_000_000,
  }
  line = encodeInvite(invite)
})

function problemOf(text: string): unknown {
  try {
    decodeInvite(text)
    return undefined
  } catch (error) {
    if (error instanceof NfltrError && error.code === 'invite_invalid') return error.details['problem']
    throw error
  }
}

describe('an invite', () => {
  test('comes back as it was made', () => {
    expect(line).toMatch(/^nfltr1\.[\w-]+\.[\w-]{8}$/)
    expect(decodeInvite(line)).toEqual(invite)
  })

  test('survives the white space that terminals and mail put into it', () => {
    const wrapped = `  ${line.replace(/(.{40})/g, '$1\r\n  ')}\n`

    expect(decodeInvite(wrapped)).toEqual(invite)
  })

  test('that was cut anywhere is told from one that was altered', () => {
    for (let length = 'nfltr1.'.length; length < line.length; length++) {
      expect(problemOf(line.slice(0, length)), `${length} characters`).toBe('cut')
    }
  })

  test('that was altered in any one character is refused', () => {
    for (let index = 'nfltr1.'.length; index < line.length; index++) {
      const changed = `${line.slice(0, index)}${line[index] === 'A' ? 'B' : 'A'}${line.slice(index + 1)}`
      expect(['altered', 'cut'], `character ${index}`).toContain(problemOf(changed))
    }
    expect(problemOf(`${line}A`)).toBe('altered')
    expect(problemOf(`${line}.A`)).toBe('altered')
  })

  test('of a newer version, and what is no invite, are named', () => {
    expect(problemOf(line.replace('nfltr1.', 'nfltr2.'))).toBe('newer_version')
    expect(problemOf(line.slice(3))).toBe('not_an_invite')
    expect(problemOf('')).toBe('not_an_invite')
    expect(problemOf('https://example.org')).toBe('not_an_invite')
  })

  test('is never anything but an invite or refused, whatever follows its prefix', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 100 }), (rest) => {
        expect(['cut', 'altered']).toContain(problemOf(`nfltr1.${rest}`))
      }),
      { numRuns: 500 },
    )
  })

  test('is refused with a message that does not hold its secret', () => {
    try {
      decodeInvite(`${line}x`)
      expect.unreachable()
    } catch (error) {
      expect(JSON.stringify(error) + String(error)).not.toContain(line.slice(7, 40))
    }
  })
})

describe('a proof', () => {
  const input = (over: Partial<ProofInput> = {}): ProofInput => ({
    secret: invite.secret,
    side: 'issuer',
    meshId: invite.meshId,
    inviteId: invite.inviteId,
    issuerPeerId: invite.issuerPeerId,
    joinerPeerId: 'joiner',
    issuerNonce: new Uint8Array(32).fill(1),
    joinerNonce: new Uint8Array(32).fill(2),
    ...over,
  })

  test('is the same on both sides', () => {
    expect(proofsEqual(inviteProof(input()), inviteProof(input()))).toBe(true)
    expect(inviteProof(input())).toHaveLength(32)
  })

  test('is another one when anything that it names is another', () => {
    const others: readonly Partial<ProofInput>[] = [
      { secret: new Uint8Array(16).fill(8) },
      { side: 'joiner' },
      { meshId: invite.issuerPeerId },
      { inviteId: 'b2'.repeat(16) },
      { issuerPeerId: 'impostor' },
      { joinerPeerId: 'man in the middle' },
      { issuerNonce: new Uint8Array(32) },
      { joinerNonce: new Uint8Array(32) },
      { issuerNonce: new Uint8Array(32).fill(2), joinerNonce: new Uint8Array(32).fill(1) },
      // A character that moves from one part to the next.
      { issuerPeerId: `${invite.issuerPeerId}j`, joinerPeerId: 'oiner' },
    ]

    for (const other of others) expect(proofsEqual(inviteProof(input()), inviteProof(input(other)))).toBe(false)
    expect(proofsEqual(inviteProof(input()), inviteProof(input()).subarray(1))).toBe(false)
  })
})

import { generateKeyPair, privateKeyToProtobuf } from '@libp2p/crypto/keys'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { describe, expect, test } from 'vitest'
import {
  fingerprintOf,
  generateKey,
  keyFromBytes,
  keyToBytes,
  peerIdOf,
  peerIdOfRaw,
  publicKeyOf,
} from '../../src/identity/keys.ts'

describe('a key', () => {
  test('is the same after it was written and read', async () => {
    const key = await generateKey()

    const again = keyFromBytes(keyToBytes(key))

    expect(again.equals(key)).toBe(true)
    expect(peerIdOf(again)).toBe(peerIdOf(key))
  })

  test('comes from the given randomness where one is given', async () => {
    const random = { next: () => 0, bytes: (count: number) => new Uint8Array(count).fill(7) }

    expect(peerIdOf(await generateKey(random))).toBe(peerIdOf(await generateKey(random)))
    expect(peerIdOf(await generateKey())).not.toBe(peerIdOf(await generateKey()))
  })

  test('is refused when the bytes are none, or a key of another kind', async () => {
    const other = privateKeyToProtobuf(await generateKeyPair('secp256k1'))

    expect(() => keyFromBytes(new Uint8Array([1, 2, 3]))).toThrow(expect.objectContaining({ code: 'store_damaged' }))
    expect(() => keyFromBytes(other)).toThrow(expect.objectContaining({ code: 'store_damaged' }))
  })
})

describe('a PeerId', () => {
  test('is the public key, in text and back', async () => {
    const key = await generateKey()
    const peerId = peerIdOf(key)

    expect(peerId).toBe(peerIdFromPrivateKey(key).toString())
    expect(publicKeyOf(peerId).equals(key.publicKey)).toBe(true)
    expect(peerIdOfRaw(key.publicKey.raw)).toBe(peerId)
  })

  test('of another kind of key, in another spelling, or none at all is refused', async () => {
    const other = peerIdFromPrivateKey(await generateKeyPair('secp256k1')).toString()
    const cid = peerIdFromPrivateKey(await generateKey())
      .toCID()
      .toString()

    for (const text of [other, cid, '', 'vm1', '../../etc/passwd', '12D3KooW']) {
      expect(() => publicKeyOf(text), text).toThrow(expect.objectContaining({ code: 'bad_signature' }))
    }
    expect(() => peerIdOfRaw(new Uint8Array(5))).toThrow(expect.objectContaining({ code: 'bad_signature' }))
  })

  test('has a fingerprint of 64 hex digits', async () => {
    const key = await generateKey()

    expect(fingerprintOf(key.publicKey)).toMatch(/^SHA256:[0-9a-f]{64}$/)
    expect(fingerprintOf(peerIdOf(key))).toBe(fingerprintOf(key.publicKey))
  })
})

import {
  generateKeyPair,
  generateKeyPairFromSeed,
  privateKeyFromProtobuf,
  privateKeyToProtobuf,
  publicKeyFromRaw,
} from '@libp2p/crypto/keys'
import type { Ed25519PrivateKey, Ed25519PublicKey } from '@libp2p/interface'
import { peerIdFromPublicKey, peerIdFromString } from '@libp2p/peer-id'
import { NfltrError } from '../core/errors.ts'
import type { Random } from '../ports/random.ts'
import { sha256 } from './hash.ts'

/** Every key of ours is Ed25519: a machine's, a process's, a mesh's. */
export type PrivateKey = Ed25519PrivateKey
export type PublicKey = Ed25519PublicKey

/** A new key from the system's generator, or from the given one. */
export async function generateKey(random?: Random): Promise<PrivateKey> {
  return random === undefined ? generateKeyPair('Ed25519') : generateKeyPairFromSeed('Ed25519', random.bytes(32))
}

/** A key's bytes as its file holds them: libp2p's protobuf form. */
export function keyToBytes(key: PrivateKey): Uint8Array {
  return privateKeyToProtobuf(key)
}

/** @throws {NfltrError} `store_damaged` when the bytes are no Ed25519 key of libp2p */
export function keyFromBytes(bytes: Uint8Array): PrivateKey {
  let key: ReturnType<typeof privateKeyFromProtobuf>
  try {
    key = privateKeyFromProtobuf(bytes)
  } catch (cause) {
    throw new NfltrError('store_damaged', 'A key file did not hold a key.', { cause })
  }
  if (key.type !== 'Ed25519') throw new NfltrError('store_damaged', `A key file held a key of kind ${key.type}.`)
  return key
}

/** The PeerId of a key: for Ed25519 the public key itself, in text. */
export function peerIdOf(key: PrivateKey | PublicKey): string {
  return peerIdFromPublicKey('publicKey' in key ? key.publicKey : key).toString()
}

/** @throws {NfltrError} `bad_signature` when the text is no PeerId that holds an Ed25519 key */
export function publicKeyOf(peerId: string): PublicKey {
  try {
    const parsed = peerIdFromString(peerId)
    // One key, one text: anything else that parses to it would be a second name for the same peer.
    if (parsed.type === 'Ed25519' && parsed.toString() === peerId) return parsed.publicKey
  } catch {
    // Whatever the parser says, the text is no PeerId of ours.
  }
  throw new NfltrError('bad_signature', 'A text that should name a peer was no PeerId with an Ed25519 key.')
}

/** Spelling a key in base58 takes longer than all else but the signature, and a process meets the same few keys. */
const spelled = new Map<string, string>()
const spelledMax = 256

/** The PeerId of a raw public key of 32 bytes. @throws {NfltrError} `bad_signature` */
export function peerIdOfRaw(raw: Uint8Array): string {
  const name = Buffer.from(raw.buffer, raw.byteOffset, raw.length).toString('latin1')
  const known = spelled.get(name)
  if (known !== undefined) return known
  try {
    const key = publicKeyFromRaw(raw)
    if (key.type === 'Ed25519') {
      const peerId = peerIdFromPublicKey(key).toString()
      if (spelled.size >= spelledMax) spelled.clear()
      spelled.set(name, peerId)
      return peerId
    }
  } catch {
    // Falls through: no key.
  }
  throw new NfltrError('bad_signature', 'Bytes that should be a public key were none.')
}

/** What people compare: `SHA256:` and the SHA-256 of the raw public key in 64 hex digits. @throws {NfltrError} `bad_signature` */
export function fingerprintOf(peer: string | PublicKey): string {
  const key = typeof peer === 'string' ? publicKeyOf(peer) : peer
  return `SHA256:${Buffer.from(sha256(key.raw)).toString('hex')}`
}

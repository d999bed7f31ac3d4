import { createPublicKey, type KeyObject, verify } from 'node:crypto'

/** Whether a raw Ed25519 key of 32 bytes signed the message. Never rejects for what a stranger sent. */
export type VerifySignature = (key: Uint8Array, message: Uint8Array, signature: Uint8Array) => Promise<boolean>

/**
 * What the signature of an envelope is over: domain, payload type and payload, each after its length.
 *
 * @see https://github.com/libp2p/specs/blob/master/RFC/0002-signed-envelopes.md#signature-production
 */
export function signedBytes(domain: string, payloadType: Uint8Array, payload: Uint8Array): Uint8Array {
  const parts = [Buffer.from(domain), payloadType, payload]
  return Buffer.concat(parts.flatMap((part) => [varint(part.length), part]))
}

function varint(value: number): Uint8Array {
  const bytes: number[] = []
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Uint8Array.from([...bytes, rest])
    bytes.push((rest % 128) | 128)
  }
}

/**
 * Verifies in the threads that Node keeps for such work, so that many signatures take as long as the processors need and the
 * caller goes on meanwhile. Keys that were seen stay parsed: an audit meets the same few again and again.
 */
export function verifierInThreads(): VerifySignature {
  const keys = new Map<string, KeyObject>()
  return async (raw, message, signature) => {
    const name = Buffer.from(raw).toString('base64url')
    const key = keys.get(name) ?? createPublicKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x: name } })
    if (keys.size < keysMax) keys.set(name, key)
    return await new Promise((resolve, reject) => {
      verify(null, message, key, signature, (error, isSound) => (error === null ? resolve(isSound) : reject(error)))
    })
  }
}

/** Whoever hands over receipts chooses their keys. */
const keysMax = 1_000

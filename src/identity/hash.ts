import { hash } from 'node:crypto'

/** SHA-256 of the chunks, one after the other: 32 bytes. */
export function sha256(...chunks: readonly Uint8Array[]): Uint8Array {
  // In one call: an object that is told of each chunk costs more than a copy of what is usually a few hundred bytes.
  const [only = new Uint8Array(), ...more] = chunks
  return new Uint8Array(hash('sha256', more.length === 0 ? only : Buffer.concat(chunks), 'buffer'))
}

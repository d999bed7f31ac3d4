import { createHash } from 'node:crypto'

/** SHA-256 of the chunks, one after the other: 32 bytes. */
export function sha256(...chunks: readonly Uint8Array[]): Uint8Array {
  const hash = createHash('sha256')
  for (const chunk of chunks) hash.update(chunk)
  return new Uint8Array(hash.digest())
}

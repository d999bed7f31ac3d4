import { createHash, hash } from 'node:crypto'

/** SHA-256 of the chunks, one after the other: 32 bytes. */
export function sha256(...chunks: readonly Uint8Array[]): Uint8Array {
  const [only] = chunks
  if (chunks.length === 1 && only !== undefined) return new Uint8Array(hash('sha256', only, 'buffer'))
  const all = createHash('sha256')
  for (const chunk of chunks) all.update(chunk)
  return new Uint8Array(all.digest())
}

import { sha256 } from '../identity/hash.ts'

/** SHA-256 of a text's UTF-8 bytes, 64 hex digits. */
export function sha256Hex(text: string): string {
  return hex(sha256(new TextEncoder().encode(text)))
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/**
 * How hub and node write their own records into their stores: JSON, with bytes as `{"$bytes": base64}`. The store adds
 * format version and checksum around it. Nothing here crosses the wire.
 */
export function encodeRecord(value: unknown): Uint8Array {
  // A replacer that is asked for every field takes several times as long, and few records hold bytes.
  return toUtf8.encode(holdsBytes(value) ? JSON.stringify(value, replaceBytes) : JSON.stringify(value))
}

const toUtf8 = new TextEncoder()
const fromUtf8 = new TextDecoder()

function holdsBytes(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (value instanceof Uint8Array) return true
  if (Array.isArray(value)) return value.some(holdsBytes)
  for (const key in value) if (holdsBytes((value as Readonly<Record<string, unknown>>)[key])) return true
  return false
}

/** A Buffer has turned itself into an object of numbers before a replacer sees it, so the field is taken from its holder. */
function replaceBytes(this: Readonly<Record<string, unknown>>, key: string, field: unknown): unknown {
  const original = this[key]
  return original instanceof Uint8Array ? { $bytes: toBase64(original) } : field
}

/** Reads back what `encodeRecord` wrote. The type is the writer's word: the store has checked that the bytes are the writer's. */
export function decodeRecord<T>(bytes: Uint8Array): T {
  const text = fromUtf8.decode(bytes)
  // Looking at every field takes most of the time, and few records hold bytes.
  if (!text.includes(bytesKey)) return JSON.parse(text) as T
  return JSON.parse(text, (_key, field: unknown) => (isBytesField(field) ? fromBase64(field.$bytes) : field)) as T
}

/** The same record with its bytes left as they are written, in base64: for whoever hands them on in text. */
export type BytesAsText<T> = { readonly [K in keyof T]: T[K] extends Uint8Array ? { readonly $bytes: string } : T[K] }

/** Reads back what `encodeRecord` wrote, with bytes in its own fields as base64. */
export function decodeRecordAsText<T>(bytes: Uint8Array): BytesAsText<T> {
  return JSON.parse(fromUtf8.decode(bytes)) as BytesAsText<T>
}

const bytesKey = '"$bytes"'

function isBytesField(field: unknown): field is { $bytes: string } {
  return typeof field === 'object' && field !== null && '$bytes' in field && typeof field.$bytes === 'string'
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

const digitValues = new Map([...alphabet].map((digit, value) => [digit, value]))

function toBase64(bytes: Uint8Array): string {
  let text = ''
  for (let index = 0; index < bytes.length; index += 3) {
    const group = ((bytes[index] ?? 0) << 16) | ((bytes[index + 1] ?? 0) << 8) | (bytes[index + 2] ?? 0)
    text += alphabet.charAt((group >> 18) & 63) + alphabet.charAt((group >> 12) & 63)
    text += index + 1 < bytes.length ? alphabet.charAt((group >> 6) & 63) : '='
    text += index + 2 < bytes.length ? alphabet.charAt(group & 63) : '='
  }
  return text
}

function fromBase64(text: string): Uint8Array {
  const digits = text.replace(/=+$/, '')
  const bytes = new Uint8Array(Math.floor((digits.length * 3) / 4))
  let group = 0
  let bits = 0
  let at = 0
  for (const digit of digits) {
    group = (group << 6) | (digitValues.get(digit) ?? -1)
    bits += 6
    if (bits >= 8) {
      bits -= 8
      bytes[at++] = (group >> bits) & 255
      group &= (1 << bits) - 1
    }
  }
  return bytes
}

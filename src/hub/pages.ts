/**
 * Cutting texts so that a reply stays within its bound. Offsets are bytes of UTF-8 and lie on character boundaries; bounds
 * are bytes of the reply's JSON, where a line feed or a quotation mark takes two.
 */
export interface Page {
  readonly text: string
  /** Where the next page starts; absent when this one reached the end. */
  readonly nextOffset?: number
}

const utf8 = new TextEncoder()
// A byte order mark is part of the text.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Bytes of a value's JSON text. */
export function jsonBytes(value: unknown): number {
  return utf8.encode(JSON.stringify(value)).length
}

/**
 * As much of a text from `offset` on as fits into `maxJsonBytes`, but at least `minBytes` of it (or all that is left).
 *
 * @param text UTF-8
 * @param offset moved back to the start of the character that it points into
 */
export function cutPage(
  text: Uint8Array,
  { offset, maxJsonBytes, minBytes }: { offset: number; maxJsonBytes: number; minBytes: number },
): Page {
  const start = characterStart(text, Math.min(offset, text.length))
  let end = start
  let used = 0
  while (end < text.length) {
    const size = characterBytes(text[end] ?? 0)
    used += jsonBytesOf(text[end] ?? 0, size)
    if (used > maxJsonBytes && end - start >= minBytes) break
    end += size
  }
  const page = decoder.decode(text.subarray(start, Math.min(end, text.length)))
  return end >= text.length ? { text: page } : { text: page, nextOffset: end }
}

/** JSON bytes of the shortest page that `cutPage` may give from the start of a text. */
export function firstPageJsonBytes(text: Uint8Array, minBytes: number): number {
  return jsonBytes(cutPage(text, { offset: 0, maxJsonBytes: 0, minBytes }).text) - 2
}

function characterStart(text: Uint8Array, offset: number): number {
  let start = offset
  while (start > 0 && start < text.length && ((text[start] ?? 0) & 0xc0) === 0x80) start -= 1
  return start
}

function characterBytes(first: number): number {
  if (first < 0x80) return 1
  if (first < 0xe0) return 2
  return first < 0xf0 ? 3 : 4
}

const shortEscapes = new Set([0x22, 0x5c, 0x08, 0x09, 0x0a, 0x0c, 0x0d])

/** How long `JSON.stringify` makes a character: `\n` and the like take two bytes, other control characters six. */
function jsonBytesOf(first: number, size: number): number {
  if (shortEscapes.has(first)) return 2
  return first < 0x20 ? 6 : size
}

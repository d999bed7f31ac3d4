import { limits } from '../core/limits.ts'
import type { AttemptResult } from '../core/model.ts'

const fieldsMax = 32
const fieldNameMaxBytes = limits.labelMaxBytes
const toolNameMaxBytes = 256

/**
 * Cuts what a program reported to what the wire takes, so that a result never waits for ever in front of a hub that has to
 * refuse it. The text itself is whole up to the report's bound, far above what a model writes in one turn.
 */
export function boundResult(result: AttemptResult): AttemptResult {
  const text = clip(result.text, limits.resultTextMaxBytes)
  const cut = text.length < result.text.length ? { text_cut_from_characters: String(result.text.length) } : {}
  return {
    ...result,
    text,
    denied: result.denied.slice(0, limits.deniedMax).map(({ tool, input }) => ({
      tool: clip(tool, toolNameMaxBytes),
      input: clip(input, limits.deniedInputMaxBytes),
    })),
    details: boundFields({ ...cut, ...result.details }),
    ...(result.hint === undefined ? {} : { hint: clip(result.hint, limits.detailMaxBytes) }),
  }
}

/** Small facts stay small: what a program reports is cut to what the wire takes, and never refused by it later. */
export function boundFields(fields: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const kept = Object.entries(fields).slice(0, fieldsMax)
  return Object.fromEntries(
    kept.map(([name, value]) => [clip(name, fieldNameMaxBytes), clip(value, limits.detailMaxBytes)]),
  )
}

/** The longest beginning of a text within `maxBytes` of UTF-8, cut between characters; half characters become U+FFFD. */
export function clip(text: string, maxBytes: number): string {
  const whole = text.toWellFormed()
  // No character has more than three bytes for each of its UTF-16 units.
  if (whole.length * 3 <= maxBytes) return whole
  const bytes = new TextEncoder().encode(whole)
  if (bytes.length <= maxBytes) return whole
  let at = maxBytes
  while (at > 0 && ((bytes[at] ?? 0) & 0xc0) === 0x80) at -= 1
  return new TextDecoder().decode(bytes.subarray(0, at))
}

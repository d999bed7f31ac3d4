import { clip } from '../core/clip.ts'
import { limits } from '../core/limits.ts'
import type { AttemptResult, Usage } from '../core/model.ts'

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
    usage: boundUsage(result.usage),
    details: boundFields({ ...cut, ...result.details }),
    ...(result.hint === undefined ? {} : { hint: clip(result.hint, limits.detailMaxBytes) }),
  }
}

/** Amounts as the wire takes them: a program whose clock was set back reports a negative duration. */
function boundUsage({ inputTokens, outputTokens, costUsd, durationMs }: Usage): Usage {
  const amount = (value: number): number => Math.min(Math.max(value, 0), Number.MAX_SAFE_INTEGER)
  return {
    inputTokens: amount(inputTokens),
    outputTokens: amount(outputTokens),
    costUsd: amount(costUsd),
    durationMs: amount(durationMs),
  }
}

/** Small facts stay small: what a program reports is cut to what the wire takes, and never refused by it later. */
export function boundFields(fields: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const kept = Object.entries(fields).slice(0, fieldsMax)
  return Object.fromEntries(
    kept.map(([name, value]) => [clip(name, fieldNameMaxBytes), clip(value, limits.detailMaxBytes)]),
  )
}

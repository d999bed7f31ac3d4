import { cutLineHeadBytes, lineMaxBytes } from './journal.ts'

/** One line of the command, or the head of one that was over the bound. */
export type Line =
  | { readonly type: 'whole'; readonly bytes: Buffer }
  | { readonly type: 'cut'; readonly head: Buffer; readonly lineBytes: number }

export interface LineSplitter {
  push(chunk: Buffer): readonly Line[]
  /** What was left without a line feed when the output ended: a last line like any other. */
  end(): readonly Line[]
}

/**
 * Splits output into lines. A line over the bound is not kept whole: its first bytes and its length are, and the rest is
 * read past, so that one line can neither fill the memory nor end the turn.
 */
export function lineSplitter(maxBytes: number = lineMaxBytes): LineSplitter {
  let parts: Buffer[] = []
  let lineBytes = 0

  function take(part: Buffer): void {
    const wasCut = lineBytes > maxBytes
    lineBytes += part.length
    if (wasCut) return
    parts.push(part)
    // Over the bound only the head is of use from here on: let go of the rest.
    if (lineBytes > maxBytes) parts = [Buffer.from(Buffer.concat(parts).subarray(0, cutLineHeadBytes))]
  }

  function finish(): Line {
    const bytes = parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts)
    const line: Line = lineBytes <= maxBytes ? { type: 'whole', bytes } : { type: 'cut', head: bytes, lineBytes }
    parts = []
    lineBytes = 0
    return line
  }

  return {
    push(chunk) {
      const lines: Line[] = []
      let at = 0
      for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, at)) {
        take(chunk.subarray(at, end))
        lines.push(finish())
        at = end + 1
      }
      if (at < chunk.length) take(chunk.subarray(at))
      return lines
    },
    end: () => (lineBytes === 0 ? [] : [finish()]),
  }
}

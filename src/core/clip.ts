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

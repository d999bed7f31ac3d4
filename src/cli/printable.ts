/**
 * Text from others as a terminal may see it: without control characters, escape sequences, bidirectional overrides and tag
 * characters (rule 36). Line feeds and tabs stay. The store keeps the bytes as they came; this is the last step before a person.
 */
export function printable(text: string): string {
  let clean = ''
  for (const character of text) if (isPrintable(character.codePointAt(0) ?? 0)) clean += character
  return clean
}

function isPrintable(point: number): boolean {
  if (point === 0x0a || point === 0x09) return true
  if (point < 0x20 || (point >= 0x7f && point <= 0x9f)) return false
  if (point === 0x061c || point === 0x200e || point === 0x200f) return false
  if (point >= 0x202a && point <= 0x202e) return false
  if (point >= 0x2066 && point <= 0x2069) return false
  return !(point >= 0xe0000 && point <= 0xe007f)
}

/** Digits of a number inside a key: enough for every safe integer. */
const digits = 16

/**
 * A whole number as it stands in a store's key, so that keys sort as their numbers do.
 *
 * @param value - from 0 to `Number.MAX_SAFE_INTEGER`; anything else is a bug and throws
 */
export function keyNumber(value: number): string {
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`not a number for a key: ${value}`)
  return String(value).padStart(digits, '0')
}

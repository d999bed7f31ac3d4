/** The reflected polynomial of CRC-32C (Castagnoli). */
const polynomial = 0x82f63b78
const lanes = 8

/** `tables[k * 256 + byte]`: what a byte adds when `k` more bytes follow it in a group of eight. */
const tables = makeTables()

function makeTables(): Int32Array {
  const made = new Int32Array(lanes * 256)
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte
    for (let bit = 0; bit < 8; bit++) crc = (crc & 1) === 1 ? (crc >>> 1) ^ polynomial : crc >>> 1
    made[byte] = crc
  }
  for (let at = 256; at < made.length; at++) {
    const before = made[at - 256] ?? 0
    made[at] = (before >>> 8) ^ (made[before & 0xff] ?? 0)
  }
  return made
}

/** One more byte into a running CRC that is kept without its final complement. */
export function crcStep(crc: number, byte: number): number {
  return (tables[(crc ^ byte) & 0xff] ?? 0) ^ (crc >>> 8)
}

/**
 * CRC-32C, the checksum of LevelDB's own files, eight bytes at a time: Node has none of this polynomial.
 *
 * @param crc - of the bytes before these
 */
export function crc32c(bytes: Uint8Array, crc = 0): number {
  let state = ~crc
  const { length } = bytes
  const view = new DataView(bytes.buffer, bytes.byteOffset, length)
  let at = 0
  // An index that is always inside the table: the fallback is for the type only, and costs nothing measurable.
  for (; at + lanes <= length; at += lanes) {
    const low = state ^ view.getInt32(at, true)
    const high = view.getInt32(at + 4, true)
    state =
      (tables[1792 + (low & 0xff)] ?? 0) ^
      (tables[1536 + ((low >>> 8) & 0xff)] ?? 0) ^
      (tables[1280 + ((low >>> 16) & 0xff)] ?? 0) ^
      (tables[1024 + (low >>> 24)] ?? 0) ^
      (tables[768 + (high & 0xff)] ?? 0) ^
      (tables[512 + ((high >>> 8) & 0xff)] ?? 0) ^
      (tables[256 + ((high >>> 16) & 0xff)] ?? 0) ^
      (tables[high >>> 24] ?? 0)
  }
  for (; at < length; at++) state = crcStep(state, bytes[at] ?? 0)
  return ~state >>> 0
}

/** A checksum as LevelDB stores it: rotated and shifted, so that a CRC over bytes that hold CRCs stays one. */
export function maskCrc(crc: number): number {
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0
}

export function unmaskCrc(masked: number): number {
  const rotated = (masked - 0xa282ead8) >>> 0
  return ((rotated >>> 17) | (rotated << 15)) >>> 0
}

/**
 * Puts right one flipped bit: each single bit of a text changes its CRC in a way of its own, so the difference says which.
 *
 * @param bytes - changed in place
 * @param expected - the CRC that was stored beside them
 * @returns whether the bytes are now those that the CRC was made of
 */
export function correctBit(bytes: Uint8Array, expected: number): boolean {
  const difference = (crc32c(bytes) ^ expected) >>> 0
  if (difference === 0) return true
  // The effect of the last bit; that of each bit before is one step of the register more.
  let effect = polynomial
  for (let bit = bytes.length * 8 - 1; bit >= 0; bit--) {
    if (effect >>> 0 === difference) {
      bytes[bit >>> 3] = (bytes[bit >>> 3] ?? 0) ^ (1 << (bit & 7))
      return true
    }
    effect = (effect & 1) === 1 ? (effect >>> 1) ^ polynomial : effect >>> 1
  }
  return false
}

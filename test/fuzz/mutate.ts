import type { SeededRandom } from '../../sim/random.ts'

/** One field of a Protobuf message, as it lies on the wire. */
interface Field {
  readonly number: number
  readonly wireType: number
  /** What follows the tag: of a length-delimited field without its length. */
  readonly content: Uint8Array
}

const hostileTexts = [
  '',
  '\0',
  '\u001b[2J',
  '../../../etc/passwd',
  '__proto__',
  '\u202e',
  'é'.repeat(40),
  'NaN',
  '-1',
  ' ',
]
const hostileNumbers = [0n, 1n, 127n, 128n, 2n ** 31n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n]
const utf8 = new TextEncoder()

/**
 * A message that is wrong somewhere: one that was valid, with fields dropped, repeated, put elsewhere, given other numbers,
 * types, lengths or contents at any depth, or with bytes changed; or bytes that never were one.
 */
export function mutate(random: SeededRandom, valid: readonly Uint8Array[]): Uint8Array {
  const bytes = random.pick(valid)
  const how = random.next()
  if (how < 0.05) return bytes
  if (how < 0.12) return random.bytes(random.int(0, 300))
  if (how < 0.4) return damage(random, bytes)
  let current = bytes
  for (let round = random.int(1, 3); round > 0; round--) current = reshape(random, current, random.pick(valid), 0)
  return random.chance(0.1) ? damage(random, current) : current
}

/** Bytes replaced, taken out, put in, or cut off. */
export function damage(random: SeededRandom, bytes: Uint8Array): Uint8Array {
  if (random.chance(0.2)) return bytes.slice(0, random.int(0, bytes.length))
  const current = [...bytes]
  for (let edit = random.int(1, 4); edit > 0; edit--) {
    current.splice(random.int(0, current.length), random.int(0, 4), ...random.bytes(random.int(0, 4)))
  }
  return new Uint8Array(current)
}

function reshape(random: SeededRandom, bytes: Uint8Array, other: Uint8Array, depth: number): Uint8Array {
  const fields = parse(bytes)
  if (fields === undefined || fields.length === 0) return damage(random, bytes)
  const at = random.int(0, fields.length - 1)
  const field = fields[at]
  if (field === undefined) return bytes
  const rest = fields.toSpliced(at, 1)
  const replaced = (...by: readonly Field[]): Uint8Array => write(fields.toSpliced(at, 1, ...by))
  switch (random.int(0, 9)) {
    case 0:
      return write(rest)
    case 1:
      return replaced(...Array<Field>(random.pick([2, 2, 3, 500])).fill(field))
    case 2:
      return write(rest.toSpliced(random.int(0, rest.length), 0, field))
    case 3:
      return replaced({ ...field, number: Math.max(1, random.pick([field.number + 1, field.number - 1, 500, 1])) })
    case 4:
      return replaced({ ...field, wireType: random.int(0, 7) })
    case 5: {
      const stranger = random.pick(parse(other) ?? fields)
      return write(fields.toSpliced(random.int(0, fields.length), 0, stranger))
    }
    default:
      return replaced({ ...field, content: otherContent(random, field, { other, depth }) })
  }
}

function otherContent(
  random: SeededRandom,
  field: Field,
  { other, depth }: { readonly other: Uint8Array; readonly depth: number },
): Uint8Array {
  if (field.wireType === 0) return varint(random.pick(hostileNumbers))
  if (field.wireType !== 2) return random.bytes(field.content.length)
  if (depth < 6 && random.chance(0.6) && parse(field.content) !== undefined) {
    return reshape(random, field.content, other, depth + 1)
  }
  switch (random.int(0, 5)) {
    case 0:
      return new Uint8Array()
    case 1:
      return utf8.encode(random.pick(hostileTexts))
    case 2:
      return new Uint8Array(random.pick([64, 65, 128, 129, 256, 257, 4_096, 4_097])).fill(0x61)
    case 3:
      // Not UTF-8.
      return Uint8Array.of(0xc3, 0x28, ...random.bytes(2))
    case 4:
      return other
    default:
      return damage(random, field.content)
  }
}

/** The fields of bytes that are a whole Protobuf message, else undefined. */
function parse(bytes: Uint8Array): readonly Field[] | undefined {
  const fields: Field[] = []
  for (let at = 0; at < bytes.length; ) {
    const tag = readVarint(bytes, at)
    if (tag === undefined || tag.value < 8n || tag.value > 2n ** 32n) return undefined
    const wireType = Number(tag.value & 7n)
    const end = endOf(bytes, tag.end, wireType)
    if (end === undefined || end.end > bytes.length) return undefined
    fields.push({ number: Number(tag.value >> 3n), wireType, content: bytes.subarray(end.from, end.end) })
    at = end.end
  }
  return fields
}

function endOf(bytes: Uint8Array, from: number, wireType: number): { from: number; end: number } | undefined {
  switch (wireType) {
    case 0: {
      const end = readVarint(bytes, from)?.end
      return end === undefined ? undefined : { from, end }
    }
    case 1:
      return { from, end: from + 8 }
    case 2: {
      const length = readVarint(bytes, from)
      return length === undefined ? undefined : { from: length.end, end: length.end + Number(length.value) }
    }
    case 5:
      return { from, end: from + 4 }
    default:
      return undefined
  }
}

function readVarint(bytes: Uint8Array, from: number): { value: bigint; end: number } | undefined {
  let value = 0n
  for (let index = 0; index < 10; index++) {
    const byte = bytes[from + index]
    if (byte === undefined) return undefined
    value |= BigInt(byte & 127) << BigInt(7 * index)
    if (byte < 128) return { value, end: from + index + 1 }
  }
  return undefined
}

function write(fields: readonly Field[]): Uint8Array {
  const parts = fields.flatMap(({ number, wireType, content }) => {
    const tag = varint(BigInt(number) * 8n + BigInt(wireType))
    return wireType === 2 ? [tag, varint(BigInt(content.length)), content] : [tag, content]
  })
  return new Uint8Array(Buffer.concat(parts))
}

function varint(value: bigint): Uint8Array {
  const bytes: number[] = []
  let left = value
  do {
    bytes.push(Number(left & 127n) | (left > 127n ? 128 : 0))
    left >>= 7n
  } while (left > 0n)
  return Uint8Array.from(bytes)
}

const hostileValues: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  2 ** 53,
  1e308,
  '',
  'x',
  '\0',
  '\ud800',
  '../..',
  '__proto__',
  [],
  {},
  [[]],
  { toString: 1 },
  'a'.repeat(5_000),
  Array.from({ length: 1_100 }, () => 'agt_1'),
]

/** A JSON value that was right, with members dropped, added, of another type, of another size, or nested. */
export function mutateJson(random: SeededRandom, value: unknown, depth = 0): unknown {
  if (random.chance(0.15)) return random.pick(hostileValues)
  if (Array.isArray(value)) {
    const at = random.int(0, value.length)
    return value.toSpliced(at, random.int(0, 1), mutateJson(random, value[at], depth + 1))
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value)
    const at = random.int(0, Math.max(0, entries.length - 1))
    const [name = 'x', inner] = entries[at] ?? []
    switch (random.int(0, 4)) {
      case 0:
        return Object.fromEntries(entries.toSpliced(at, 1))
      case 1:
        return Object.fromEntries([...entries, [random.pick(hostileTexts), random.pick(hostileValues)]])
      case 2:
        return Object.fromEntries(entries.toSpliced(at, 1, [`${name}_`, inner]))
      default:
        return Object.fromEntries(entries.toSpliced(at, 1, [name, mutateJson(random, inner, depth + 1)]))
    }
  }
  if (typeof value === 'string')
    return random.chance(0.5) ? random.pick(hostileTexts) : `${value}${random.pick(hostileTexts)}`
  if (typeof value === 'number') return random.pick([-value, value + 0.5, value * 1e9, Number.MAX_SAFE_INTEGER + 1, 0])
  return random.pick(hostileValues)
}

/** A line of text with characters changed, taken out, put in, doubled or cut off. */
export function mutateText(random: SeededRandom, text: string): string {
  const at = random.int(0, text.length)
  switch (random.int(0, 5)) {
    case 0:
      return text.slice(0, at)
    case 1:
      return text.slice(0, at) + random.pick(hostileTexts) + text.slice(at)
    case 2:
      return text.slice(0, at) + String.fromCharCode(random.int(0, 0xffff)) + text.slice(at + 1)
    case 3:
      return text + text
    case 4:
      return text.slice(at) + text.slice(0, at)
    default:
      return text.replace(random.pick(['.', 'a', '-', '1']), random.pick(hostileTexts))
  }
}

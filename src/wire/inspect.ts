import { type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf'
import { NfltrError } from '../core/errors.ts'
import { type Bound, bounds, instantMaxMs } from './bounds.ts'

/**
 * A walk over the encoded bytes of a message before anything is built from them: lengths, counts and number ranges are
 * checked in place, so a frame of a few MiB cannot make the decoder allocate a thousand times as much. The wire format is
 * https://protobuf.dev/programming-guides/encoding/; groups, which no message of ours has, are refused.
 *
 * @throws {NfltrError} `invalid_frame`, naming the field
 */
export function inspect(schema: DescMessage, bytes: Uint8Array): void {
  walk({ bytes, at: 0, end: bytes.length }, schema)
}

interface Cursor {
  readonly bytes: Uint8Array
  at: number
  readonly end: number
}

interface KnownField {
  readonly field: DescField
  readonly bound: Bound
}

const known = new WeakMap<DescMessage, ReadonlyMap<number, KnownField>>()

function fieldsOf(schema: DescMessage): ReadonlyMap<number, KnownField> {
  let fields = known.get(schema)
  if (fields === undefined) {
    const rows = bounds[schema.name] ?? {}
    fields = new Map(schema.fields.map((field) => [field.number, { field, bound: rows[field.name] ?? {} }]))
    known.set(schema, fields)
  }
  return fields
}

function walk(cursor: Cursor, schema: DescMessage): void {
  const fields = fieldsOf(schema)
  const counts = new Map<DescField, number>()
  while (cursor.at < cursor.end) {
    const tag = readVarint(cursor)
    const number = Math.floor(tag / 8)
    const wireType = tag % 8
    if (number < 1 || tag > 0xffff_ffff) throw refusal(`${schema.name} has an impossible field number`)
    const entry = fields.get(number)
    if (entry === undefined) {
      skip(cursor, wireType)
      continue
    }
    const { field, bound } = entry
    const count = (counts.get(field) ?? 0) + readField(cursor, wireType, entry)
    counts.set(field, count)
    const maxCount = field.fieldKind === 'list' ? (bound.maxCount ?? 0) : 1
    if (count > maxCount) throw refusal(`${schema.name}.${field.name} occurs more than ${maxCount} times`)
  }
}

/** Moves over one occurrence of a known field. @returns how many elements it holds; more than one only in a packed list */
function readField(cursor: Cursor, wireType: number, { field, bound }: KnownField): number {
  const name = `${field.parent.name}.${field.name}`
  if (field.message !== undefined) {
    expectWireType(wireType, 2, name)
    const length = readLength(cursor)
    walk({ bytes: cursor.bytes, at: cursor.at, end: cursor.at + length }, field.message)
    cursor.at += length
    return 1
  }
  switch (field.scalar) {
    case ScalarType.STRING:
    case ScalarType.BYTES: {
      expectWireType(wireType, 2, name)
      const length = readLength(cursor)
      if (length > (bound.maxBytes ?? 0)) throw refusal(`${name} is longer than ${bound.maxBytes ?? 0} bytes`)
      cursor.at += length
      return 1
    }
    case ScalarType.DOUBLE:
      expectWireType(wireType, 1, name)
      skip(cursor, wireType)
      return 1
    case ScalarType.BOOL:
      return readNumbers(cursor, wireType, { field, max: 1 })
    case ScalarType.UINT32:
      return readNumbers(cursor, wireType, { field, max: 0xffff_ffff })
    default:
      return readNumbers(cursor, wireType, { field, max: isInstant(field) ? instantMaxMs : Number.MAX_SAFE_INTEGER })
  }
}

/** Whether a field is a moment of the wall clock and not a span: by the names that the `.proto` files give to those. */
function isInstant({ name }: DescField): boolean {
  return /(?:^|_)(?:at|now)_ms$/.test(name)
}

function readNumbers(cursor: Cursor, wireType: number, expected: { field: DescField; max: number }): number {
  const name = `${expected.field.parent.name}.${expected.field.name}`
  const isPacked = wireType === 2 && expected.field.fieldKind === 'list'
  if (!isPacked) expectWireType(wireType, 0, name)
  const length = isPacked ? readLength(cursor) : 0
  const end = cursor.at + length
  let count = 0
  do {
    if (isPacked && cursor.at >= end) break
    const value = readVarint(cursor)
    if (value > expected.max) throw refusal(`${name} is more than ${expected.max}`)
    count++
  } while (isPacked)
  if (isPacked && cursor.at !== end) throw refusal(`${name} ends inside a number`)
  return count
}

function skip(cursor: Cursor, wireType: number): void {
  switch (wireType) {
    case 0:
      readVarint(cursor)
      return
    case 1:
      advance(cursor, 8)
      return
    case 2:
      advance(cursor, readLength(cursor))
      return
    case 5:
      advance(cursor, 4)
      return
    default:
      throw refusal('a field has a wire type that this protocol does not use')
  }
}

function advance(cursor: Cursor, count: number): void {
  if (count > cursor.end - cursor.at) throw refusal('a field is longer than its message')
  cursor.at += count
}

function readLength(cursor: Cursor): number {
  const length = readVarint(cursor)
  if (length > cursor.end - cursor.at) throw refusal('a field is longer than its message')
  return length
}

/** A varint as a number; above 2^53 it is no longer exact, which only ever makes it too large. */
function readVarint(cursor: Cursor): number {
  let value = 0
  let scale = 1
  for (let count = 0; count < 10; count++) {
    if (cursor.at >= cursor.end) throw refusal('a number is cut off')
    const byte = cursor.bytes[cursor.at++] ?? 0
    value += (byte & 0x7f) * scale
    if (byte < 0x80) return value
    scale *= 128
  }
  throw refusal('a number is longer than 10 bytes')
}

function expectWireType(found: number, expected: number, name: string): void {
  if (found !== expected) throw refusal(`${name} has wire type ${found} instead of ${expected}`)
}

function refusal(what: string): NfltrError {
  return new NfltrError('invalid_frame', `A message could not be decoded: ${what}.`)
}

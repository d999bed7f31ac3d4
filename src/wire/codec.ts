import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import { NfltrError } from '../core/errors.ts'
import { inspect } from './inspect.ts'

/**
 * The bytes of a message, after the checks that its receiver makes: what is too large or too long shows here, at its
 * source, and not as a broken link.
 *
 * @throws {NfltrError} `frame_too_large`, `invalid_frame`
 */
export function encodeMessage<S extends DescMessage>(
  schema: S,
  fields: MessageInitShape<S>,
  maxBytes: number,
): Uint8Array {
  const bytes = guarded(schema, () => toBinary(schema, create(schema, fields)))
  checkLength(schema, bytes, maxBytes)
  inspect(schema, bytes)
  return bytes
}

/**
 * The message in some bytes. The length is checked first, then every bound, then the message is built.
 * Unknown fields are ignored.
 *
 * @throws {NfltrError} `frame_too_large`, `invalid_frame`; nothing else, whatever the bytes are
 */
export function decodeMessage<S extends DescMessage>(schema: S, bytes: Uint8Array, maxBytes: number): MessageShape<S> {
  checkLength(schema, bytes, maxBytes)
  // A Buffer would give Buffers for its parts.
  const plain = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  inspect(schema, plain)
  return guarded(schema, () => fromBinary(schema, plain, { readUnknownFields: false }))
}

function checkLength(schema: DescMessage, bytes: Uint8Array, maxBytes: number): void {
  if (bytes.length <= maxBytes) return
  throw new NfltrError(
    'frame_too_large',
    `A ${schema.name} of ${bytes.length} bytes was over the limit of ${maxBytes}.`,
    {
      details: { bytes: bytes.length, max_bytes: maxBytes },
    },
  )
}

function guarded<T>(schema: DescMessage, action: () => T): T {
  try {
    return action()
  } catch (cause) {
    throw new NfltrError('invalid_frame', `A ${schema.name} did not have the form of the protocol.`, { cause })
  }
}

/** A whole number as the generated code takes it. Spans and instants measured in fractions are rounded. */
export function wide(value: number): bigint {
  const rounded = Math.round(value)
  if (!Number.isSafeInteger(rounded) || rounded < 0) {
    throw new NfltrError('invalid_frame', `A number on the wire has to be whole and not negative; it was ${value}.`)
  }
  return BigInt(rounded)
}

export function optionalWide(value: number | undefined): bigint | undefined {
  return value === undefined ? undefined : wide(value)
}

export function optionalNumber(value: bigint | undefined): number | undefined {
  return value === undefined ? undefined : Number(value)
}

/** An amount that is not negative, as it came. */
export function amount(value: number, field: string): number {
  if (Number.isFinite(value) && value >= 0) return value
  throw invalid(`${field} is not an amount`)
}

/** One word of a closed vocabulary. */
export function oneOf<const T extends string>(words: readonly T[], word: string, field: string): T {
  const found = words.find((candidate) => candidate === word)
  if (found === undefined) throw invalid(`${field} has a value that is not known`)
  return found
}

export function optionalOneOf<const T extends string>(
  words: readonly T[],
  word: string | undefined,
  field: string,
): T | undefined {
  return word === undefined ? undefined : oneOf(words, word, field)
}

/** A part that a message cannot do without. */
export function required<T>(value: T | undefined, field: string): T {
  if (value === undefined) throw invalid(`${field} is missing`)
  return value
}

/** Text or bytes that cannot be empty. */
export function filled<T extends string | Uint8Array>(value: T, field: string): T {
  if (value.length === 0) throw invalid(`${field} is empty`)
  return value
}

export function invalid(what: string): NfltrError {
  return new NfltrError('invalid_frame', `A message was refused: ${what}.`)
}

/** The same fields without those that are absent. */
export type Defined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>
}

export function defined<T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>
}

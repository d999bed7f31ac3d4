import { crc32 } from 'node:zlib'
import type { JournalBody, JournalRecord } from '../core/journal.ts'
import { decodePayload, encodePayload } from './journal-payload.ts'

/**
 * The journal on disk: `magic`, then records, appended and never changed.
 *
 * | bytes | what |
 * |---|---|
 * | 4 | length of the payload |
 * | 1 | type |
 * | 6 | milliseconds since the keeper's start |
 * | 4 | CRC-32 of the 11 bytes before |
 * | 4 | CRC-32 of the payload |
 * | n | payload |
 *
 * All numbers are big-endian. The head has a checksum of its own so that a flipped length is seen as damage, and not
 * taken for a record that a power cut left unfinished: those two mean very different things (rule 20).
 */
export const journalMagic: Buffer = Buffer.from('nfltr-j1')

export const recordHeadBytes = 19
const headCheckedBytes = 11

/** Longest line of the command that is kept whole. Its largest line is a result of 16 MiB of text, escaped as JSON. */
export const lineMaxBytes: number = 32 * 1024 * 1024

/** How much of a longer line is kept. */
export const cutLineHeadBytes: number = 64 * 1024

/** Longest payload that a reader accepts; nothing is allocated for more. */
export const payloadMaxBytes: number = lineMaxBytes + 4096

const typeCodes = {
  header: 1,
  launching: 2,
  launched: 3,
  launch_failed: 4,
  stdout: 5,
  stderr: 6,
  stdin_intent: 7,
  control_answer: 8,
  input_closed: 9,
  stopping: 10,
  exit: 11,
  stdout_cut: 12,
} as const satisfies Record<JournalBody['type'], number>

const typeNames = new Map<number, JournalBody['type']>(
  Object.entries(typeCodes).map(([name, code]) => [code, name as JournalBody['type']]),
)

/** @param atMs - whole milliseconds since the keeper's start */
export function encodeRecord(body: JournalBody, atMs: number): Buffer {
  const payload = encodePayload(body)
  if (payload.length > payloadMaxBytes)
    throw new Error(`a ${body.type} record of ${payload.length} bytes is over the bound`)
  const head = Buffer.alloc(recordHeadBytes)
  head.writeUInt32BE(payload.length, 0)
  head.writeUInt8(typeCodes[body.type], 4)
  head.writeUIntBE(Math.max(0, Math.floor(atMs)), 5, 6)
  head.writeUInt32BE(crc32(head.subarray(0, headCheckedBytes)), 11)
  head.writeUInt32BE(crc32(payload), 15)
  return Buffer.concat([head, payload])
}

/** What the bytes at one place of a journal are. */
export type Decoded =
  | { readonly type: 'record'; readonly record: JournalRecord }
  /** Sound so far and not all there: the record needs `bytes` bytes from its first one on. */
  | { readonly type: 'incomplete'; readonly bytes: number }
  /** Does not check. `bytes`: length of the record where its head is sound, so that a search knows where to go on. */
  | { readonly type: 'damaged'; readonly bytes: number | undefined }

/**
 * Reads the record at the beginning of `bytes`. Pure; the payload is a view into `bytes`.
 *
 * @param offset - where in the journal `bytes` begins
 */
export function decodeRecord(bytes: Buffer, offset: number): Decoded {
  if (offset < journalMagic.length) return decodeMagic(bytes, offset)
  if (bytes.length < recordHeadBytes) return { type: 'incomplete', bytes: recordHeadBytes }
  const head = decodeHead(bytes)
  if (head === undefined) return { type: 'damaged', bytes: undefined }
  const end = recordHeadBytes + head.length
  if (bytes.length < end) return { type: 'incomplete', bytes: end }
  const payload = bytes.subarray(recordHeadBytes, end)
  const body = crc32(payload) === head.crc ? decodePayload(head.name, payload) : undefined
  if (body === undefined) return { type: 'damaged', bytes: end }
  return { type: 'record', record: { ...body, nextOffset: offset + end, atMs: head.atMs } }
}

/**
 * Whether a sound record begins anywhere in `bytes`. Tells damage in the middle, behind which there are more records,
 * from a tail that a power cut left as zeros or noise.
 */
export function holdsSoundRecord(bytes: Buffer): boolean {
  for (let at = 0; at + recordHeadBytes <= bytes.length; at += 1) {
    const head = decodeHead(bytes, at)
    if (head === undefined) continue
    const end = at + recordHeadBytes + head.length
    if (end <= bytes.length && crc32(bytes.subarray(at + recordHeadBytes, end)) === head.crc) return true
  }
  return false
}

interface Head {
  readonly length: number
  readonly name: JournalBody['type']
  readonly atMs: number
  readonly crc: number
}

function decodeHead(bytes: Buffer, at = 0): Head | undefined {
  const length = bytes.readUInt32BE(at)
  const name = typeNames.get(bytes.readUInt8(at + 4))
  if (length > payloadMaxBytes || name === undefined) return undefined
  if (crc32(bytes.subarray(at, at + headCheckedBytes)) !== bytes.readUInt32BE(at + headCheckedBytes)) return undefined
  return { length, name, atMs: bytes.readUIntBE(at + 5, 6), crc: bytes.readUInt32BE(at + 15) }
}

/** The magic is skipped as part of the first record, so that offset 0 is a place to read from like any other. */
function decodeMagic(bytes: Buffer, offset: number): Decoded {
  const skipped = journalMagic.length - offset
  const seen = bytes.subarray(0, skipped)
  if (!journalMagic.subarray(offset, offset + seen.length).equals(seen)) return { type: 'damaged', bytes: undefined }
  const decoded = decodeRecord(bytes.subarray(skipped), journalMagic.length)
  if (decoded.type === 'record') return decoded
  return { ...decoded, bytes: decoded.bytes === undefined ? undefined : decoded.bytes + skipped } as Decoded
}

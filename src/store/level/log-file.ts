import { readUint32 } from './coding.ts'
import { correctBit, crc32c, crcStep, maskCrc, unmaskCrc } from './crc32c.ts'

const blockBytes = 32 * 1024
const headerBytes = 7
const kinds = { full: 1, first: 2, middle: 3, last: 4 } as const

/** What a log was found to hold beside what can be read from it. */
export interface LogFlaw {
  readonly offset: number
  readonly found: string
  /**
   * `damaged`: what was written whole is not as it was written. `torn`: it may as well be the last write, which a power cut
   * left half done. What is only cut short is no flaw.
   */
  readonly kind: 'damaged' | 'torn'
  /** The bytes could be put right. */
  readonly isCorrected: boolean
}

export interface LogContents {
  /** In order; each as it was written. */
  readonly records: readonly Uint8Array[]
  readonly flaws: readonly LogFlaw[]
}

interface Flaw {
  readonly found: string
  readonly isCorrected: boolean
}

type Piece =
  | { readonly type: number; readonly payload: Uint8Array; readonly end: number; readonly flaw?: Flaw }
  | { readonly type: 'flaw'; readonly end: number; readonly flaw: Flaw }
  | { readonly type: 'end' }

/**
 * Reads a file in LevelDB's log format: its write-ahead logs and its MANIFEST. LevelDB itself passes over whatever does not
 * check and says nothing; it even takes a damaged length in the last block for the end of the file. Here each is told from
 * a write that was cut short, which is what a crash leaves.
 *
 * A flipped bit is put right: the bytes given are changed where they lie.
 */
export function readLog(bytes: Uint8Array): LogContents {
  const joiner = new RecordJoiner()
  let at = 0
  for (;;) {
    const left = blockBytes - (at % blockBytes)
    if (left < headerBytes) {
      at += left
      continue
    }
    const piece = readPiece(bytes, at, Math.min(at + left, bytes.length))
    if (piece.type === 'end') return joiner.contents()
    joiner.add(at, piece)
    at = piece.end
  }
}

/** Puts records together from the pieces that they were written in. */
class RecordJoiner {
  readonly #records: Uint8Array[] = []
  readonly #flaws: (Flaw & { readonly offset: number })[] = []
  /** Of the record at hand; undefined between records, and where its start is lost. */
  #parts: Uint8Array[] | undefined
  #lastStart = -1

  add(offset: number, piece: Exclude<Piece, { readonly type: 'end' }>): void {
    if (piece.flaw !== undefined) this.#flaws.push({ offset, ...piece.flaw })
    if (piece.type === 'flaw') {
      this.#parts = undefined
      return
    }
    const isStart = piece.type === kinds.full || piece.type === kinds.first
    if (isStart) this.#lastStart = offset
    if (isStart === (this.#parts !== undefined))
      this.#flaws.push({ offset, found: 'a part of a record was missing', isCorrected: false })
    if (isStart) this.#parts = [piece.payload]
    else this.#parts?.push(piece.payload)
    if (piece.type === kinds.full || piece.type === kinds.last) {
      if (this.#parts !== undefined) this.#records.push(Buffer.concat(this.#parts))
      this.#parts = undefined
    }
  }

  contents(): LogContents {
    const flaws = this.#flaws.map(
      (flaw): LogFlaw => ({
        ...flaw,
        // With nothing begun behind it, it may be the last write, which a power cut left as it was.
        kind: !flaw.isCorrected && flaw.offset >= this.#lastStart ? 'torn' : 'damaged',
      }),
    )
    return { records: this.#records, flaws }
  }
}

function readPiece(bytes: Uint8Array, at: number, blockEnd: number): Piece {
  const isLastBlock = blockEnd === bytes.length
  if (at + headerBytes > blockEnd) return { type: 'end' }
  const masked = readUint32(bytes, at)
  const length = (bytes[at + 4] ?? 0) | ((bytes[at + 5] ?? 0) << 8)
  const end = at + headerBytes + length
  const body = bytes.subarray(at + headerBytes - 1, end)
  if (end <= blockEnd && crc32c(body) === unmaskCrc(masked)) return pieceOf(body, end)
  const actual = lengthThatChecks(bytes.subarray(at + headerBytes - 1, blockEnd), masked)
  if (actual !== undefined) {
    const right = bytes.subarray(at + headerBytes - 1, at + headerBytes + actual)
    return corrected(right, at + headerBytes + actual, 'the length of a record was not as written')
  }
  if (end <= blockEnd && (correctBit(body, unmaskCrc(masked)) || isOneBit(crc32c(body), masked)))
    return corrected(body, end, 'a record did not match its checksum')
  const next = nextPiece(bytes, at + 1, blockEnd)
  if (next === undefined && isLastBlock && end > blockEnd) return { type: 'end' }
  const flaw = { found: 'a record did not match its checksum', isCorrected: false }
  return { type: 'flaw', end: next ?? blockEnd, flaw }
}

function pieceOf(body: Uint8Array, end: number): Piece {
  const type = body[0] ?? 0
  if (isKind(type)) return { type, payload: body.subarray(1), end }
  return { type: 'flaw', end, flaw: { found: `a record had the unknown type ${type}`, isCorrected: false } }
}

function corrected(body: Uint8Array, end: number, found: string): Piece {
  const piece = pieceOf(body, end)
  return piece.type === 'end' || piece.type === 'flaw' ? piece : { ...piece, flaw: { found, isCorrected: true } }
}

function isKind(type: number): boolean {
  return type >= kinds.full && type <= kinds.last
}

/** The length of payload with which a record's checksum is right: so it was its length that changed. */
function lengthThatChecks(body: Uint8Array, masked: number): number | undefined {
  const stored = ~unmaskCrc(masked)
  let crc = -1
  for (let index = 0; index < body.length; index++) {
    crc = crcStep(crc, body[index] ?? 0)
    if (crc === stored) return index
  }
  return undefined
}

/** Whether it is the stored checksum that has one flipped bit. */
function isOneBit(crc: number, masked: number): boolean {
  const difference = (maskCrc(crc) ^ masked) >>> 0
  return difference !== 0 && (difference & (difference - 1)) === 0
}

/** Where in this block the next record begins that checks. */
function nextPiece(bytes: Uint8Array, from: number, blockEnd: number): number | undefined {
  for (let at = from; at + headerBytes <= blockEnd; at++) {
    if (!isKind(bytes[at + 6] ?? 0)) continue
    const end = at + headerBytes + ((bytes[at + 4] ?? 0) | ((bytes[at + 5] ?? 0) << 8))
    if (end > blockEnd) continue
    if (crc32c(bytes.subarray(at + headerBytes - 1, end)) === unmaskCrc(readUint32(bytes, at))) return at
  }
  return undefined
}

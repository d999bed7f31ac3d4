import { createHmac, timingSafeEqual } from 'node:crypto'
import { type ErrorCode, NfltrError } from '../core/errors.ts'

/**
 * What a node and a keeper say to each other on the keeper's socket: frames of a four-byte length and JSON.
 *
 * The keeper speaks first with a challenge; the node proves that it has read the journal's token, the keeper proves the
 * same, and only then do requests follow. Neither proof shows the token, so a process that took the socket's place
 * learns nothing (rule 19).
 */
export const keeperProtocol = 1

/** Longest frame: a message of 1 MiB, escaped as JSON and then as base64, with room. */
export const frameMaxBytes: number = 16 * 1024 * 1024

/** Longest frame of somebody who has proven nothing yet. */
export const strangerFrameMaxBytes = 1024

/** How long either side waits for the other's proof, in milliseconds. */
export const handshakeTimeoutMs = 5_000

export type FromKeeper =
  | { readonly type: 'challenge'; readonly protocol: number; readonly nonce: string }
  | { readonly type: 'welcome'; readonly proof: string; readonly syncedOffset: number }
  | { readonly type: 'synced'; readonly offset: number }
  | { readonly type: 'done'; readonly id: number }
  | { readonly type: 'failed'; readonly id: number; readonly code: ErrorCode; readonly message: string }

export type FromNode =
  | { readonly type: 'proof'; readonly nonce: string; readonly proof: string }
  | ({ readonly id: number } & KeeperRequest)

/** `bytes` are base64. */
export type KeeperRequest =
  | { readonly type: 'write'; readonly messageId: string; readonly bytes: string }
  | { readonly type: 'answer'; readonly requestId: string; readonly bytes: string }
  | { readonly type: 'close_input' }
  | { readonly type: 'stop'; readonly graceMs: number }

export function encodeFrame(message: FromKeeper | FromNode): Buffer {
  const json = Buffer.from(JSON.stringify(message))
  if (json.length > frameMaxBytes) {
    throw new NfltrError('frame_too_large', `a message of ${json.length} bytes was over the bound of ${frameMaxBytes}.`)
  }
  const length = Buffer.alloc(4)
  length.writeUInt32BE(json.length)
  return Buffer.concat([length, json])
}

export interface FrameReader {
  /** @throws {NfltrError} `frame_too_large` before anything of that size is kept; `invalid_frame` */
  push(chunk: Buffer): readonly Readonly<Record<string, unknown>>[]
  /** Lifts the bound once the other side has proven itself. */
  setMaxBytes(maxBytes: number): void
}

export function frameReader(maxBytes: number): FrameReader {
  let bound = maxBytes
  let parts: Buffer[] = []
  let held = 0
  return {
    setMaxBytes: (next) => {
      bound = next
    },
    push(chunk) {
      parts.push(chunk)
      held += chunk.length
      const frames: Readonly<Record<string, unknown>>[] = []
      for (;;) {
        const length = held < 4 ? undefined : peek(parts).readUInt32BE(0)
        if (length !== undefined && length > bound) {
          throw new NfltrError('frame_too_large', `a frame of ${length} bytes was over the bound of ${bound}.`)
        }
        if (length === undefined || held < 4 + length) return frames
        const bytes = Buffer.concat(parts)
        frames.push(parseFrame(bytes.subarray(4, 4 + length)))
        parts = [bytes.subarray(4 + length)]
        held -= 4 + length
      }
    },
  }
}

/** Proof of one side that it knows the token, bound to this connection by both nonces. 64 hex digits. */
export function tokenProof(
  token: string,
  side: 'node' | 'keeper',
  nonces: { readonly node: string; readonly keeper: string },
): string {
  return createHmac('sha256', token).update(`nfltr/keeper/1\0${side}\0${nonces.node}\0${nonces.keeper}`).digest('hex')
}

/** Compares in a time that says nothing about where two proofs differ. */
export function isSameProof(given: unknown, wanted: string): boolean {
  if (typeof given !== 'string' || given.length !== wanted.length) return false
  const a = Buffer.from(given)
  const b = Buffer.from(wanted)
  return a.length === b.length && timingSafeEqual(a, b)
}

/** The first four bytes at least; parts are joined only while a length is split over several. */
function peek(parts: readonly Buffer[]): Buffer {
  const first = parts[0]
  return first !== undefined && first.length >= 4 ? first : Buffer.concat(parts)
}

function parseFrame(json: Buffer): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(json.toString('utf8'))
    if (typeof value === 'object' && value !== null) return Object.fromEntries(Object.entries(value))
  } catch {
    // Named below.
  }
  throw new NfltrError('invalid_frame', `a frame of ${json.length} bytes was no JSON object.`)
}

import { clip } from '../core/clip.ts'
import { type ErrorCode, NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import {
  decodeHandshake,
  encodeHandshake,
  type HandshakeMessage,
  type Hello,
  handshakeMaxBytes,
  type Refused,
  revocationUpdateMaxBytes,
} from '../wire/handshake-codec.ts'
import type { FrameStream } from './frame-stream.ts'

export const helloProtocol = '/nfltr/hello/1.0.0'

/** The one revision of the wire protocol. */
export const wireRevision = 1

/** Frames on a hello stream; each message has its own, smaller bound, and the quarantine counts all bytes. */
export const helloFrameMaxBytes = limits.revocationsMaxBytes

/** What one side brings to hello. */
export interface HelloSide<T> {
  readonly hello: Hello
  /** What the peer lacks of what was revoked. */
  readonly listsFor: (hello: Hello) => readonly Uint8Array[]
  /** Takes in who may issue and what was revoked. Comes before anything is judged or granted (rule 15). */
  readonly learn: (hello: Hello, lists: readonly Uint8Array[]) => Promise<void>
  /** The peer's hello was read: it has lists to send, which may be longer than a stranger may be, or it has none. */
  readonly heard: (options: { readonly hasLists: boolean }) => void
  /**
   * Decides whether the peer is what its hello says.
   *
   * @returns what was found out about the peer
   * @throws {NfltrError} the typed reason to refuse
   */
  readonly judge: (hello: Hello) => Promise<T>
  readonly highestEpochSeen: (peer: T) => number | undefined
}

export interface HelloOutcome<T> {
  readonly peer: T
  /** What the peer said of the highest epoch it has seen of this hub. */
  readonly highestEpochSeen: number | undefined
}

/**
 * Says hello and hears it: the same on both sides. Each sends `Hello`, then the revocation lists that the other lacks, then
 * its verdict, and waits for the other's. Nothing is granted before both have welcomed each other.
 *
 * @throws {NfltrError} the reason, with `details.refused` set where one side refused the other; `details.by` says which
 */
export async function sayHello<T>(frames: FrameStream, side: HelloSide<T>): Promise<HelloOutcome<T>> {
  try {
    return await heedingRefusal(frames, async () => {
      await frames.send(encodeHandshake(side.hello))
      const hello = await receive(frames, 'hello')
      side.heard({ hasLists: hasNewerLists(hello, side.hello) })
      await frames.send(encodeHandshake({ type: 'revocations', lists: fitting(side.listsFor(hello)) }))
      const { lists } = await receive(frames, 'revocations')
      await side.learn(hello, lists)
      const peer = await side.judge(hello)
      await frames.send(encodeHandshake(welcome(side.highestEpochSeen(peer))))
      const { highestEpochSeen } = await receive(frames, 'welcome')
      return { peer, highestEpochSeen }
    })
  } catch (error) {
    throw await refuse(frames, error)
  }
}

function hasNewerLists(theirs: Hello, ours: Hello): boolean {
  const known = new Map(ours.revocationVersions.map(({ issuerId, version }) => [issuerId, version]))
  return theirs.revocationVersions.some(({ issuerId, version }) => version > (known.get(issuerId) ?? 0))
}

/** As many lists as one message holds; the roster brings the rest. */
function fitting(lists: readonly Uint8Array[]): readonly Uint8Array[] {
  let room = revocationUpdateMaxBytes - 1024
  return lists.filter((list) => {
    if (list.length + 16 > room) return false
    room -= list.length + 16
    return true
  })
}

/**
 * Runs one side of a conversation. A peer that refuses says so and hangs up, so the first sign of it here may be a write
 * that fails: what it said is still there to be read, and is the better reason.
 */
export async function heedingRefusal<T>(frames: FrameStream, converse: () => Promise<T>): Promise<T> {
  try {
    return await converse()
  } catch (error) {
    if (!(error instanceof NfltrError && error.code === 'link_down')) throw error
    for await (const frame of frames.frames()) {
      const message = decodeHandshake(frame, revocationUpdateMaxBytes)
      if (message.type === 'refused') throw refusalOf(message)
    }
    throw error
  }
}

function welcome(highestEpochSeen: number | undefined): HandshakeMessage {
  return highestEpochSeen === undefined ? { type: 'welcome' } : { type: 'welcome', highestEpochSeen }
}

/**
 * The next message, which must be of one kind; a refusal in its place is thrown as what it says.
 *
 * @throws {NfltrError} `link_down` when nothing comes any more, `protocol_violation`, a decoder's, or the peer's refusal
 */
export async function receive<K extends HandshakeMessage['type']>(
  frames: FrameStream,
  type: K,
): Promise<Extract<HandshakeMessage, { type: K }>> {
  const bytes = await frames.read()
  if (bytes === undefined) throw frames.violation ?? new NfltrError('link_down', 'The peer ended the conversation.')
  const message = decodeHandshake(bytes, type === 'revocations' ? revocationUpdateMaxBytes : handshakeMaxBytes)
  if (isOfType(message, type)) return message
  if (message.type === 'refused') throw refusalOf(message)
  throw new NfltrError('protocol_violation', `The peer sent ${message.type} where ${type} belongs.`)
}

function isOfType<K extends HandshakeMessage['type']>(
  message: HandshakeMessage,
  type: K,
): message is Extract<HandshakeMessage, { type: K }> {
  return message.type === type
}

function refusalOf(message: Refused): NfltrError {
  return new NfltrError(message.code, printable(message.message), {
    details: {
      refused: true,
      by: 'peer',
      ...(message.usedBy === undefined ? {} : { used_by: message.usedBy }),
      ...(message.usedAtMs === undefined ? {} : { used_at_ms: message.usedAtMs }),
    },
  })
}

/** Refusals that say something about the link, not about the peer: the peer is not told and may come again at once. */
const noFaultCodes: readonly ErrorCode[] = ['link_down', 'timed_out']

/**
 * Tells the peer why it is refused, and ends the stream.
 *
 * @returns the error to throw on, marked as a refusal where it is one
 */
export async function refuse(frames: FrameStream, error: unknown): Promise<NfltrError> {
  const reason = error instanceof NfltrError ? error : new NfltrError('internal', 'Hello failed.', { cause: error })
  if (noFaultCodes.includes(reason.code) || reason.details['by'] === 'peer') {
    frames.close()
    return reason
  }
  try {
    await frames.send(encodeHandshake(refusedMessage(reason)))
  } catch {
    // The peer is gone or does not listen; it is refused all the same.
  }
  frames.close()
  return new NfltrError(reason.code, reason.message, {
    details: { ...reason.details, refused: true, by: 'us' },
    cause: reason,
    ...(reason.hint === undefined ? {} : { hint: reason.hint }),
  })
}

function refusedMessage(reason: NfltrError): Refused {
  const usedBy = reason.details['used_by']
  const usedAtMs = reason.details['used_at_ms']
  return {
    type: 'refused',
    code: reason.code,
    message: reason.code === 'internal' ? 'Something went wrong here.' : clip(reason.message, 256),
    ...(typeof usedBy === 'string' ? { usedBy } : {}),
    ...(typeof usedAtMs === 'number' ? { usedAtMs } : {}),
  }
}

/** Text of another machine without what could steer a terminal. */
function printable(text: string): string {
  return clip(text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, ' '), 512)
}

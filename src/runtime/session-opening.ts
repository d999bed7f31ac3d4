import { NfltrError } from '../core/errors.ts'
import type { LaneCursor, SessionAccept, SessionFrame, SessionOpen } from '../core/messages.ts'
import type { LaneFault } from '../core/session-lane.ts'
import type { Link } from '../ports/peers.ts'
import type { SessionCodec } from './session-codec.ts'

/** A link's frames can be read only once, and the opening reads the first: whoever goes on reads from here. */
const readers = new WeakMap<Link, AsyncIterator<Uint8Array>>()

export function framesOf(link: Link): AsyncIterator<Uint8Array> {
  const known = readers.get(link)
  if (known !== undefined) return known
  const reader = link.frames()[Symbol.asyncIterator]()
  readers.set(link, reader)
  return reader
}

/**
 * The first frame of a link.
 *
 * @throws {NfltrError} `link_down` when the link ended first; `invalid_frame`, `frame_too_large` when it was no frame
 */
export async function readFirst(link: Link, codec: SessionCodec): Promise<SessionFrame | { readonly type: 'unknown' }> {
  const first = await framesOf(link).next()
  if (first.done !== true) return codec.decodeFrame(first.value)
  throw new NfltrError('link_down', 'The link ended before the session was open.', { cause: await link.closed })
}

/**
 * Node: what the hub opens the session with. On any error the link is closed.
 *
 * @throws {NfltrError} `timed_out` when the signal came first; `link_down`; `invalid_frame`, `frame_too_large`,
 *   `protocol_violation` when the first frame was something else
 */
export async function readOpen(link: Link, codec: SessionCodec, signal: AbortSignal): Promise<SessionOpen> {
  let isAborted = signal.aborted
  const abort = (): void => {
    isAborted = true
    link.close(new NfltrError('timed_out', 'The hub did not open the session in time.'))
  }
  if (isAborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  try {
    const frame = await readFirst(link, codec)
    if (frame.type === 'open') return frame
    throw new NfltrError('protocol_violation', `The session began with a frame of kind ${frame.type}.`)
  } catch (error) {
    if (isAborted) throw new NfltrError('timed_out', 'The hub did not open the session in time.', { cause: error })
    if (error instanceof Error) link.close(error)
    throw error
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** The opening in one frame: of more fences than it holds, the first ones go. The hub names what may be running first. */
export function openFrame(codec: SessionCodec, open: SessionOpen): Uint8Array {
  return longestFrame(open.fences.length, (count) =>
    codec.encodeFrame({ ...open, fences: open.fences.slice(0, count) }),
  )
}

/**
 * The answer in one frame: of a longer inventory than it holds, the first part goes, and is called a part.
 *
 * @param onUnsendable - told where not even the answer without any inventory fits, before it is thrown
 */
export function acceptFrame(
  codec: SessionCodec,
  accept: SessionAccept & { readonly type: 'accept' },
  onUnsendable?: (kind: string, error: NfltrError) => void,
): Uint8Array {
  const { inventory } = accept
  try {
    return longestFrame(inventory.length, (count) => {
      const cut = count < inventory.length || accept.isInventoryCut === true ? { isInventoryCut: true } : {}
      return codec.encodeFrame({ ...accept, inventory: inventory.slice(0, count), ...cut })
    })
  } catch (error) {
    if (error instanceof NfltrError) onUnsendable?.('accept', error)
    throw error
  }
}

/** The frame with as many of `count` elements as the bounds of a frame allow. @throws whatever the frame without any throws */
function longestFrame(count: number, encode: (count: number) => Uint8Array): Uint8Array {
  const fitting = (most: number): Uint8Array | undefined => {
    try {
      return encode(most)
    } catch (error) {
      if (error instanceof NfltrError && (error.code === 'frame_too_large' || error.code === 'invalid_frame')) {
        return undefined
      }
      throw error
    }
  }
  const whole = fitting(count)
  if (whole !== undefined) return whole
  let best = encode(0)
  for (let [low, high] = [0, count]; high - low > 1; ) {
    const middle = Math.floor((low + high) / 2)
    const frame = fitting(middle)
    if (frame === undefined) high = middle
    else {
      low = middle
      best = frame
    }
  }
  return best
}

/** The cursor that the peer named for the lane. @throws {NfltrError} `protocol_violation` unless there is exactly one */
export function cursorFor(lanes: readonly LaneCursor[], lane: number): LaneCursor {
  const named = lanes.filter((candidate) => candidate.lane === lane)
  const [cursor] = named
  if (cursor !== undefined && named.length === 1) return cursor
  throw new NfltrError('protocol_violation', `The session's opening named lane ${lane} ${named.length} times.`)
}

const explanations: Record<LaneFault, string> = {
  newer_incarnation: 'it knows a later state of the store of this side',
  older_incarnation: 'its store was put back to an earlier state',
  acked_above_received: 'it got acknowledgements that this side knows nothing of',
  received_above_sent: 'it has applied messages that this side never sent',
  received_below_acked: 'it no longer has messages that it acknowledged',
  sent_below_received: 'it no longer knows of messages that this side got from it',
  other_hash: 'it has applied other messages under the same numbers',
  other_store: 'its store is not the one that this side knows',
  gap: 'it left out a part of a message',
  message_too_large: 'it sent a message over the limit',
  empty_part: 'it sent an empty part of a message',
  credit_exceeded: 'it sent more than it had credit for',
  ack_of_unsent: 'it acknowledged what was not sent',
}

/** The refusal that a fault of a lane becomes; `details.fault` names it for programs. */
export function faultError(fault: LaneFault, lane: number): NfltrError {
  return new NfltrError('protocol_violation', `The peer broke lane ${lane} of the session: ${explanations[fault]}.`, {
    details: { fault, lane },
  })
}

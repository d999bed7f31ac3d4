import { type ErrorCode, NfltrError } from '../core/errors.ts'
import type { Link, PeerFacts } from '../ports/peers.ts'
import type { FrameStream } from './frame-stream.ts'

export const sessionProtocol = '/nfltr/session/1.0.0'

/** Closing a link for one of these means that the peer broke the protocol: it is counted. */
const violations: readonly ErrorCode[] = [
  'invalid_frame',
  'frame_too_large',
  'protocol_violation',
  'unsupported',
  'stale_epoch',
]

/** A session stream as the runtime sees it. */
export class SessionLink implements Link {
  readonly peer: PeerFacts
  readonly closed: Promise<Error | undefined>
  readonly #frames: FrameStream
  readonly #onViolation: (code: ErrorCode) => void

  constructor(
    frames: FrameStream,
    options: { readonly peer: PeerFacts; readonly onViolation: (code: ErrorCode) => void },
  ) {
    this.#frames = frames
    this.peer = options.peer
    this.closed = frames.closed
    this.#onViolation = options.onViolation
  }

  send(frame: Uint8Array): Promise<void> {
    return this.#frames.send(frame)
  }

  frames(): AsyncIterable<Uint8Array> {
    return this.#frames.frames()
  }

  lastHeardAtMs(): number {
    return this.#frames.lastHeardAtMs()
  }

  close(error?: Error): void {
    if (error instanceof NfltrError && violations.includes(error.code)) this.#onViolation(error.code)
    this.#frames.close(error)
  }
}

/**
 * Why a peer may not open a session on this process, or undefined. Only a hub opens sessions, only a node serves them, and
 * the role counts by the machine's membership, not by what the process calls itself (rules 10 and 27).
 */
export function objectionToSession(peer: PeerFacts, self: PeerFacts): NfltrError | undefined {
  if (self.kind !== 'node' || !self.roles.includes('node')) {
    return new NfltrError('wrong_role', `This process is no node; it serves no sessions.`)
  }
  if (peer.kind !== 'hub' || !peer.roles.includes('hub') || peer.hubId === undefined) {
    return new NfltrError('wrong_role', `${peer.name} is no hub; only hubs open sessions.`)
  }
  return undefined
}

import { type ErrorCode, NfltrError } from '../core/errors.ts'
import type { ControlMessage, SessionFrame } from '../core/messages.ts'
import type { LaneFault } from '../core/session-lane.ts'
import type { Clock } from '../ports/clock.ts'
import type { Link } from '../ports/peers.ts'
import { Heartbeat, type HeartbeatLimits } from './heartbeat.ts'
import { LinkWriter } from './link-writer.ts'
import type { SessionCodec } from './session-codec.ts'
import { framesOf } from './session-opening.ts'
import type { LaneCarrier } from './work-lane.ts'

/** Errors that concern one link or the peer behind it, and nothing else. */
export const linkErrors: ReadonlySet<ErrorCode> = new Set([
  'link_down',
  'timed_out',
  'unreachable',
  'invalid_frame',
  'frame_too_large',
  'protocol_violation',
  'stale_epoch',
])

interface Probe {
  readonly sentAtMs: number
  readonly answer: PromiseWithResolvers<number>
}

export interface AttachmentOptions {
  readonly link: Link
  readonly clock: Clock
  readonly codec: SessionCodec
  readonly limits: HeartbeatLimits
  readonly isBusy: boolean
  /**
   * After so long without a frame of the peer, by the monotonic or the wall clock, numbered frames are held until the peer
   * has answered on this very link: they may have lain somewhere while the peer gave the link up (rules 5 and 29). Absent:
   * no silence casts doubt.
   */
  readonly doubtedAfterMs: number | undefined
  /** The next work frame that may go out now, or undefined. */
  readonly nextPart: () => Promise<Uint8Array | undefined>
  /** Takes a frame; an `NfltrError` that it throws closes the link with that reason. */
  readonly take: (frame: SessionFrame) => void
  /** What ends more than the link: bugs, and a store that failed or is damaged. */
  readonly onBug: (error: Error) => void
  readonly onDown: (reason: Error | undefined) => void
  readonly onFault: (fault: LaneFault) => void
  /** An unnumbered message was over a bound of the wire, and did not go out. */
  readonly onUnsendable: (kind: string, error: NfltrError) => void
  readonly onCaughtUp: () => void
}

/**
 * A session's hold on one link: reads its frames, writes in turn, keeps it proven, and measures what the peer owes. It
 * ends once, with the reason why.
 */
export class Attachment implements LaneCarrier {
  readonly link: Link
  /** Resolves once the link is down, with the reason where one is known. */
  readonly ended: Promise<Error | undefined>

  readonly #options: AttachmentOptions
  readonly #writer: LinkWriter
  readonly #heartbeat: Heartbeat
  readonly #probes = new Map<number, Probe>()
  #probeNonce = 0
  /** When the last frame came, by both clocks. */
  #frameAt: { readonly nowMs: number; readonly wallMs: number }
  /** While there is doubt about the link: numbered frames, in order, that wait for an answer of the peer. */
  #held: SessionFrame[] | undefined
  #reason: Error | undefined
  #owesWorkSinceMs: number | undefined

  constructor(options: AttachmentOptions) {
    const { link, clock, codec } = options
    this.#options = options
    this.link = link
    this.#frameAt = { nowMs: clock.nowMs(), wallMs: clock.wallMs() }
    this.#writer = new LinkWriter(link, {
      encode: (message) => encodeControl(codec, message, options.onUnsendable),
      nextPart: options.nextPart,
    })
    this.#heartbeat = new Heartbeat({
      clock,
      limits: options.limits,
      lastHeardAtMs: () => link.lastHeardAtMs(),
      beat: () => this.control({ type: 'heartbeat' }),
      ask: () => void this.#ask(),
      onDead: () => this.close(new NfltrError('link_down', 'Nothing was heard from the peer for three heartbeats.')),
    })
    this.#heartbeat.setBusy(options.isBusy)
    this.ended = link.closed.then((reason) => {
      this.#heartbeat.stop()
      this.#writer.stop()
      const cause = this.#reason ?? reason
      for (const { answer } of this.#probes.values()) {
        answer.reject(new NfltrError('link_down', 'The link ended before the peer answered.', { cause }))
      }
      this.#probes.clear()
      return cause
    })
    void this.ended.then(options.onDown)
  }

  /** Begins to read and write. */
  start(): void {
    this.#writer.run().catch((error: unknown) => this.#broken(error))
    this.#read().catch((error: unknown) => this.#broken(error))
  }

  control(message: ControlMessage): void {
    this.#writer.control(message)
  }

  onFault(fault: LaneFault): void {
    this.#options.onFault(fault)
  }

  onCaughtUp(): void {
    this.#options.onCaughtUp()
  }

  pump(): void {
    this.#writer.pump()
  }

  setBusy(isBusy: boolean): void {
    this.#heartbeat.setBusy(isBusy)
  }

  close(reason: Error): void {
    this.#reason ??= reason
    this.link.close(reason)
  }

  /** Resolves with the round trip in milliseconds. @throws {NfltrError} `link_down` when the link ended first */
  probe(): Promise<number> {
    return this.#ask()
  }

  answerProbe(nonce: number): void {
    if (!this.#probes.has(nonce)) return
    for (const [asked, { sentAtMs, answer }] of this.#probes) {
      // Answers come in order: one that was asked before and not answered was merged with this one.
      if (asked > nonce) break
      this.#probes.delete(asked)
      answer.resolve(this.#options.clock.nowMs() - sentAtMs)
    }
  }

  /** Whether work was sent that the peer has not acknowledged yet. */
  setOwesWork(owesWork: boolean): void {
    if (!owesWork) this.#owesWorkSinceMs = undefined
    else this.#owesWorkSinceMs ??= this.#options.clock.nowMs()
  }

  /** Since when the peer, asked for an answer, has sent not one byte; undefined while nothing is owed. */
  owedSinceMs(): number | undefined {
    const probedAtMs = this.#probes.values().next().value?.sentAtMs ?? Number.POSITIVE_INFINITY
    const askedAtMs = Math.min(probedAtMs, this.#owesWorkSinceMs ?? Number.POSITIVE_INFINITY)
    return askedAtMs === Number.POSITIVE_INFINITY ? undefined : Math.max(askedAtMs, this.link.lastHeardAtMs())
  }

  #ask(): Promise<number> {
    this.#probeNonce += 1
    const probe: Probe = { sentAtMs: this.#options.clock.nowMs(), answer: Promise.withResolvers<number>() }
    probe.answer.promise.catch(() => undefined)
    this.#probes.set(this.#probeNonce, probe)
    this.control({ type: 'probe', nonce: this.#probeNonce })
    return probe.answer.promise
  }

  async #read(): Promise<void> {
    const frames = framesOf(this.link)
    for (let next = await frames.next(); next.done !== true; next = await frames.next()) {
      const frame = this.#options.codec.decodeFrame(next.value)
      if (this.#reason !== undefined) return
      if (frame.type !== 'unknown') this.#take(frame)
    }
  }

  #take(frame: SessionFrame): void {
    if (this.#wasSilent()) this.#held ??= []
    if (this.#held === undefined || frame.type !== 'part') {
      this.#options.take(frame)
      return
    }
    this.#held.push(frame)
    if (this.#held.length > 1) return
    this.#ask()
      .then(() => this.#release())
      // Where the link ended before an answer, what came over it counts for nothing.
      .catch((error: unknown) => this.#broken(error))
  }

  /** Whether this frame came after so long a silence that the peer may have given the link up meanwhile. */
  #wasSilent(): boolean {
    const { clock, doubtedAfterMs } = this.#options
    const before = this.#frameAt
    this.#frameAt = { nowMs: clock.nowMs(), wallMs: clock.wallMs() }
    const silentMs = Math.max(this.#frameAt.nowMs - before.nowMs, this.#frameAt.wallMs - before.wallMs)
    return doubtedAfterMs !== undefined && silentMs > doubtedAfterMs
  }

  #release(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const frame of held) {
      if (this.#reason !== undefined) return
      this.#options.take(frame)
    }
  }

  #broken(error: unknown): void {
    const reason = error instanceof Error ? error : new Error(String(error))
    this.close(reason)
    if (!(reason instanceof NfltrError && linkErrors.has(reason.code))) this.#options.onBug(reason)
  }
}

/** Undefined for what is over a bound of the wire: an unnumbered message is never owed, so it is left out. */
function encodeControl(
  codec: SessionCodec,
  message: ControlMessage,
  onUnsendable: AttachmentOptions['onUnsendable'],
): Uint8Array | undefined {
  try {
    return codec.encodeFrame({ type: 'control', message })
  } catch (error) {
    if (!(error instanceof NfltrError)) throw error
    onUnsendable(message.type, error)
    return undefined
  }
}

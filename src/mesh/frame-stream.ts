import type { Stream } from '@libp2p/interface'
import { NfltrError } from '../core/errors.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import { ByteQueue } from './byte-queue.ts'

export interface FrameStreamOptions {
  readonly clock: Clock
  /** A longer frame ends the stream before anything is allocated for it. */
  readonly frameMaxBytes: number
  /** Called once when the peer broke the framing, with the typed reason. */
  readonly onViolation?: (error: NfltrError) => void
}

/** How long a graceful close waits for the peer before the stream is aborted, in milliseconds. */
const closeGraceMs = 2_000

/** A length takes at most this many varint bytes: 28 bits. */
const lengthMaxBytes = 4

/**
 * Whole frames over one libp2p stream, with back-pressure in both directions.
 *
 * libp2p's own helpers are not used, because none of them holds a sender back: `byteStream` and `lpStream` read on into a
 * buffer and abort at 4 MiB, `for await` buffers without a bound, and `onDrain()` waits only the first time. Here the
 * stream is paused while `frameMaxBytes` are unread, which stops the yamux window, which stops the sender; and `send`
 * waits for a `drain` event of its own. So at most one frame and two yamux windows are held per stream.
 *
 * A frame is its length as a varint and its bytes. Nothing here throws later than its caller waits, and no promise of
 * this class rejects unobserved.
 */
export class FrameStream {
  /** Resolves once the stream is down both ways; with the reason, where it was not a graceful close. Never rejects. */
  readonly closed: Promise<Error | undefined>

  readonly #stream: Stream
  readonly #options: FrameStreamOptions
  readonly #unread = new ByteQueue()
  readonly #settleClosed: (error: Error | undefined) => void
  #wake: (() => void) | undefined
  #tail: Promise<void> = Promise.resolve()
  #heardAtMs: number
  #isEnded = false
  #isDropped = false
  #isResuming = false
  #isClosing = false
  #graceTimer: Timer | undefined
  #failure: Error | undefined
  #violation: NfltrError | undefined

  constructor(stream: Stream, options: FrameStreamOptions) {
    this.#stream = stream
    this.#options = options
    this.#heardAtMs = options.clock.nowMs()
    const { promise, resolve } = Promise.withResolvers<Error | undefined>()
    this.closed = promise
    this.#settleClosed = resolve
    stream.addEventListener('message', this.#onMessage)
    stream.addEventListener('end', this.#onEnd)
    stream.addEventListener('close', this.#onClose)
    if (stream.status !== 'open') this.#onClose({ error: undefined })
    else this.#noticeEnd()
  }

  /** How the peer broke the framing, where that ended the stream. */
  get violation(): NfltrError | undefined {
    return this.#violation
  }

  /** Monotonic milliseconds of the last received chunk, whole frame or not; at first, when the stream was opened. */
  lastHeardAtMs(): number {
    return this.#heardAtMs
  }

  /**
   * Hands one frame to the stream and waits while the peer does not read. Frames go out in the order of the calls.
   *
   * @throws {NfltrError} `frame_too_large`; `link_down` when the stream is gone, now or while waiting
   */
  send(frame: Uint8Array): Promise<void> {
    if (frame.byteLength > this.#options.frameMaxBytes) {
      return Promise.reject(tooLarge(frame.byteLength, this.#options.frameMaxBytes))
    }
    const sent = this.#tail.then(() => this.#write(withLength(frame)))
    // The order goes on after a failed frame; who waits for that frame hears of it.
    this.#tail = sent.catch(() => {})
    return sent
  }

  /** The next frame, or `undefined` once no more will come. Never rejects. Only one reader at a time. */
  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const frame = this.#takeFrame()
      if (frame !== undefined) return frame
      this.#letIn()
      if (this.#unread.byteLength > 0 && this.#hasWholeFrame()) continue
      if (this.#isEnded) return undefined
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** Frames as they arrive; ends when the stream does, never throws. */
  async *frames(): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      const frame = await this.read()
      if (frame === undefined) return
      yield frame
    }
  }

  /** Ends the stream: in order after what was sent, or at once with an error, which the peer sees as a reset. */
  close(error?: Error): void {
    if (error !== undefined) {
      this.#failure ??= error
      this.#finishReading()
      this.#stream.abort(error)
      return
    }
    if (this.#isClosing) return
    this.#isClosing = true
    this.#graceTimer = this.#options.clock.after(closeGraceMs, () =>
      this.#stream.abort(new Error('close took too long')),
    )
    this.#tail = this.#tail.then(() => this.#closeWrite())
  }

  async #closeWrite(): Promise<void> {
    try {
      await this.#stream.close()
    } catch {
      // It went down by itself meanwhile; `closed` tells.
    }
  }

  async #write(bytes: Uint8Array): Promise<void> {
    if (this.#failure !== undefined) throw linkDown(this.#failure)
    try {
      if (!this.#stream.send(bytes)) await this.#drained()
    } catch (error) {
      throw error instanceof NfltrError ? error : linkDown(error)
    }
  }

  /** The connection tells all its streams that it has room, also one whose own window is shut: that one has to wait on. */
  async #drained(): Promise<void> {
    do await this.#drainedOnce()
    while (this.#stream.writableNeedsDrain)
  }

  #drainedOnce(): Promise<void> {
    const stream = this.#stream
    return new Promise((resolve, reject) => {
      const settle = (outcome: () => void): void => {
        stream.removeEventListener('drain', onDrain)
        stream.removeEventListener('close', onClose)
        outcome()
      }
      const onDrain = (): void => settle(resolve)
      const onClose = (): void => settle(() => reject(linkDown(this.#failure)))
      stream.addEventListener('drain', onDrain)
      stream.addEventListener('close', onClose)
    })
  }

  readonly #onMessage = (event: { readonly data: Uint8Array | Iterable<Uint8Array> }): void => {
    this.#heardAtMs = this.#options.clock.nowMs()
    if (this.#isDropped) return
    const chunks = event.data instanceof Uint8Array ? [event.data] : event.data
    for (const chunk of chunks) this.#unread.append(chunk)
    this.#holdBack()
    this.#wakeReader()
    this.#noticeEnd()
  }

  /**
   * libp2p tells the end once, and may have told it while its protocol negotiation still held the last bytes, which it then
   * puts back: so the end counts only once nothing is left to come.
   */
  #noticeEnd(): void {
    if (this.#stream.readableEnded) this.#onEnd()
  }

  readonly #onEnd = (): void => {
    if (this.#stream.readBufferLength > 0 || this.#isEnded) return
    this.#isEnded = true
    this.#wakeReader()
    // Half a conversation is of no use to any protocol of ours: what the peer ended, we end too.
    this.close()
  }

  readonly #onClose = (event: { readonly error?: Error | undefined }): void => {
    this.#graceTimer?.cancel()
    if (event.error !== undefined) this.#failure ??= linkDown(event.error)
    // What arrived before the end may still wait behind a pause: readers get it, then the end.
    if (this.#stream.readBufferLength === 0) this.#isEnded = true
    this.#wakeReader()
    this.#settleClosed(this.#failure)
  }

  #holdBack(): void {
    if (this.#isResuming || this.#stream.readStatus !== 'readable') return
    if (this.#unread.byteLength > this.#options.frameMaxBytes) this.#stream.pause()
  }

  #letIn(): void {
    if (this.#stream.readStatus === 'paused') {
      // While it resumes, libp2p hands over what it holds and only then opens the window: a pause in between would be
      // undone without notice, and the stream would take in megabytes until libp2p aborts it.
      this.#isResuming = true
      this.#stream.resume()
      this.#isResuming = false
      this.#holdBack()
    }
    if (this.#stream.status !== 'open' && this.#stream.readBufferLength === 0) this.#isEnded = true
  }

  #wakeReader(): void {
    const wake = this.#wake
    this.#wake = undefined
    wake?.()
  }

  #finishReading(): void {
    this.#isEnded = true
    this.#isDropped = true
    this.#unread.clear()
    this.#wakeReader()
  }

  #hasWholeFrame(): boolean {
    const length = this.#frameLength()
    return length !== undefined && this.#unread.byteLength >= length.headerBytes + length.bodyBytes
  }

  #takeFrame(): Uint8Array | undefined {
    const length = this.#frameLength()
    if (length === undefined || this.#unread.byteLength < length.headerBytes + length.bodyBytes) return undefined
    this.#unread.drop(length.headerBytes)
    return this.#unread.take(length.bodyBytes)
  }

  /** Length of the next frame once its header is here; a header that breaks the rules ends the stream. */
  #frameLength(): { readonly headerBytes: number; readonly bodyBytes: number } | undefined {
    let bodyBytes = 0
    for (let index = 0; index < lengthMaxBytes; index += 1) {
      const byte = this.#unread.at(index)
      if (byte === undefined) return undefined
      bodyBytes += (byte & 0x7f) * 2 ** (7 * index)
      if (byte >= 0x80) continue
      if (bodyBytes > this.#options.frameMaxBytes)
        return this.#violate(tooLarge(bodyBytes, this.#options.frameMaxBytes))
      return { headerBytes: index + 1, bodyBytes }
    }
    return this.#violate(new NfltrError('frame_too_large', 'The peer announced a frame of more than 256 MiB.'))
  }

  #violate(error: NfltrError): undefined {
    this.#violation = error
    this.#options.onViolation?.(error)
    this.close(error)
    return undefined
  }
}

function withLength(frame: Uint8Array): Uint8Array {
  const header: number[] = []
  let left = frame.byteLength
  while (left >= 0x80) {
    header.push((left % 0x80) | 0x80)
    left = Math.floor(left / 0x80)
  }
  header.push(left)
  const bytes = new Uint8Array(header.length + frame.byteLength)
  bytes.set(header)
  bytes.set(frame, header.length)
  return bytes
}

function tooLarge(bytes: number, maxBytes: number): NfltrError {
  return new NfltrError('frame_too_large', `A frame of ${bytes} bytes was refused; the limit is ${maxBytes}.`, {
    details: { bytes, max_bytes: maxBytes },
  })
}

function linkDown(cause: unknown): NfltrError {
  if (cause instanceof NfltrError && cause.code === 'link_down') return cause
  const reason = cause instanceof Error ? `: ${cause.message}` : '.'
  return new NfltrError('link_down', `The link went down${reason}`, cause === undefined ? {} : { cause })
}

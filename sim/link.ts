import { NfltrError } from '../src/core/errors.ts'
import { limits } from '../src/core/limits.ts'
import type { Link, PeerFacts } from '../src/ports/peers.ts'
import type { SimClock } from './clock.ts'
import { forever, type Life } from './life.ts'
import type { Pipe } from './pipe.ts'

export interface LinkEndOptions {
  readonly life: Life
  readonly clock: SimClock
  readonly peer: PeerFacts
  readonly pipe: Pipe
  readonly onSend: (frame: Uint8Array) => void
}

/** One end of a session stream. Frames arrive whole, unchanged and in order; the stream may vanish at any byte. */
export class LinkEnd implements Link {
  readonly peer: PeerFacts
  readonly closed: Promise<Error | undefined>
  readonly #options: LinkEndOptions
  readonly #resolveClosed: (reason: Error | undefined) => void
  #other: LinkEnd | undefined
  #arrived: Uint8Array[] = []
  #isClosed = false
  #heardAtMs: number
  /** Bytes that this end sent and the other has not read: what fills the buffers between them. */
  #unreadBytes = 0
  #whenReadable: (() => void) | undefined
  #whenWritable: (() => void)[] = []

  constructor(options: LinkEndOptions) {
    this.#options = options
    this.peer = options.peer
    this.#heardAtMs = options.clock.nowMs()
    const closed = Promise.withResolvers<Error | undefined>()
    this.closed = closed.promise
    this.#resolveClosed = closed.resolve
  }

  connect(other: LinkEnd): void {
    this.#other = other
  }

  async send(frame: Uint8Array): Promise<void> {
    if (frame.length > limits.sessionFrameMaxBytes) {
      throw new NfltrError('frame_too_large', `A frame of ${frame.length} bytes was over the limit.`)
    }
    while (!this.#isClosed && this.#unreadBytes >= limits.creditWindowBytes) {
      await new Promise<void>((resolve) => this.#whenWritable.push(resolve))
    }
    const { life, pipe, onSend } = this.#options
    if (!life.act()) return forever()
    if (this.#isClosed) throw new NfltrError('link_down', 'The link was down.')
    const bytes = frame.slice()
    onSend(bytes)
    this.#unreadBytes += bytes.length
    pipe.send(() => this.#other?.reach(() => this.#other?.arrive(bytes)))
  }

  async *frames(): AsyncIterable<Uint8Array> {
    for (;;) {
      const frame = this.#arrived.shift()
      if (frame !== undefined) {
        this.#other?.read(frame.length)
        yield frame
      } else if (this.#isClosed) {
        return
      } else {
        await new Promise<void>((resolve) => {
          this.#whenReadable = resolve
        })
      }
    }
  }

  lastHeardAtMs(): number {
    return this.#heardAtMs
  }

  close(error?: Error): void {
    const { pipe, life } = this.#options
    if (this.#isClosed || !life.act()) return
    this.end(error)
    const told = error === undefined ? undefined : new NfltrError('link_down', 'The other end aborted the link.')
    const tell = (): void => this.#other?.reach(() => this.#other?.end(told))
    if (error === undefined) pipe.send(tell)
    else pipe.cut()
    // Where the stream was cut, or everything is held back, the connection itself tells, some time later.
    life.world.after(closeNoticeMs, tell)
  }

  /** The stream is gone at this end. An abort takes with it what had arrived and was not read. */
  end(reason: Error | undefined): void {
    if (this.#isClosed) return
    this.#isClosed = true
    if (reason !== undefined) this.#arrived = []
    this.#resolveClosed(reason)
    this.#whenReadable?.()
    for (const resume of this.#whenWritable.splice(0)) resume()
  }

  /** Hands something over to the process at this end, as soon as it runs. */
  reach(work: () => void): void {
    this.#options.life.reach(work)
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  arrive(frame: Uint8Array): void {
    const { life, clock } = this.#options
    if (this.#isClosed || !life.isAlive) return
    this.#heardAtMs = clock.nowMs()
    this.#arrived.push(frame)
    this.#whenReadable?.()
  }

  read(bytes: number): void {
    this.#unreadBytes -= bytes
    for (const resume of this.#whenWritable.splice(0)) resume()
  }
}

/** By then the other end has noticed a close in any case, in milliseconds. */
const closeNoticeMs = 2_000

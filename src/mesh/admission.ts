import type { Connection, Stream, StreamMuxer } from '@libp2p/interface'
import { type ErrorCode, NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Clock, Timer } from '../ports/clock.ts'

/** What a connection is made of before libp2p shows it: the socket's stream. */
interface RawConnection {
  readonly timeline: object
  addEventListener?(type: 'message' | 'close', listener: (event: Event) => void): void
  removeEventListener?(type: 'message', listener: (event: Event) => void): void
  abort?(error: Error): void
}

export interface AdmissionOptions {
  readonly clock: Clock
  readonly onRefusal: (code: ErrorCode) => void
  readonly isMember: boolean
  readonly prefix: string
}

/** Streams that a connection may have opened on us before it has passed hello. */
const streamsBeforeHelloMax = 2

/** How long a hello that has arrived may take to be read, in milliseconds. */
const heelsMs = 100

/** How long a joiner that proved its invite may stay without hello, in milliseconds. */
const issuingTimeoutMs = 30_000

/**
 * One connection on its way from a stranger to a member: what it has used, how long it may still take, and how it ended.
 * Until `pass` it is cut at the first bound it breaks.
 */
export class Admission {
  readonly isMember: boolean
  readonly prefix: string

  readonly #raw: RawConnection
  readonly #options: AdmissionOptions
  #timer: Timer
  readonly #settled = Promise.withResolvers<boolean>()
  #connection: Connection | undefined
  #muxer: (StreamMuxer & { ping?(): Promise<number> }) | undefined
  #phase: 'quarantine' | 'passed' | 'ended' = 'quarantine'
  #bytes = 0
  #bytesMax: number = limits.helloMaxBytes
  #streams = 0
  #isHelloRunning = false
  #hasHeardHello = false
  #heels: Timer | undefined
  #isProven = false

  constructor(raw: RawConnection, options: AdmissionOptions) {
    this.#raw = raw
    this.#options = options
    this.isMember = options.isMember
    this.prefix = options.prefix
    this.#timer = this.#cutAfter(limits.helloTimeoutMs)
    raw.addEventListener?.('message', this.#count)
    raw.addEventListener?.('close', () => this.#end())
  }

  get hasPassed(): boolean {
    return this.#phase === 'passed'
  }

  get hasEnded(): boolean {
    return this.#phase === 'ended'
  }

  /** Takes the connection that libp2p made of it, once; counts its streams from then on. */
  attach(connection: Connection): void {
    if (this.#connection !== undefined) return
    this.#connection = connection
    connection.addEventListener('close', () => this.#end())
    if (connection.status !== 'open') this.#end()
    this.#muxer?.addEventListener('stream', (event: CustomEvent<Stream>) => this.#countStream(event.detail))
  }

  attachMuxer(muxer: StreamMuxer & { ping?(): Promise<number> }): void {
    this.#muxer = muxer
  }

  /** Hello has begun on this connection. @returns false when one is under way or over: it runs once. */
  beginHello(): boolean {
    if (this.#isHelloRunning || this.#phase !== 'quarantine') return false
    this.#isHelloRunning = true
    return true
  }

  get isHelloRunning(): boolean {
    return this.#isHelloRunning
  }

  /**
   * The peer proved its membership; only its own welcome is still to come. Its next streams may arrive before that was
   * read here, so they are no longer counted; bytes and time are.
   */
  prove(): void {
    this.#isProven = true
  }

  /** The peer's hello was read. Newer lists of what was revoked have a bound of their own beside that of hello. */
  heardHello(options: { readonly hasLists: boolean }): void {
    if (options.hasLists) this.#bytesMax = limits.helloMaxBytes + limits.revocationsMaxBytes
    this.#hasHeardHello = true
    this.#checkBytes()
  }

  /** The peer proved an invite: what is left to do takes as long as this machine's disk, not as long as the peer likes. */
  allowIssuing(): void {
    if (this.#phase !== 'quarantine') return
    this.#timer.cancel()
    this.#timer = this.#cutAfter(issuingTimeoutMs)
  }

  /** The peer is a member: the bounds of strangers no longer hold. */
  pass(): void {
    if (this.#phase !== 'quarantine') return
    this.#phase = 'passed'
    this.#stopCounting()
    this.#settled.resolve(true)
  }

  /** Whether the connection passes hello; waits for the answer where hello is under way. */
  verdict(): Promise<boolean> {
    if (this.#phase === 'quarantine' && this.#isHelloRunning) return this.#settled.promise
    return Promise.resolve(this.#phase === 'passed')
  }

  onSettled(listener: () => void): void {
    this.#settled.promise.then(listener, listener)
  }

  /** Ends the connection at once with a typed reason, which is counted. */
  cut(error: NfltrError): void {
    if (this.#phase === 'ended') return
    this.#options.onRefusal(error.code)
    this.abort(error)
  }

  /** Ends the connection at once without counting it. */
  abort(error: Error): void {
    const connection = this.#connection
    this.#end()
    if (connection !== undefined) connection.abort(error)
    else this.#raw.abort?.(error)
  }

  /**
   * A round trip that needs no protocol: yamux answers it as soon as the peer's process runs. Ends only with its answer or
   * with the connection, because yamux takes an answer that nobody waits for as an attack.
   *
   * @returns milliseconds, or `undefined` when the connection ended first
   */
  async ping(): Promise<number | undefined> {
    const ended = this.#ended.promise.then(() => undefined)
    if (this.hasEnded || this.#muxer?.ping === undefined) return undefined
    try {
      return await Promise.race([this.#muxer.ping(), ended])
    } catch {
      return undefined
    }
  }

  readonly #ended = Promise.withResolvers<void>()

  readonly #count = (event: Event): void => {
    const data: unknown = 'data' in event ? event.data : undefined
    this.#bytes += hasByteLength(data) ? data.byteLength : 0
    if (this.#bytes <= this.#bytesMax) return
    // Lists may be on the heels of the hello that announces them, which is read a moment later.
    if (!this.#isHelloRunning || this.#hasHeardHello) this.#checkBytes()
    else this.#heels ??= this.#options.clock.after(heelsMs, () => this.#checkBytes())
  }

  #checkBytes(): void {
    if (this.#phase !== 'quarantine' || this.#bytes <= this.#bytesMax) return
    this.cut(new NfltrError('frame_too_large', `The peer sent more than ${this.#bytesMax} bytes before hello.`))
  }

  #countStream(_stream: Stream): void {
    if (this.#phase !== 'quarantine' || this.#isProven) return
    this.#streams += 1
    if (this.#streams > streamsBeforeHelloMax) {
      this.cut(
        new NfltrError(
          'protocol_violation',
          `The peer opened more than ${streamsBeforeHelloMax} streams before hello.`,
        ),
      )
    }
  }

  #cutAfter(delayMs: number): Timer {
    return this.#options.clock.after(delayMs, () => {
      this.cut(new NfltrError('timed_out', 'The peer did not finish hello in time.'))
    })
  }

  #end(): void {
    if (this.#phase === 'ended') return
    this.#phase = 'ended'
    this.#stopCounting()
    this.#settled.resolve(false)
    this.#ended.resolve()
  }

  #stopCounting(): void {
    this.#timer.cancel()
    this.#heels?.cancel()
    this.#raw.removeEventListener?.('message', this.#count)
  }
}

function hasByteLength(data: unknown): data is { readonly byteLength: number } {
  return typeof data === 'object' && data !== null && 'byteLength' in data && typeof data.byteLength === 'number'
}

import type { Link, PeerFacts } from '../../src/ports/peers.ts'

/** What crosses between a test and a node in a process of its own. */
export type IpcMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'open'; readonly link: number }
  | { readonly type: 'frame'; readonly link: number; readonly bytes: Uint8Array }
  | { readonly type: 'close'; readonly link: number }

/** A link over the channel between a process and its parent. */
export class IpcLink implements Link {
  readonly peer: PeerFacts
  readonly closed: Promise<Error | undefined>
  readonly #id: number
  readonly #post: (message: IpcMessage) => void
  readonly #resolveClosed: (reason: Error | undefined) => void
  readonly #arrived: Uint8Array[] = []
  #heardAtMs = performance.now()
  #isClosed = false
  #wake: (() => void) | undefined

  constructor(options: {
    readonly id: number
    readonly peer: PeerFacts
    readonly post: (message: IpcMessage) => void
  }) {
    this.peer = options.peer
    this.#id = options.id
    this.#post = options.post
    const closed = Promise.withResolvers<Error | undefined>()
    this.closed = closed.promise
    this.#resolveClosed = closed.resolve
  }

  async send(frame: Uint8Array): Promise<void> {
    if (!this.#isClosed) this.#post({ type: 'frame', link: this.#id, bytes: frame })
  }

  async *frames(): AsyncIterable<Uint8Array> {
    while (!this.#isClosed) {
      const frame = this.#arrived.shift()
      if (frame !== undefined) yield frame
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
    }
  }

  lastHeardAtMs(): number {
    return this.#heardAtMs
  }

  close(error?: Error): void {
    if (this.#isClosed) return
    this.#post({ type: 'close', link: this.#id })
    this.take({ type: 'close', link: this.#id }, error)
  }

  /** What came in over the channel for this link. */
  take(message: IpcMessage, reason?: Error): void {
    this.#heardAtMs = performance.now()
    if (message.type === 'frame') this.#arrived.push(new Uint8Array(message.bytes))
    if (message.type === 'close') {
      this.#isClosed = true
      this.#resolveClosed(reason)
    }
    this.#wake?.()
  }
}

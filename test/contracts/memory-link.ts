import { NfltrError } from '../../src/core/errors.ts'
import { limits } from '../../src/core/limits.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { Link, PeerFacts } from '../../src/ports/peers.ts'

export interface MemoryLinkOptions {
  readonly clock: Clock
  /** Bytes that may lie between the two before `send` waits. */
  readonly bufferBytes?: number
  /** How the two ends see each other. */
  readonly hub?: PeerFacts
  readonly node?: PeerFacts
}

/** Two ends of one link in memory: frames arrive whole, unchanged and in order, until one end closes or the link is cut. */
export interface MemoryLinkPair {
  /** The hub's end. */
  readonly hub: MemoryLink
  /** The node's end. */
  readonly node: MemoryLink
  /** From now on nothing arrives at either end, and neither is told: a dead path. */
  silence(): void
  /** Both ends go down at once; what lay between them is lost. */
  cut(reason?: Error): void
}

export const hubFacts: PeerFacts = {
  peerId: 'hub-process',
  machinePeerId: 'hub-machine',
  name: 'laptop',
  kind: 'hub',
  roles: ['hub'],
  hubId: 'hub_1',
  softwareVersion: '0.1.0',
  path: 'lan',
}

export const nodeFacts: PeerFacts = {
  peerId: 'node-machine',
  machinePeerId: 'node-machine',
  name: 'vm1',
  kind: 'node',
  roles: ['node'],
  softwareVersion: '0.1.0',
  path: 'lan',
}

export function memoryLinkPair(options: MemoryLinkOptions): MemoryLinkPair {
  const hub = new MemoryLink(options.node ?? nodeFacts, options)
  const node = new MemoryLink(options.hub ?? hubFacts, options)
  hub.connect(node)
  node.connect(hub)
  return {
    hub,
    node,
    silence: () => {
      hub.isDeaf = true
      node.isDeaf = true
    },
    cut: (reason) => {
      hub.close(reason ?? new NfltrError('link_down', 'The link was cut.'))
    },
  }
}

export class MemoryLink implements Link {
  readonly peer: PeerFacts
  readonly closed: Promise<Error | undefined>
  /** What arrives is lost. */
  isDeaf = false
  /** Frames that this end sent, in order, as they were handed over: for tests that look at the bytes. */
  readonly sent: Uint8Array[] = []

  readonly #clock: Clock
  readonly #bufferBytes: number
  readonly #resolveClosed: (reason: Error | undefined) => void
  #other: MemoryLink | undefined
  #arrived: Uint8Array[] = []
  #arrivedBytes = 0
  #isClosed = false
  #heardAtMs: number
  #whenReadable: (() => void) | undefined
  #whenWritable: (() => void)[] = []

  constructor(peer: PeerFacts, options: MemoryLinkOptions) {
    this.peer = peer
    this.#clock = options.clock
    this.#bufferBytes = options.bufferBytes ?? 256 * 1024
    this.#heardAtMs = options.clock.nowMs()
    const closed = Promise.withResolvers<Error | undefined>()
    this.closed = closed.promise
    this.#resolveClosed = closed.resolve
  }

  connect(other: MemoryLink): void {
    this.#other = other
  }

  /** Bytes that arrived and were not read. */
  get waitingBytes(): number {
    return this.#arrivedBytes
  }

  async send(frame: Uint8Array): Promise<void> {
    if (frame.length > limits.sessionFrameMaxBytes) {
      throw new NfltrError('frame_too_large', `A frame of ${frame.length} bytes was over the limit.`)
    }
    const other = this.#other
    while (other !== undefined && !this.#isClosed && other.isFull) await other.writable()
    if (this.#isClosed || other === undefined) throw new NfltrError('link_down', 'The link was down.')
    this.sent.push(frame.slice())
    other.arrive(frame.slice())
  }

  async *frames(): AsyncIterable<Uint8Array> {
    for (;;) {
      const frame = this.#arrived.shift()
      if (frame !== undefined) {
        this.#arrivedBytes -= frame.length
        for (const resume of this.#whenWritable.splice(0)) resume()
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
    this.end(error)
    this.#other?.end(error === undefined ? undefined : new NfltrError('link_down', 'The other end aborted the link.'))
  }

  /** The link is gone at this end; an abort takes with it what had arrived and was not read. */
  end(reason: Error | undefined): void {
    if (this.#isClosed) return
    this.#isClosed = true
    if (reason !== undefined) {
      this.#arrived = []
      this.#arrivedBytes = 0
    }
    this.#resolveClosed(reason)
    this.#whenReadable?.()
    for (const resume of this.#whenWritable.splice(0)) resume()
  }

  get isFull(): boolean {
    return this.#arrivedBytes >= this.#bufferBytes
  }

  arrive(frame: Uint8Array): void {
    if (this.isDeaf || this.#isClosed) return
    this.#heardAtMs = this.#clock.nowMs()
    this.#arrived.push(frame)
    this.#arrivedBytes += frame.length
    this.#whenReadable?.()
  }

  /** Resolves once there is room again, or the link is down. */
  writable(): Promise<void> {
    if (!this.isFull || this.#isClosed) return Promise.resolve()
    return new Promise((resolve) => this.#whenWritable.push(resolve))
  }
}

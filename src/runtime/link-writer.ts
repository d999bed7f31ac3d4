import type { ControlMessage } from '../core/messages.ts'
import type { Link } from '../ports/peers.ts'

/** Attempts whose progress may wait at once; of more, the oldest is dropped: progress is never owed. */
const progressMax = 256
/** Probes of the peer that may wait for their answer. */
const probeRepliesMax = 16

/**
 * The one writer of a link: frames go out one at a time, control frames before work. What waits here is bounded: control
 * messages are merged by kind, and work is fetched only when the link takes it.
 */
export class LinkWriter {
  readonly #link: Link
  readonly #encode: (message: ControlMessage) => Uint8Array | undefined
  readonly #nextPart: () => Promise<Uint8Array | undefined>
  readonly #control = new Map<string, ControlMessage>()
  #isStopped = false
  #hasWork = true
  #wake: (() => void) | undefined

  /** @param options - `nextPart`: the next work frame that may go out now, counted as sent; undefined when there is none */
  constructor(
    link: Link,
    options: {
      readonly encode: (message: ControlMessage) => Uint8Array | undefined
      readonly nextPart: () => Promise<Uint8Array | undefined>
    },
  ) {
    this.#link = link
    this.#encode = options.encode
    this.#nextPart = options.nextPart
  }

  control(message: ControlMessage): void {
    const key = mergeKey(message)
    const waiting = this.#control.get(key)
    if (message.type === 'credit' && waiting?.type === 'credit') {
      this.#control.set(key, { ...message, bytes: waiting.bytes + message.bytes })
    } else {
      this.#control.set(key, message)
    }
    if (message.type === 'progress') this.#bound('progress/', progressMax)
    if (message.type === 'probe_reply') this.#bound('probe_reply/', probeRepliesMax)
    this.#wake?.()
  }

  /** There may be work to send. */
  pump(): void {
    this.#hasWork = true
    this.#wake?.()
  }

  stop(): void {
    this.#isStopped = true
    this.#wake?.()
  }

  /** Writes until stopped. @throws whatever the link or the source of work throws */
  async run(): Promise<void> {
    while (!this.#isStopped) {
      const [key, message] = this.#control.entries().next().value ?? []
      if (key !== undefined && message !== undefined) {
        this.#control.delete(key)
        const frame = this.#encode(message)
        if (frame !== undefined) await this.#link.send(frame)
        continue
      }
      if (this.#hasWork) {
        this.#hasWork = false
        const part = await this.#nextPart()
        if (part === undefined || this.#isStopped) continue
        this.#hasWork = true
        await this.#link.send(part)
        continue
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      this.#wake = undefined
    }
  }

  #bound(prefix: string, max: number): void {
    const keys = [...this.#control.keys()].filter((key) => key.startsWith(prefix))
    for (const key of keys.slice(0, Math.max(0, keys.length - max))) this.#control.delete(key)
  }
}

/** Messages of one key replace each other while they wait: only the newest says something. */
function mergeKey(message: ControlMessage): string {
  switch (message.type) {
    case 'ack':
    case 'credit':
      return `${message.type}/${message.lane}`
    case 'progress':
      return `progress/${message.ref.attemptId}`
    case 'probe':
    case 'probe_reply':
      return `${message.type}/${message.nonce}`
    default:
      return message.type
  }
}

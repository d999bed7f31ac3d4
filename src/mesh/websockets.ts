import type { Listener, MultiaddrConnection, Transport } from '@libp2p/interface'
import { webSockets } from '@libp2p/websockets'
import type { Multiaddr } from '@multiformats/multiaddr'
import { WebSocket } from 'ws'
import { limits } from '../core/limits.ts'
import type { Clock } from '../ports/clock.ts'
import { hostOf, portOf, prefixOf } from './addresses.ts'
import { halfOpenForMembers } from './quarantine.ts'
import { changed, isWith, seeing } from './raw-connections.ts'

/** The longest message that is taken, in bytes: Noise writes none longer than 64 KiB, and a stranger may not make us wait for more. */
const messageMaxBytes = 256 * 1024

/** What is written and not yet sent, in bytes, before writers have to wait. */
const unsentMaxBytes = 1024 * 1024

type Components = Parameters<ReturnType<typeof webSockets>>[0]

/** The parts of libp2p's transport that have to be other than they are; checked when they are met. */
interface RawWebSocket extends MultiaddrConnection {
  readonly websocket: Pick<WebSocket, 'terminate' | 'pause' | 'resume'>
  readonly checkBufferedAmountTask: { stop(): void }
  sendReset(): void
  sendPause(): void
  sendResume(): void
}

interface DiallingTransport extends Transport {
  _connect(address: Multiaddr, options: { readonly signal?: AbortSignal }): Promise<WebSocket>
}

interface ServingListener extends Listener {
  readonly server: { on(event: 'connection', listener: (socket: PlainSocket) => void): void }
  readonly wsServer: { readonly options: { maxPayload?: number } }
}

interface PlainSocket {
  readonly remoteAddress?: string
  readonly remotePort?: number
  destroy(): void
  once(event: 'close', listener: () => void): void
}

/**
 * libp2p's WebSockets, with what they lack: an aborted connection closes its socket (upstream calls `close(1006)`, which throws, and
 * the socket stays open on both sides), a reader that pauses stops the sender, messages have a bound, and a stranger who connects and
 * says nothing is cut like one on TCP.
 */
export function boundedWebSockets(options: {
  readonly clock: Clock
  readonly isMemberHost: (host: string) => boolean
}): (components: Components) => Transport {
  return (components) => {
    const inner = asDialling(webSockets({ maxBufferedAmount: unsentMaxBytes })(components))
    inner._connect = connect
    const dial = inner.dial.bind(inner)
    const createListener = inner.createListener.bind(inner)
    inner.dial = (address, how) => dial(address, { ...how, upgrader: seeing(how.upgrader, (raw) => mend(asRaw(raw))) })
    inner.createListener = (how) => {
      const arrivals = new Arrivals(options)
      const onRaw = (raw: MultiaddrConnection): void => {
        mend(asRaw(raw))
        arrivals.upgraded(raw.remoteAddr)
      }
      return arrivals.watch(createListener({ ...how, upgrader: seeing(how.upgrader, onRaw) }))
    }
    return inner
  }
}

/**
 * Connections on which nothing but the beginning of HTTP happened. They are bounded as the quarantine bounds those that have yet to
 * say hello: in all, for each network, with a share kept for members, and in time.
 */
class Arrivals {
  readonly #sockets = new Map<string, PlainSocket>()
  readonly #clock: Clock
  readonly #isMemberHost: (host: string) => boolean

  constructor(options: { readonly clock: Clock; readonly isMemberHost: (host: string) => boolean }) {
    this.#clock = options.clock
    this.#isMemberHost = options.isMemberHost
  }

  watch(listener: Listener): Listener {
    const { server, wsServer } = asServing(listener)
    wsServer.options.maxPayload = messageMaxBytes
    server.on('connection', (socket) => this.#onConnection(socket))
    return listener
  }

  upgraded(address: Multiaddr): void {
    this.#sockets.delete(keyOf(hostOf(address), portOf(address)))
  }

  #onConnection(socket: PlainSocket): void {
    if (!this.#hasRoomFor(socket.remoteAddress ?? '')) {
      socket.destroy()
      return
    }
    const key = keyOf(socket.remoteAddress, socket.remotePort)
    this.#sockets.set(key, socket)
    const timer = this.#clock.after(limits.helloTimeoutMs, () => {
      if (this.#sockets.get(key) === socket) socket.destroy()
    })
    socket.once('close', () => {
      timer.cancel()
      if (this.#sockets.get(key) === socket) this.#sockets.delete(key)
    })
  }

  #hasRoomFor(host: string): boolean {
    if (this.#sockets.size >= limits.halfOpenMax) return false
    if (this.#isMemberHost(host)) return true
    const strangers = [...this.#sockets.values()]
      .map(({ remoteAddress = '' }) => remoteAddress)
      .filter((other) => !this.#isMemberHost(other))
    const neighbours = strangers.filter((other) => prefixOf(other) === prefixOf(host))
    return strangers.length < limits.halfOpenMax - halfOpenForMembers && neighbours.length < limits.halfOpenPerPrefixMax
  }
}

function keyOf(host: string | undefined, port: number | undefined): string {
  return `${host} ${port}`
}

/** With `ws` and not Node's own WebSocket, which can neither be cut nor paused. */
async function connect(address: Multiaddr, options: { readonly signal?: AbortSignal }): Promise<WebSocket> {
  options.signal?.throwIfAborted()
  const host = hostOf(address) ?? ''
  const websocket = new WebSocket(`ws://${host.includes(':') ? `[${host}]` : host}:${portOf(address)}`, {
    perMessageDeflate: false,
    maxPayload: messageMaxBytes,
    handshakeTimeout: limits.helloTimeoutMs,
  })
  websocket.binaryType = 'arraybuffer'
  // Whatever goes wrong ends in `close`, which everyone waits for; an error without a listener would end the process.
  websocket.on('error', () => undefined)
  const cut = (): void => websocket.terminate()
  options.signal?.addEventListener('abort', cut, { once: true })
  try {
    await new Promise<void>((resolve, reject) => {
      websocket.once('open', resolve)
      websocket.once('error', reject)
      websocket.once('close', () => reject(new Error('The connection was closed before it was open.')))
    })
  } finally {
    options.signal?.removeEventListener('abort', cut)
  }
  return websocket
}

function mend(raw: RawWebSocket): void {
  raw.sendReset = () => {
    raw.checkBufferedAmountTask.stop()
    raw.websocket.terminate()
  }
  raw.sendPause = () => raw.websocket.pause()
  raw.sendResume = () => raw.websocket.resume()
}

function asRaw(value: unknown): RawWebSocket {
  if (isWith<RawWebSocket>(value, ['websocket', 'checkBufferedAmountTask', 'sendReset', 'sendPause', 'sendResume']))
    return value
  throw changed('connection of @libp2p/websockets', 'websockets.ts')
}

function asDialling(value: Transport): DiallingTransport {
  if (isWith<DiallingTransport>(value, ['_connect'])) return value
  throw changed('transport of @libp2p/websockets', 'websockets.ts')
}

function asServing(value: Listener): ServingListener {
  if (isWith<ServingListener>(value, ['server', 'wsServer'])) return value
  throw changed('listener of @libp2p/websockets', 'websockets.ts')
}

import type { MultiaddrConnection, Transport } from '@libp2p/interface'
import { type TCPOptions, tcp } from '@libp2p/tcp'
import { changed, isWith, seeing } from './raw-connections.ts'

/** What is longer is worth a write of its own, in bytes. */
const gatheredMaxBytes = 4_096

type Components = Parameters<ReturnType<typeof tcp>>[0]

interface RawTcp extends MultiaddrConnection {
  readonly socket: { cork(): void; uncork(): void }
  sendData(data: { readonly byteLength: number }): { readonly sentBytes: number; readonly canSendMore: boolean }
  sendReset(error: Error): void
}

/**
 * libp2p's TCP, with one write for all that is sent in one turn of the event loop. Noise sends the length of a message and the
 * message as two pieces, and upstream writes each by itself: two system calls, and a peer that wakes for two bytes.
 */
export function gatheringTcp(options: TCPOptions): (components: Components) => Transport {
  return (components) => {
    const inner = tcp(options)(components)
    const dial = inner.dial.bind(inner)
    const createListener = inner.createListener.bind(inner)
    inner.dial = (address, how) => dial(address, { ...how, upgrader: seeing(how.upgrader, gather) })
    inner.createListener = (how) => createListener({ ...how, upgrader: seeing(how.upgrader, gather) })
    return inner
  }
}

function gather(connection: MultiaddrConnection): void {
  const raw = asRaw(connection)
  const { socket } = raw
  const sendData = raw.sendData.bind(raw)
  const sendReset = raw.sendReset.bind(raw)
  let isHeld = false
  const letGo = (): void => {
    if (!isHeld) return
    isHeld = false
    socket.uncork()
  }
  raw.sendData = (data) => {
    if (!isHeld) {
      isHeld = true
      socket.cork()
      // Not a timer: it runs before the event loop goes on to anything else.
      process.nextTick(letGo)
    }
    const { byteLength } = data
    const sent = sendData(data)
    // Whoever waits for room waits for what is held back here, and much of it gains nothing from waiting.
    if (!sent.canSendMore || byteLength > gatheredMaxBytes) letGo()
    return sent
  }
  // What was sent before a reset was on its way before it, and still is.
  raw.sendReset = (error) => {
    letGo()
    sendReset(error)
  }
}

function asRaw(value: unknown): RawTcp {
  if (isWith<RawTcp>(value, ['socket', 'sendData', 'sendReset'])) return value
  throw changed('connection of @libp2p/tcp', 'tcp.ts')
}

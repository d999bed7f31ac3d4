import { yamux } from '@chainsafe/libp2p-yamux'
import type { StreamMuxer, StreamMuxerFactory } from '@libp2p/interface'
import { changed, isWith } from './raw-connections.ts'

interface Muxer extends StreamMuxer {
  _newStream(id: number, state: number, direction: string): WindowedStream
}

/** What upstream keeps of a stream's window, in bytes. */
interface WindowedStream {
  readonly state: number
  /** What the peer may have on its way. */
  readonly recvWindow: number
  /** What is left of it. */
  readonly recvWindowCapacity: number
  sendWindowUpdate(): void
}

/** The state of a stream that owes its peer nothing but windows. */
const established = 3

/**
 * libp2p's yamux, which opens a stream's window again when half of it is used, as the one of Go does. Upstream does so after every
 * message, however small: for each frame of ours, one to the other side that says nothing but this.
 */
export function sparingYamux(options: NonNullable<Parameters<typeof yamux>[0]>): StreamMuxerFactory {
  const inner = yamux(options)()
  return {
    protocol: inner.protocol,
    createStreamMuxer: (secured) => {
      const muxer = asMuxer(inner.createStreamMuxer(secured))
      const newStream = muxer._newStream.bind(muxer)
      muxer._newStream = (id, state, direction) => spare(newStream(id, state, direction))
      return muxer
    },
  }
}

function spare(value: unknown): WindowedStream {
  const stream = asStream(value)
  const update = stream.sendWindowUpdate.bind(stream)
  stream.sendWindowUpdate = () => {
    const isWide = stream.recvWindowCapacity > stream.recvWindow / 2
    // In the other states an update carries a flag, or is held back while a reader pauses.
    if (isWide && stream.state === established) return
    update()
  }
  return stream
}

function asMuxer(value: StreamMuxer): Muxer {
  if (isWith<Muxer>(value, ['_newStream'])) return value
  throw changed('muxer of @libp2p/yamux', 'yamux.ts')
}

function asStream(value: unknown): WindowedStream {
  if (isWith<WindowedStream>(value, ['state', 'recvWindow', 'recvWindowCapacity', 'sendWindowUpdate'])) return value
  throw changed('stream of @libp2p/yamux', 'yamux.ts')
}

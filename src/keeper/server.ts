import { randomBytes } from 'node:crypto'
import { createServer, type Server, type Socket } from 'node:net'
import { NfltrError } from '../core/errors.ts'
import {
  encodeFrame,
  type FrameReader,
  type FromKeeper,
  frameMaxBytes,
  frameReader,
  handshakeTimeoutMs,
  isSameProof,
  keeperProtocol,
  strangerFrameMaxBytes,
  tokenProof,
} from './frames.ts'

/** What a node that proved the token may ask for. Each resolves when it is done, or throws why it was not. */
export interface KeeperActions {
  write(messageId: string, bytes: Uint8Array): Promise<void>
  answer(requestId: string, bytes: Uint8Array): Promise<void>
  closeInput(): Promise<void>
  stop(graceMs: number): Promise<void>
  syncedOffset(): number
}

export interface KeeperServer {
  /** Tells all nodes how far the journal may be read. */
  announce(offset: number): void
  /** Binds the path anew where somebody removed it. */
  listenAnew(): void
  /** Takes the socket away for good; connected nodes stay. Resolves when the path is free. */
  stopListening(): Promise<void>
  /** Resolves when all nodes have been told what was announced and are disconnected. */
  close(): Promise<void>
}

/** A restarted node may overlap with its predecessor and with a person's look; more is nonsense. */
const connectionsMax = 16

/** How long a node may take to read the last announcement before the keeper leaves anyway, in milliseconds. */
const farewellMs = 1_000

/** Binds the socket, in a folder that the caller has checked to be ours alone: its mode is the lock, not the socket's. */
export async function startServer(path: string, token: string, actions: KeeperActions): Promise<KeeperServer> {
  const proven = new Set<Socket>()
  const listen = (): Promise<Server> => bind(path, (socket) => serve(socket, { token, actions, proven }))
  let server = await listen()
  let isClosing = false
  let rebinding: Promise<void> = Promise.resolve()

  return {
    announce(offset) {
      // Offsets only rise: a node that is slow to read needs the newest one alone.
      for (const socket of proven) if (!socket.writableNeedDrain) send(socket, { type: 'synced', offset })
    },
    listenAnew() {
      if (isClosing) return
      rebinding = rebinding.then(async () => {
        const old = server
        server = await listen().catch(() => old)
      })
    },
    async stopListening() {
      isClosing = true
      await rebinding
      server.close()
    },
    async close() {
      const offset = actions.syncedOffset()
      await Promise.all([...proven].map((socket) => sayFarewell(socket, offset)))
    },
  }
}

function bind(path: string, onSocket: (socket: Socket) => void): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer(onSocket)
    server.maxConnections = connectionsMax
    server.once('error', reject)
    server.listen(path, () => {
      server.off('error', reject)
      server.on('error', () => undefined)
      resolve(server)
    })
  })
}

interface Service {
  readonly token: string
  readonly actions: KeeperActions
  readonly proven: Set<Socket>
}

function serve(socket: Socket, service: Service): void {
  const nonce = randomBytes(16).toString('hex')
  const reader = frameReader(strangerFrameMaxBytes)
  const timer = setTimeout(() => socket.destroy(), handshakeTimeoutMs)
  socket.on('error', () => undefined)
  socket.once('close', () => {
    clearTimeout(timer)
    service.proven.delete(socket)
  })
  socket.on('drain', () => {
    if (service.proven.has(socket)) send(socket, { type: 'synced', offset: service.actions.syncedOffset() })
  })
  socket.on('data', (chunk) => {
    try {
      for (const frame of reader.push(Buffer.from(chunk))) {
        if (service.proven.has(socket)) act(socket, frame, service.actions)
        else if (!welcome(socket, frame, { ...service, nonce, reader })) return
        clearTimeout(timer)
      }
    } catch {
      // Bytes that are no frame, or one over the bound: nothing from here can be trusted any more.
      socket.destroy()
    }
  })
  send(socket, { type: 'challenge', protocol: keeperProtocol, nonce })
}

function welcome(
  socket: Socket,
  frame: Readonly<Record<string, unknown>>,
  service: Service & { readonly nonce: string; readonly reader: FrameReader },
): boolean {
  const node = frame['nonce']
  if (frame['type'] !== 'proof' || typeof node !== 'string') {
    socket.destroy()
    return false
  }
  const nonces = { node, keeper: service.nonce }
  if (!isSameProof(frame['proof'], tokenProof(service.token, 'node', nonces))) {
    socket.destroy()
    return false
  }
  service.reader.setMaxBytes(frameMaxBytes)
  service.proven.add(socket)
  const proof = tokenProof(service.token, 'keeper', nonces)
  send(socket, { type: 'welcome', proof, syncedOffset: service.actions.syncedOffset() })
  return true
}

function act(socket: Socket, frame: Readonly<Record<string, unknown>>, actions: KeeperActions): void {
  const id = frame['id']
  if (typeof id !== 'number') {
    socket.destroy()
    return
  }
  perform(frame, actions).then(
    () => send(socket, { type: 'done', id }),
    (error: unknown) => {
      const message = error instanceof Error ? error.message : String(error)
      send(socket, { type: 'failed', id, code: error instanceof NfltrError ? error.code : 'internal', message })
    },
  )
}

async function perform(frame: Readonly<Record<string, unknown>>, actions: KeeperActions): Promise<void> {
  switch (frame['type']) {
    case 'write':
      return actions.write(text(frame, 'messageId'), Buffer.from(text(frame, 'bytes'), 'base64'))
    case 'answer':
      return actions.answer(text(frame, 'requestId'), Buffer.from(text(frame, 'bytes'), 'base64'))
    case 'close_input':
      return actions.closeInput()
    case 'stop': {
      const graceMs = frame['graceMs']
      if (typeof graceMs !== 'number') throw new NfltrError('invalid_frame', 'A stop came without its grace.')
      return actions.stop(graceMs)
    }
    default:
      throw new NfltrError('unsupported', `This keeper knows no request ${JSON.stringify(frame['type'])}.`)
  }
}

function text(frame: Readonly<Record<string, unknown>>, key: string): string {
  const value = frame[key]
  if (typeof value !== 'string') throw new NfltrError('invalid_frame', `A request came without ${key}.`)
  return value
}

function send(socket: Socket, message: FromKeeper): void {
  if (socket.writable) socket.write(encodeFrame(message))
}

function sayFarewell(socket: Socket, offset: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => socket.destroy(), farewellMs)
    socket.once('close', () => {
      clearTimeout(timer)
      resolve()
    })
    send(socket, { type: 'synced', offset })
    socket.end()
    // The other side answers the end with its own; what it still sends is of no use.
    socket.resume()
  })
}

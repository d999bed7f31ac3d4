import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { dirname } from 'node:path'
import { type ErrorCode, errorCodes, NfltrError } from '../core/errors.ts'
import { checkPrivateFolder } from '../platform/files.ts'
import {
  encodeFrame,
  frameMaxBytes,
  frameReader,
  handshakeTimeoutMs,
  isSameProof,
  type KeeperRequest,
  keeperProtocol,
  tokenProof,
} from './frames.ts'

/** A proven connection to a living keeper. */
export interface KeeperConnection {
  /**
   * @throws {NfltrError} `link_down` when the connection ended before an answer: the request may have been done;
   *   whatever the keeper refused it with
   */
  request(request: KeeperRequest): Promise<void>
  /** How far the journal is synced, as far as the keeper has said. */
  syncedOffset(): number
  /** Resolves when that has changed, or when the connection has ended. */
  changed(): Promise<void>
  isOpen(): boolean
  close(): void
}

/**
 * Connects to a keeper and proves the token to it and by it.
 *
 * @throws {NfltrError} `link_down` with the system's error as cause; `insecure_permissions` where the socket's folder is
 *   not ours alone; `unsupported` for a keeper of a version this program does not speak
 */
export async function connectKeeper(keeper: {
  readonly socketPath: string
  readonly token: string
}): Promise<KeeperConnection> {
  await checkPrivateFolder(dirname(keeper.socketPath)).catch((error: unknown) => {
    throw error instanceof NfltrError ? error : linkDown(error)
  })
  const socket = connect(keeper.socketPath)
  const waiting = new Map<number, { readonly resolve: () => void; readonly reject: (error: unknown) => void }>()
  const nonce = randomBytes(16).toString('hex')
  const { promise: welcomed, resolve: setWelcomed, reject: setRefused } = Promise.withResolvers<void>()
  const reader = frameReader(frameMaxBytes)
  let keeperNonce: string | undefined
  let syncedOffset = 0
  let lastId = 0
  let change = Promise.withResolvers<void>()

  function tellChange(): void {
    change.resolve()
    change = Promise.withResolvers()
  }

  function take(frame: Readonly<Record<string, unknown>>): void {
    switch (frame['type']) {
      case 'challenge':
        keeperNonce = answerChallenge(socket, frame, { token: keeper.token, nonce })
        return
      case 'welcome': {
        const nonces = { node: nonce, keeper: keeperNonce ?? '' }
        if (!isSameProof(frame['proof'], tokenProof(keeper.token, 'keeper', nonces))) {
          throw new NfltrError('bad_signature', 'The process on the keeper’s socket did not know the keeper’s token.')
        }
        syncedOffset = number(frame, 'syncedOffset')
        setWelcomed()
        return
      }
      case 'synced':
        syncedOffset = Math.max(syncedOffset, number(frame, 'offset'))
        tellChange()
        return
      case 'done':
      case 'failed':
        settle(frame, waiting)
        return
      default:
      // A keeper of a later version tells things that this one does not need.
    }
  }

  socket.setTimeout(handshakeTimeoutMs, () => socket.destroy(new Error('the keeper did not answer in time')))
  socket.on('data', (chunk) => {
    try {
      for (const frame of reader.push(Buffer.from(chunk))) take(frame)
    } catch (error) {
      socket.destroy(error instanceof Error ? error : new Error(String(error)))
    }
  })
  let cause: unknown
  socket.on('error', (error) => {
    cause = error
  })
  socket.once('close', () => {
    const error = cause instanceof NfltrError ? cause : linkDown(cause)
    setRefused(error)
    for (const { reject } of waiting.values()) reject(linkDown(cause))
    waiting.clear()
    tellChange()
  })
  await welcomed
  socket.setTimeout(0)

  return {
    request: (request) =>
      new Promise((resolve, reject) => {
        if (!socket.writable) {
          reject(linkDown(cause))
          return
        }
        lastId += 1
        waiting.set(lastId, { resolve, reject })
        socket.write(encodeFrame({ ...request, id: lastId }))
      }),
    syncedOffset: () => syncedOffset,
    changed: () => change.promise,
    isOpen: () => socket.readable && socket.writable && !socket.destroyed,
    close: () => socket.destroy(),
  }
}

function answerChallenge(
  socket: Socket,
  frame: Readonly<Record<string, unknown>>,
  own: { readonly token: string; readonly nonce: string },
): string {
  const keeperNonce = frame['nonce']
  if (frame['protocol'] !== keeperProtocol) {
    throw new NfltrError('unsupported', `The keeper speaks protocol ${JSON.stringify(frame['protocol'])}.`, {
      hint: 'Install the newest nfltr on this machine.',
    })
  }
  if (typeof keeperNonce !== 'string')
    throw new NfltrError('invalid_frame', 'The keeper sent a challenge without a nonce.')
  const proof = tokenProof(own.token, 'node', { node: own.nonce, keeper: keeperNonce })
  socket.write(encodeFrame({ type: 'proof', nonce: own.nonce, proof }))
  return keeperNonce
}

function settle(
  frame: Readonly<Record<string, unknown>>,
  waiting: Map<number, { readonly resolve: () => void; readonly reject: (error: unknown) => void }>,
): void {
  const id = number(frame, 'id')
  const waiter = waiting.get(id)
  waiting.delete(id)
  if (frame['type'] === 'done') waiter?.resolve()
  else waiter?.reject(new NfltrError(codeOf(frame['code']), String(frame['message'])))
}

function codeOf(value: unknown): ErrorCode {
  return typeof value === 'string' && Object.hasOwn(errorCodes, value) ? (value as ErrorCode) : 'internal'
}

function number(frame: Readonly<Record<string, unknown>>, key: string): number {
  const value = frame[key]
  if (typeof value !== 'number') throw new NfltrError('invalid_frame', `The keeper sent no ${key}.`)
  return value
}

function linkDown(cause: unknown): NfltrError {
  return new NfltrError('link_down', 'The connection to the keeper ended.', cause === undefined ? {} : { cause })
}

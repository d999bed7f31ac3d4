import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { isRecord } from './values.ts'

/** JSON-RPC over the stdio of a child process, as MCP clients do it: one message a line, both sides may ask. */
export interface RpcChild {
  /** Rejects with {@link RpcError}: the server's error, a timeout, an abort or the end of the process. */
  request(method: string, params: Params, options?: RequestOptions): Promise<Record<string, unknown>>
  notify(method: string, params?: object): void
  readonly alive: boolean
  /** SIGINT, as the real CLI ends its servers; SIGKILL when that is not enough. Resolves when the process is gone. */
  close(): Promise<void>
}

/** The parameters, or how to make them from the id: MCP clients use it as progress token, too. */
export type Params = object | undefined | ((id: string | number) => object)

export interface RequestOptions {
  readonly id?: string
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal
}

export class RpcError extends Error {
  override readonly name = 'RpcError'
  readonly kind: 'answer' | 'timeout' | 'aborted' | 'closed'

  constructor(kind: RpcError['kind'], message: string) {
    super(message)
    this.kind = kind
  }
}

export interface RpcOptions {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
  /** Answers a request of the child; undefined is "method not found". */
  answer(method: string, params: unknown): Promise<object | undefined>
}

type Child = ChildProcessByStdio<Writable, Readable, null>
type Waiting = Map<string | number, (message: Record<string, unknown> | RpcError) => void>

const closeGraceMs = 2_000

export function startRpcChild(options: RpcOptions): RpcChild {
  const child: Child = spawn(options.command, options.args, {
    cwd: options.cwd,
    env: options.env,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const waiting: Waiting = new Map()
  let alive = true
  let nextId = 0
  const gone = new Promise<void>((resolve) => {
    const end = (): void => {
      alive = false
      for (const settle of waiting.values()) settle(new RpcError('closed', 'MCP error -32000: Connection closed'))
      waiting.clear()
      resolve()
    }
    child.once('error', end)
    child.once('close', end)
  })
  const send = (message: object): void => void child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  child.stdin.on('error', () => undefined)
  createInterface({ input: child.stdout }).on('line', (line) => receive(line, waiting, send, options))
  return {
    get alive() {
      return alive
    },
    notify: (method, params) => send({ method, params }),
    request: (method, params, extra = {}) => {
      const id = extra.id ?? nextId++
      if (!alive) return Promise.reject(new RpcError('closed', 'MCP error -32000: Connection closed'))
      const answered = answerTo(waiting, id, extra)
      send({ method, params: typeof params === 'function' ? params(id) : params, id })
      return answered
    },
    close: async () => {
      if (!alive) return
      child.kill('SIGINT')
      const timer = setTimeout(() => child.kill('SIGKILL'), closeGraceMs)
      await gone
      clearTimeout(timer)
    },
  }
}

function answerTo(waiting: Waiting, id: string | number, options: RequestOptions): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    const abort = (): void => settle(new RpcError('aborted', 'aborted'))
    const { timeoutMs, signal } = options
    const late = new RpcError('timeout', `timed out after ${(timeoutMs ?? 0) / 1000}s`)
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => settle(late), timeoutMs)
    const settle = (message: Record<string, unknown> | RpcError): void => {
      waiting.delete(id)
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      if (message instanceof RpcError) reject(message)
      else if (isRecord(message['error'])) {
        const { code, message: text } = message['error']
        reject(new RpcError('answer', `MCP error ${String(code)}: ${String(text)}`))
      } else resolve(isRecord(message['result']) ? message['result'] : {})
    }
    waiting.set(id, settle)
    if (signal?.aborted === true) abort()
    else signal?.addEventListener('abort', abort)
  })
}

function receive(line: string, waiting: Waiting, send: (message: object) => void, options: RpcOptions): void {
  const message: unknown = JSON.parse(line)
  if (!isRecord(message)) return
  const { id, method, params } = message
  const named = typeof id === 'string' || typeof id === 'number'
  if (typeof method !== 'string') {
    if (named) waiting.get(id)?.(message)
    return
  }
  if (!named) return
  const notFound = { id, error: { code: -32601, message: `Method not found: ${method}` } }
  options.answer(method, params).then(
    (result) => send(result === undefined ? notFound : { id, result }),
    (error: unknown) => send({ id, error: { code: -32603, message: String(error) } }),
  )
}

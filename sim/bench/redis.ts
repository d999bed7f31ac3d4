import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { until } from '../soak/until.ts'
import { freePort } from './bed.ts'
import { programOf } from './packages.ts'

/** A Redis of its own that syncs each write before it answers (`appendfsync always`), and lives as long as the figure. */
export class RedisServer {
  readonly #folder: string
  readonly #server: ChildProcess
  readonly #port: number
  readonly #open: Connection[] = []

  private constructor(folder: string, server: ChildProcess, port: number) {
    this.#folder = folder
    this.#server = server
    this.#port = port
  }

  /** @throws {NotHere} where there is none and none can be installed */
  static async start(parent: string): Promise<RedisServer> {
    const program = programOf('redis-server', 'redis-server', ['/usr/bin/redis-server', '/usr/local/bin/redis-server'])
    const folder = mkdtempSync(join(parent, 'redis-'))
    const port = await freePort()
    const settings = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', '', '--dir', folder]
    const server = spawn(program, ['--port', String(port), '--bind', '127.0.0.1', ...settings], { stdio: 'ignore' })
    const redis = new RedisServer(folder, server, port)
    await until('redis answers', async () => {
      const connection = await redis.connect().catch(() => undefined)
      return connection === undefined ? undefined : await connection.call('PING')
    })
    return redis
  }

  async connect(): Promise<Connection> {
    const connection = await Connection.open(this.#port)
    this.#open.push(connection)
    return connection
  }

  end(): void {
    for (const connection of this.#open) connection.end()
    this.#server.kill()
    this.#server.once('exit', () => rmSync(this.#folder, { recursive: true, force: true }))
  }
}

export type Reply = string | number | null | readonly Reply[]

/** One connection, one call at a time or several in order. */
export class Connection {
  readonly #socket: Socket
  readonly #waiting: ((reply: Reply) => void)[] = []
  #text = ''

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1')
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      this.#text += String(chunk)
      this.#read()
    })
  }

  static open(port: number): Promise<Connection> {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true })
    return new Promise((resolve, reject) => {
      socket.once('error', reject)
      socket.once('connect', () => resolve(new Connection(socket)))
    })
  }

  call(...words: readonly string[]): Promise<Reply> {
    const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`)
    this.#socket.write(`*${words.length}\r\n${parts.join('')}`)
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  end(): void {
    this.#socket.destroy()
  }

  #read(): void {
    for (;;) {
      const parsed = parse(this.#text, 0)
      if (parsed === undefined) return
      this.#text = this.#text.slice(parsed.end)
      this.#waiting.shift()?.(parsed.reply)
    }
  }
}

/** One reply of the protocol from an offset on; undefined while it is not there whole. */
function parse(text: string, at: number): { readonly reply: Reply; readonly end: number } | undefined {
  const lineEnd = text.indexOf('\r\n', at)
  if (lineEnd < 0) return undefined
  const rest = text.slice(at + 1, lineEnd)
  const next = lineEnd + 2
  switch (text[at]) {
    case ':':
      return { reply: Number(rest), end: next }
    case '$': {
      const length = Number(rest)
      if (length < 0) return { reply: null, end: next }
      if (text.length < next + length + 2) return undefined
      return { reply: text.slice(next, next + length), end: next + length + 2 }
    }
    case '*': {
      const items: Reply[] = []
      let end = next
      for (let left = Number(rest); left > 0; left -= 1) {
        const item = parse(text, end)
        if (item === undefined) return undefined
        items.push(item.reply)
        end = item.end
      }
      return { reply: Number(rest) < 0 ? null : items, end }
    }
    default:
      return { reply: rest, end: next }
  }
}

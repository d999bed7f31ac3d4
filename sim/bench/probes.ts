import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import process from 'node:process'
import { createInterface } from 'node:readline'

/** A file on the same disk: what one durable write costs at least. */
export class DiskProbe {
  readonly #folder: string
  readonly #file: number

  constructor(parent: string) {
    this.#folder = mkdtempSync(join(parent, 'disk-'))
    this.#file = openSync(join(this.#folder, 'log'), 'a')
  }

  /** Milliseconds of one append of so many bytes and its fdatasync. */
  appendMs(bytes: number): number {
    const buffer = Buffer.alloc(bytes, 'x')
    const started = performance.now()
    writeSync(this.#file, buffer)
    fdatasyncSync(this.#file)
    return performance.now() - started
  }

  end(): void {
    closeSync(this.#file)
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

const echoSource = `
const server = require('node:net').createServer((socket) => { socket.setNoDelay(true); socket.on('data', (bytes) => socket.write(bytes)); socket.on('error', () => {}) })
server.listen(0, '127.0.0.1', () => console.log(server.address().port))`

/** Another process that sends back over TCP what it is sent. */
export class EchoProbe {
  readonly #server: ChildProcess
  readonly #socket: Socket

  private constructor(server: ChildProcess, socket: Socket) {
    this.#server = server
    this.#socket = socket
  }

  static async start(): Promise<EchoProbe> {
    const server = spawn(process.execPath, ['-e', echoSource], { stdio: ['ignore', 'pipe', 'inherit'] })
    if (server.stdout === null) throw new Error('the echo has no standard output')
    const lines = createInterface({ input: server.stdout })
    const port = await new Promise<number>((resolve) => lines.once('line', (line) => resolve(Number(line))))
    const socket = connect({ host: '127.0.0.1', port, noDelay: true })
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', () => resolve())
      socket.once('error', reject)
    })
    return new EchoProbe(server, socket)
  }

  /** Milliseconds until so many bytes are back. */
  roundTripMs(bytes: number): Promise<number> {
    const message = Buffer.alloc(bytes, 'x')
    return new Promise((resolve) => {
      let left = bytes
      const started = performance.now()
      const take = (chunk: Buffer | string): void => {
        left -= chunk.length
        if (left > 0) return
        this.#socket.off('data', take)
        resolve(performance.now() - started)
      }
      this.#socket.on('data', take)
      this.#socket.write(message)
    })
  }

  end(): void {
    this.#socket.destroy()
    this.#server.kill()
  }
}

/** Milliseconds from the start of a program to its first line on standard output, and then it is ended. */
export function firstLineMs(
  command: string,
  args: readonly string[],
  options: { readonly input: string; readonly env?: NodeJS.ProcessEnv; readonly cwd?: string },
): Promise<number> {
  const started = performance.now()
  const child = spawn(command, [...args], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: options.env ?? process.env,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  })
  child.stdin.on('error', () => undefined)
  // Left open: an agent program ends when its input does, and may not have spoken by then.
  child.stdin.write(options.input)
  return new Promise((resolve, reject) => {
    let tookMs: number | undefined
    child.once('error', reject)
    child.stdout.once('data', () => {
      tookMs = performance.now() - started
      child.stdin.end()
    })
    child.once('close', (code) => {
      if (tookMs === undefined) reject(new Error(`${command} ended with ${code} and said nothing`))
      else resolve(tookMs)
    })
  })
}

/** Milliseconds that a runtime with nothing to do takes from its start to its end. */
export function bareStartMs(): Promise<number> {
  const started = performance.now()
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' })
    child.once('error', reject)
    child.once('close', () => resolve(performance.now() - started))
  })
}

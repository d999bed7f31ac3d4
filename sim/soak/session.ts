import { type ChildProcess, spawn } from 'node:child_process'
import process from 'node:process'
import type { Machine } from '../../test/e2e/machine.ts'

export type Document = Readonly<Record<string, unknown>>

/** A tool error, with its code. */
export class Refused extends Error {
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** The session ended before the reply was there whole. */
export class SessionGone extends Error {}

interface Pending {
  readonly tool: string
  readonly resolve: (document: Document) => void
  readonly reject: (error: Error) => void
}

/** What a session read whole, in the order in which it came. */
export interface ReadReply {
  readonly tool: string
  readonly document: Document
}

/**
 * A Claude Code session as the adapter sees it, down to the bytes: an MCP client over stdio that can stop reading, so that
 * replies stay on their way, and that counts only what it has read whole.
 */
export class Session {
  readonly replies: ReadReply[] = []
  readonly exited: Promise<void>
  readonly #child: ChildProcess
  readonly #pending = new Map<number, Pending>()
  #nextId = 1
  #isHeld = false
  #hasBegun = false
  #isGone = false
  #text = ''

  private constructor(child: ChildProcess) {
    this.#child = child
    this.exited = new Promise((resolve) => child.once('exit', () => resolve()))
    const { stdin, stdout } = child
    if (stdin === null || stdout === null) throw new Error('the adapter has no pipes')
    stdin.on('error', () => undefined)
    stdout.setEncoding('utf8')
    stdout.on('readable', () => this.#read())
    stdout.once('close', () => this.#end())
  }

  static async open(machine: Machine): Promise<Session> {
    const child = spawn(process.execPath, [...machine.program, 'mcp', '--toolset', 'hub'], {
      cwd: machine.project,
      env: { ...machine.env, CLAUDE_PROJECT_DIR: machine.project },
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    const session = new Session(child)
    const clientInfo = { name: 'soak', version: '0' }
    await session.#request('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo }, '')
    session.#write({ jsonrpc: '2.0', method: 'notifications/initialized' })
    return session
  }

  get pid(): number {
    return this.#child.pid ?? -1
  }

  get isGone(): boolean {
    return this.#isGone
  }

  /** Whether a reply is on its way that is not read. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /** @throws {Refused} for a tool error; {@link SessionGone} when the adapter ended before it answered */
  async tool(name: string, args: Document): Promise<Document> {
    const result = await this.#request('tools/call', { name, arguments: args }, name)
    if (result['isError'] !== true) return result['structuredContent'] as Document
    const [first] = result['content'] as { readonly text: string }[]
    const { error } = JSON.parse(first?.text ?? '{}') as { error: { code: string; message: string } }
    throw new Refused(error.code, `${name}: ${error.code}: ${error.message}`)
  }

  /** Reads nothing more until {@link release}. */
  hold(): void {
    this.#isHeld = true
    this.#hasBegun = false
  }

  release(): void {
    this.#isHeld = false
    this.#read()
  }

  /** Ends the session as its owner would. */
  async close(): Promise<void> {
    this.release()
    this.#child.stdin?.end()
    await this.exited
  }

  #request(method: string, params: Document, tool: string): Promise<Document> {
    if (this.#isGone) return Promise.reject(new SessionGone('the session is over'))
    const id = this.#nextId++
    const reply = new Promise<Document>((resolve, reject) => this.#pending.set(id, { tool, resolve, reject }))
    // Whoever no longer waits for it has seen the session end in another way.
    reply.catch(() => undefined)
    this.#write({ jsonrpc: '2.0', id, method, params })
    return reply
  }

  #write(message: object): void {
    this.#child.stdin?.write(`${JSON.stringify(message)}\n`)
  }

  #read(): void {
    if (this.#isHeld) {
      this.#hasBegun = true
      return
    }
    for (;;) {
      const chunk = this.#child.stdout?.read() as string | null
      if (chunk === null) return
      this.#text += chunk
      const lines = this.#text.split('\n')
      this.#text = lines.pop() ?? ''
      for (const line of lines) this.#take(JSON.parse(line) as Document)
    }
  }

  #take(message: Document): void {
    const pending = this.#pending.get(Number(message['id']))
    if (pending === undefined) return
    this.#pending.delete(Number(message['id']))
    const result = message['result'] as Document | undefined
    if (result === undefined) {
      pending.reject(new Error(JSON.stringify(message['error'])))
      return
    }
    const document = result['structuredContent'] as Document | undefined
    if (document !== undefined) this.replies.push({ tool: pending.tool, document })
    pending.resolve(result)
  }

  #end(): void {
    this.#isGone = true
    for (const { reject } of this.#pending.values()) reject(new SessionGone('the session ended'))
    this.#pending.clear()
  }
}

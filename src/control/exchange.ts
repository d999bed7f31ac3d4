import type { IncomingMessage, ServerResponse } from 'node:http'
import type * as z from 'zod'
import { NfltrError } from '../core/errors.ts'
import { wordsOf } from './schema/issue-words.ts'
import { requestMaxBytes } from './schema/requests.ts'

export type SendLine = (line: Readonly<Record<string, unknown>>) => Promise<void>

/** One request and its answer, which is a JSON document or a stream of JSON lines. */
export class Exchange {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #query: URLSearchParams
  readonly #named: Readonly<Record<string, string>>

  constructor(
    message: { readonly request: IncomingMessage; readonly response: ServerResponse },
    place: { readonly query: URLSearchParams; readonly named: Readonly<Record<string, string>> },
  ) {
    this.#request = message.request
    this.#response = message.response
    this.#query = place.query
    this.#named = place.named
  }

  /** A part of the path that the route names. */
  part(name: string): string {
    return this.#named[name] ?? ''
  }

  /** A text of the query, where there is one. */
  text(name: string): string | undefined {
    return this.#query.get(name) ?? undefined
  }

  /** A whole number of the query; the fallback where there is none. */
  wholeNumber(name: string, fallback: number): number {
    const value = Number(this.#query.get(name) ?? fallback)
    return Number.isSafeInteger(value) && value >= 0 ? value : fallback
  }

  /** @throws {NfltrError} `invalid_argument` naming the field; `frame_too_large` */
  async body<Shape extends z.ZodType>(shape: Shape): Promise<z.infer<Shape>> {
    const parsed = shape.safeParse(parseJson(await readWhole(this.#request)))
    if (parsed.success) return parsed.data
    const issue = parsed.error.issues[0]
    const argument = issue?.path.join('.') ?? ''
    throw new NfltrError('invalid_argument', `The request's ${argument || 'body'} was refused: it ${wordsOf(issue)}.`, {
      details: { argument },
    })
  }

  json(document: unknown, status = 200): void {
    if (this.#response.headersSent) {
      this.#response.end()
      return
    }
    const text = JSON.stringify(document)
    const length = Buffer.byteLength(text)
    this.#response.writeHead(status, { 'content-type': 'application/json', 'content-length': length })
    this.#response.end(text)
  }

  /** An answer of lines, whose end or whose client's end is known to the worker. */
  async lines(work: (send: SendLine, gone: AbortSignal) => Promise<void>): Promise<void> {
    const response = this.#response
    const gone = new AbortController()
    response.once('close', () => {
      if (!response.writableFinished) gone.abort()
    })
    if (response.destroyed) gone.abort()
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    await work(async (line) => {
      if (gone.signal.aborted || response.write(`${JSON.stringify(line)}\n`)) return
      await drained(response, gone.signal)
    }, gone.signal)
    response.end()
  }
}

async function readWhole(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request) {
    const piece = chunk as Buffer
    bytes += piece.length
    if (bytes > requestMaxBytes) {
      const size = `over the limit of ${requestMaxBytes} bytes`
      throw new NfltrError('frame_too_large', `The request to the control socket was ${size}.`)
    }
    chunks.push(piece)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** Undefined for what is no JSON: the schema then says what is missing. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

function drained(response: ServerResponse, gone: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      response.off('drain', finish)
      gone.removeEventListener('abort', finish)
      resolve()
    }
    response.once('drain', finish)
    gone.addEventListener('abort', finish, { once: true })
  })
}

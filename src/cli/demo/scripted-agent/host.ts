import { randomUUID } from 'node:crypto'
import process from 'node:process'
import { createInterface } from 'node:readline'
import { isRecord, ScenarioError } from './values.ts'

/** Whoever started the agent and talks to it over standard input and output. */
export interface Host {
  /** One line of the stream; nothing when the output is not a stream of lines. */
  write(line: Readonly<Record<string, unknown>>): void
  /** Asks and waits. `closed` when standard input has ended, `aborted` when the turn was stopped meanwhile. */
  ask(request: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<Answer>
}

export type Answer =
  | { readonly kind: 'answer'; readonly response: Readonly<Record<string, unknown>> }
  | { readonly kind: 'closed' | 'aborted' }

/** What arrives on standard input, sorted by kind. */
export interface HostEvents {
  message(text: string, uuid: string | undefined): void
  control(id: string, request: Readonly<Record<string, unknown>>): void
  end(): void
  /** The input cannot be followed; nothing more will be read. */
  failed(error: unknown): void
}

/** The real CLI ends with status 1 on a line that is not JSON. */
export class InputError extends Error {
  override readonly name = 'InputError'
}

export interface HostOptions {
  /** Whether the output is a stream of lines. */
  readonly lines: boolean
  /** What the host sent comes back: with `--replay-user-messages` its answers do, too. */
  readonly replay: boolean
}

export class StdioHost implements Host {
  readonly #options: HostOptions
  readonly #asked = new Map<string, (answer: Answer) => void>()
  #ended = false

  constructor(options: HostOptions) {
    this.#options = options
  }

  write(line: Readonly<Record<string, unknown>>): void {
    if (this.#options.lines) process.stdout.write(`${JSON.stringify(line)}\n`)
  }

  ask(request: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<Answer> {
    const id = randomUUID()
    return new Promise((resolve) => {
      const abort = (): void => {
        this.write({ type: 'control_cancel_request', request_id: id })
        settle({ kind: 'aborted' })
      }
      const settle = (answer: Answer): void => {
        this.#asked.delete(id)
        signal.removeEventListener('abort', abort)
        resolve(answer)
      }
      this.#asked.set(id, settle)
      signal.addEventListener('abort', abort)
      this.write({ type: 'control_request', request_id: id, request })
      if (this.#ended) settle({ kind: 'closed' })
    })
  }

  /** Reads standard input until it ends. Empty lines are nothing. */
  listen(events: HostEvents): void {
    const lines = createInterface({ input: process.stdin })
    lines.on('line', (line) => {
      if (line.trim() === '') return
      try {
        this.#receive(line, events)
      } catch (error) {
        lines.close()
        events.failed(error)
      }
    })
    process.stdin.once('end', () => {
      this.#ended = true
      for (const settle of [...this.#asked.values()]) settle({ kind: 'closed' })
      events.end()
    })
  }

  #receive(line: string, events: HostEvents): void {
    const message = parse(line)
    switch (message['type']) {
      case 'user':
        events.message(textOf(message), uuidOf(message))
        return
      case 'control_request':
        events.control(String(message['request_id']), isRecord(message['request']) ? message['request'] : {})
        return
      case 'control_response':
        if (this.#options.replay) this.write(message)
        this.#answered(message['response'])
        return
      default:
        throw new ScenarioError(`unknown line on standard input: type ${JSON.stringify(message['type'])}`)
    }
  }

  #answered(response: unknown): void {
    if (!isRecord(response)) throw new ScenarioError('control_response without a response')
    const settle = this.#asked.get(String(response['request_id']))
    // An answer that crossed with a cancellation finds nobody waiting.
    if (settle === undefined) return
    const body = isRecord(response['response']) ? response['response'] : {}
    settle({ kind: 'answer', response: response['subtype'] === 'error' ? { error: response['error'] } : body })
  }
}

function parse(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line)
    if (isRecord(value)) return value
  } catch {
    // Said below, in the words of the real CLI.
  }
  throw new InputError(`Error parsing streaming input line (type=unknown, ${line.length} chars): SyntaxError`)
}

const userKeys = ['type', 'message', 'parent_tool_use_id', 'uuid', 'session_id', 'timestamp']

function textOf(line: Record<string, unknown>): string {
  const stranger = Object.keys(line).find((key) => !userKeys.includes(key))
  if (stranger !== undefined) throw new ScenarioError(`a user message has no field ${stranger}`)
  const content = isRecord(line['message']) ? line['message']['content'] : undefined
  if (typeof content === 'string') return content
  const blocks = Array.isArray(content) ? content.filter(isRecord) : []
  const texts = blocks.map((block) => (block['type'] === 'text' ? block['text'] : undefined))
  if (texts.length === 0 || texts.some((text) => typeof text !== 'string')) {
    throw new ScenarioError('a user message holds text, or text blocks')
  }
  return texts.join('\n')
}

function uuidOf(line: Record<string, unknown>): string | undefined {
  const uuid = line['uuid']
  if (uuid === undefined || typeof uuid === 'string') return uuid
  throw new ScenarioError('the uuid of a user message is text')
}

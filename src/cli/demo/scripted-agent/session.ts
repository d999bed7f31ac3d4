import process from 'node:process'
import { type Flags, type PermissionMode, permissionMode } from './flags.ts'
import type { History } from './history.ts'
import type { Host } from './host.ts'
import { type InitFacts, type LifecycleState, type Line, lifecycleLine, replayLine } from './lines.ts'
import type { McpServers } from './mcp.ts'
import type { Scenario } from './scenario.ts'
import { builtinTools } from './tools.ts'
import { Turn } from './turn.ts'
import { addTokens, type Tokens } from './usage.ts'

/** A message of a person. Without a uuid of its own it has no lifecycle lines, and comes back under a made-up one. */
export interface Message {
  readonly text: string
  readonly uuid: string
  readonly given: boolean
}

export interface SessionParts {
  readonly flags: Flags
  readonly scenario: Scenario
  readonly host: Host
  readonly history: History
  readonly mcp: McpServers
  readonly cwd: string
}

/** One process of the agent: its queue of messages, its turns one after the other, and what lasts between them. */
export class Session {
  readonly flags: Flags
  readonly scenario: Scenario
  readonly host: Host
  readonly mcp: McpServers
  readonly cwd: string
  readonly id: string
  /** Set once a signal ends the process: SIGINT after the result, SIGTERM without one. */
  ending: 'SIGINT' | 'SIGTERM' | undefined
  model: string
  mode: PermissionMode
  spent: Tokens
  resultIndex = 0
  lastResult: Line | undefined
  readonly #history: History
  readonly #queue: Message[] = []
  readonly #received = new Set<string>()
  #running: AbortController | undefined
  #ended = false
  #wake: (() => void) | undefined

  constructor(parts: SessionParts) {
    this.flags = parts.flags
    this.scenario = parts.scenario
    this.host = parts.host
    this.mcp = parts.mcp
    this.cwd = parts.cwd
    this.#history = parts.history
    this.id = parts.history.sessionId
    this.spent = parts.history.spent
    this.model = parts.flags.model ?? 'scripted'
    this.mode = parts.flags.permissionMode
  }

  get credential(): 'ANTHROPIC_API_KEY' | 'token' | 'none' {
    if (process.env['ANTHROPIC_API_KEY']) return 'ANTHROPIC_API_KEY'
    return process.env['ANTHROPIC_AUTH_TOKEN'] || process.env['CLAUDE_CODE_OAUTH_TOKEN'] ? 'token' : 'none'
  }

  /** Takes a message in; one that was seen before is only answered, never run again. */
  receive(message: Message): void {
    if (this.#history.seen.has(message.uuid) || this.#received.has(message.uuid)) {
      if (!this.#queue.some((queued) => queued.uuid === message.uuid)) this.#again(message)
      return
    }
    this.#received.add(message.uuid)
    this.#history.append({ type: 'queue-operation', operation: 'enqueue', content: message.text })
    this.#queue.push(message)
    this.lifecycle(message, 'queued')
    this.#wake?.()
  }

  /** No more input. What is queued still runs. */
  end(): void {
    this.#ended = true
    this.#wake?.()
  }

  /** Runs turns until the input has ended, or a signal came. */
  async run(): Promise<void> {
    let merge = false
    while (this.ending === undefined) {
      // One message begins a turn; several are merged only when they queued up behind a turn.
      const messages = this.#queue.splice(0, merge ? this.#queue.length : 1)
      if (messages.length > 0) {
        this.#history.append({ type: 'queue-operation', operation: 'dequeue' })
        this.#running = new AbortController()
        await new Turn(this, messages, this.#running.signal).run()
        this.#running = undefined
        merge = true
        continue
      }
      if (this.#ended) return
      merge = false
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      this.#wake = undefined
    }
  }

  /** Stops the running turn. @returns what stays queued, and what was taken out of the queue */
  interrupt(options: { cancelQueued: boolean }): { stillQueued: string[]; cancelled: string[] } {
    const cancelled = options.cancelQueued ? this.#queue.splice(0) : []
    for (const message of cancelled) this.lifecycle(message, 'cancelled')
    this.abortTurn()
    return { stillQueued: this.#queue.map(({ uuid }) => uuid), cancelled: cancelled.map(({ uuid }) => uuid) }
  }

  /** Takes one message out of the queue; false when it is not there any more. */
  cancelMessage(uuid: string): boolean {
    const at = this.#queue.findIndex((message) => message.uuid === uuid)
    const [message] = at < 0 ? [] : this.#queue.splice(at, 1)
    if (message !== undefined) this.lifecycle(message, 'cancelled')
    return message !== undefined
  }

  abortTurn(): void {
    this.#running?.abort()
  }

  get busy(): boolean {
    return this.#running !== undefined
  }

  stop(signal: 'SIGINT' | 'SIGTERM'): void {
    this.ending = signal
    this.abortTurn()
    this.#wake?.()
  }

  hasQueued(): boolean {
    return this.#queue.length > 0
  }

  takeQueued(): readonly Message[] {
    return this.#queue.splice(0)
  }

  /** After SIGTERM the real CLI still says what became of the running call, and nothing else. */
  write(line: Line): void {
    if (this.ending === 'SIGTERM' && line['tool_use_result'] === undefined) return
    this.host.write(line)
  }

  replay(message: Message): void {
    this.#history.message(message.uuid, message.text)
    if (this.flags.replayUserMessages) this.write(replayLine(this.id, message.text, message.uuid))
  }

  lifecycle(message: Message, state: LifecycleState): void {
    if (message.given) this.write(lifecycleLine(this.id, message.uuid, state))
  }

  finish(result: Line, spent: Tokens): void {
    this.spent = addTokens(this.spent, spent)
    this.#history.append({ type: 'cost-state', ...spent })
    this.resultIndex += 1
    this.lastResult = result
    this.write(result)
  }

  tools(): readonly string[] {
    const { tools, disallowedTools } = this.flags
    const builtin = builtinTools.filter((tool) => tools === undefined || tools.includes(tool))
    return [...builtin, ...this.mcp.tools].filter((tool) => !disallowedTools.includes(tool))
  }

  permissions(): { mode: PermissionMode; allowedTools: readonly string[] } {
    return { mode: this.mode, allowedTools: this.flags.allowedTools }
  }

  setPermissionMode(name: string): void {
    this.mode = permissionMode(name)
  }

  initFacts(): Omit<InitFacts, 'uuids'> {
    return {
      cwd: this.cwd,
      sessionId: this.id,
      tools: this.tools(),
      mcpServers: this.mcp.states,
      model: this.model,
      permissionMode: this.mode,
      apiKeySource: this.credential === 'ANTHROPIC_API_KEY' ? 'ANTHROPIC_API_KEY' : 'none',
    }
  }

  /** Seen by this process: the replay alone. Seen by one before it: also "completed". Neither runs anything. */
  #again(message: Message): void {
    if (this.flags.replayUserMessages) this.write(replayLine(this.id, message.text, message.uuid))
    if (!this.#received.has(message.uuid)) this.lifecycle(message, 'completed')
  }
}

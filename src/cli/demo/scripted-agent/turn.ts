import { randomUUID } from 'node:crypto'
import { access } from 'node:fs/promises'
import { resolve } from 'node:path'
import process from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { apiFailure, maxRetries, retryDelayMs } from './api-errors.ts'
import { runCalls } from './calls.ts'
import { assistantLine, initLine, interruptedLine, type ResultFacts, resultLine, syntheticLine } from './lines.ts'
import { type Step, stepsFor } from './scenario.ts'
import type { Message, Session } from './session.ts'
import { addTokens, costUsd, noTokens, type Tokens } from './usage.ts'
import { evaluate, evaluateText, isRecord, ScenarioError } from './values.ts'

/**
 * One turn: a message (or several, merged) in, lines out, and one result.
 *
 * An answer of the model is what stands between two calls: its blocks share an id, and its tokens count once. Messages
 * that come while a tool runs are taken in after its result; what comes later waits for the next turn.
 */
export class Turn {
  readonly session: Session
  readonly signal: AbortSignal
  readonly results = new Map<string, unknown>()
  readonly denials: object[] = []
  readonly #messages: readonly Message[]
  readonly #taken: Message[]
  readonly #startedAtMs = Date.now()
  #replayed = false
  #messageId = newMessageId()
  #answer: Tokens | undefined
  #answers = 0
  #userLines = 0
  #spent: Tokens = noTokens
  #lastText = ''
  #stopReason: string | null = null
  #duringTool = false

  constructor(session: Session, messages: readonly Message[], signal: AbortSignal) {
    this.session = session
    this.signal = signal
    this.#messages = messages
    this.#taken = [...messages]
  }

  get text(): string {
    return this.#messages.map((message) => message.text).join('\n')
  }

  /** @returns whether the result was an error, which is also how the messages of the turn end */
  async run(): Promise<boolean> {
    const { session } = this
    const last = this.#messages.length - 1
    for (const message of this.#messages.slice(0, last)) session.replay(message)
    for (const message of this.#messages) session.lifecycle(message, 'started')
    session.write(initLine({ ...session.initFacts(), uuids: given(this.#messages) }))
    const result = await this.#follow()
    const steers = this.#taken.slice(this.#messages.length)
    const state = result.isError ? 'cancelled' : 'completed'
    for (const message of steers) session.lifecycle(message, state)
    session.finish(resultLine(result), this.#spent)
    for (const message of this.#messages) session.lifecycle(message, state)
    return result.isError
  }

  async #follow(): Promise<ResultFacts> {
    if (this.session.credential === 'none') {
      return this.#gaveUp('Not logged in · Please run /login', { error: 'authentication_failed' })
    }
    for (const step of stepsFor(this.session.scenario, this.text)) {
      const end = await this.#step(step)
      if (this.signal.aborted) return this.#interrupted()
      if (end !== undefined) return end
    }
    if (this.#answer === undefined)
      throw new ScenarioError('the steps of the turn ended after a call: say something last')
    this.#closeAnswer()
    return this.#result('success', {
      terminalReason: 'completed',
      extra: { api_error_status: null, result: this.#lastText },
    })
  }

  async #step(step: Step): Promise<ResultFacts | undefined> {
    switch (step.kind) {
      case 'say':
        return await this.#say(step)
      case 'think':
        this.#block({ type: 'thinking', thinking: this.#textOf(step.text), signature: 'c2ln' })
        return undefined
      case 'usage':
        this.#answer = { inputTokens: step.inputTokens, outputTokens: step.outputTokens }
        return undefined
      case 'tools':
        return await this.#tools(step)
      case 'wait_for_file':
        await this.#until(() => exists(resolve(this.session.cwd, step.path)))
        return undefined
      case 'wait_for_message':
        await this.#until(() => Promise.resolve(this.session.hasQueued()))
        this.#takeQueued()
        return undefined
      case 'hang':
        await this.#until(() => Promise.resolve(false))
        return undefined
      case 'crash':
        if (step.signal !== undefined) process.kill(process.pid, step.signal)
        process.exit(step.exitCode)
        break
      case 'http_error':
        return await this.#httpError(step)
      case 'end':
        this.#stopReason = step.stopReason
        this.#answer ??= defaultAnswer
        return undefined
      case 'emit':
        this.session.write({ ...(evaluate(step.line, this.#lookup) as object) })
        return undefined
      case 'request':
        await this.#request(step)
        return undefined
    }
  }

  async #say(step: Extract<Step, { kind: 'say' }>): Promise<undefined> {
    const text = this.#textOf(step.text)
    let said = step.chunkMs === 0 ? step.chunks : 0
    while (said < step.chunks && !this.signal.aborted) {
      await delay(step.chunkMs, undefined, { signal: this.signal }).catch(() => undefined)
      if (!this.signal.aborted) said += 1
    }
    const part = said === step.chunks ? text : text.slice(0, Math.floor((text.length * said) / step.chunks))
    if (part !== '' || said === step.chunks) this.#block({ type: 'text', text: part }, said < step.chunks)
    if (said === step.chunks) this.#lastText = text
    return undefined
  }

  async #tools(step: Extract<Step, { kind: 'tools' }>): Promise<ResultFacts | undefined> {
    const { flags } = this.session
    const calls = step.calls.map((call) => {
      const id = `toolu_${randomUUID().replaceAll('-', '').slice(0, 24)}`
      const input = evaluate(call.input, this.#lookup)
      if (!isRecord(input)) throw new ScenarioError(`the input of ${call.tool} is no object`)
      return { ...call, id, input }
    })
    for (const call of calls) {
      const meta = this.session.mcp.describe(call.tool)
      const extra = meta === undefined ? {} : { tool_use_meta: [{ id: call.id, ...meta }] }
      this.#block({ type: 'tool_use', id: call.id, name: call.tool, input: call.input }, false, extra)
    }
    this.#stopReason = 'tool_use'
    this.#closeAnswer()
    if (flags.maxBudgetUsd !== undefined && costUsd(addTokens(this.session.spent, this.#spent)) > flags.maxBudgetUsd) {
      const errors = [`Reached maximum budget ($${flags.maxBudgetUsd})`]
      return this.#result('error_max_budget_usd', {
        terminalReason: 'budget_exhausted',
        extra: { errors },
        unspoken: true,
      })
    }
    this.#duringTool = true
    this.#userLines += await runCalls(this, calls)
    if (this.signal.aborted) return undefined
    this.#duringTool = false
    if (flags.maxTurns !== undefined && this.#answers >= flags.maxTurns) {
      const errors = [`Reached maximum number of turns (${flags.maxTurns})`]
      return this.#result('error_max_turns', { terminalReason: 'max_turns', extra: { errors } })
    }
    this.#takeQueued()
    return undefined
  }

  async #httpError(step: Extract<Step, { kind: 'http_error' }>): Promise<ResultFacts | undefined> {
    const failure = apiFailure(step.status, { message: step.message, model: this.session.model })
    const allowed = failure.retried ? maxRetries() : 0
    for (let attempt = 1; attempt <= Math.min(step.times, allowed); attempt += 1) {
      const retryMs = retryDelayMs(attempt)
      this.session.write({
        type: 'system',
        subtype: 'api_retry',
        attempt,
        max_retries: allowed,
        retry_delay_ms: retryMs,
        error_status: step.status,
        error: failure.retryError,
        session_id: this.session.id,
        uuid: randomUUID(),
      })
      await delay(retryMs, undefined, { signal: this.signal }).catch(() => undefined)
      if (this.signal.aborted) return undefined
    }
    if (step.times <= allowed) return undefined
    const status = { api_error_status: step.status, api_error_type: failure.errorType }
    return this.#gaveUp(failure.text, { error: failure.error, ...status })
  }

  async #request(step: Extract<Step, { kind: 'request' }>): Promise<void> {
    const request = evaluate(step.request, this.#lookup) as Record<string, unknown>
    const answer = await this.session.host.ask(request, this.signal)
    if (step.as !== undefined)
      this.results.set(step.as, answer.kind === 'answer' ? answer.response : { [answer.kind]: true })
  }

  #block(block: object, aborted = false, extra: Readonly<Record<string, unknown>> = {}): void {
    const first = !this.#replayed
    this.#stopReason = null
    this.#replay()
    const uuids = given(this.#messages)
    const marks = first && uuids.length > 0 ? { user_message_uuid: uuids.at(-1), user_message_uuids: uuids } : {}
    this.session.write(
      assistantLine({
        sessionId: this.session.id,
        messageId: this.#messageId,
        model: this.session.model,
        block,
        extra: { ...(aborted ? { aborted: true } : {}), ...extra, ...marks },
      }),
    )
    this.#answer ??= defaultAnswer
  }

  /** The first message comes back when the model has begun to answer, and is written down then. */
  #replay(): void {
    if (this.#replayed) return
    this.#replayed = true
    const last = this.#messages.at(-1)
    if (last !== undefined) this.session.replay({ ...last, text: this.text })
  }

  #takeQueued(): void {
    for (const message of this.session.takeQueued()) {
      this.#replay()
      this.session.replay(message)
      this.session.lifecycle(message, 'started')
      this.#taken.push(message)
    }
  }

  #closeAnswer(): void {
    this.#spent = addTokens(this.#spent, this.#answer ?? noTokens)
    this.#answers += 1
    this.#answer = undefined
    this.#messageId = newMessageId()
  }

  #interrupted(): ResultFacts {
    this.#replay()
    this.#userLines += 1
    this.session.write(interruptedLine(this.session.id, this.#duringTool))
    const stopReason = this.#duringTool ? 'tool_use' : null
    const errors = [`[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=${stopReason}`]
    const terminalReason = this.#duringTool ? 'aborted_tools' : 'aborted_streaming'
    this.#stopReason = stopReason
    return this.#result('error_during_execution', { terminalReason, extra: { errors } })
  }

  /** `success` with `is_error`: what the real CLI prints when the API did not answer in the end. */
  #gaveUp(text: string, fields: Readonly<Record<string, unknown>>): ResultFacts {
    const uuids = given(this.#messages)
    const marks =
      !this.#replayed && uuids.length > 0 ? { user_message_uuid: uuids.at(-1), user_message_uuids: uuids } : {}
    this.#replay()
    this.session.write(syntheticLine(this.session.id, text, { ...fields, ...marks }))
    this.#stopReason = 'stop_sequence'
    const { api_error_status = null, api_error_type } = fields
    const type = api_error_type === undefined ? {} : { api_error_type }
    return this.#result('success', {
      terminalReason: 'api_error',
      isError: true,
      extra: { api_error_status, ...type, result: text },
    })
  }

  #result(
    subtype: ResultFacts['subtype'],
    facts: { terminalReason: string; isError?: boolean; unspoken?: boolean; extra: Readonly<Record<string, unknown>> },
  ): ResultFacts {
    return {
      sessionId: this.session.id,
      subtype,
      isError: facts.isError ?? subtype !== 'success',
      terminalReason: facts.terminalReason,
      stopReason: this.#stopReason ?? (subtype === 'success' ? 'end_turn' : null),
      numTurns: 1 + this.#userLines,
      resultIndex: this.session.resultIndex,
      durationMs: Date.now() - this.#startedAtMs,
      denials: this.denials,
      uuids: given(this.#taken),
      model: this.session.model,
      turn: facts.unspoken === true ? noTokens : this.#spent,
      session: addTokens(this.session.spent, this.#spent),
      extra: facts.extra,
    }
  }

  async #until(done: () => Promise<boolean>): Promise<void> {
    while (!this.signal.aborted && !(await done())) {
      await delay(pollMs, undefined, { signal: this.signal }).catch(() => undefined)
    }
  }

  #textOf(value: unknown): string {
    return evaluateText(value, this.#lookup)
  }

  readonly #lookup = (name: string): unknown => {
    if (name === 'messages') return this.#taken.map((message) => message.text)
    if (name === 'session_id') return this.session.id
    if (name === 'cwd') return this.session.cwd
    return this.results.get(name)
  }
}

const pollMs = 20

const defaultAnswer: Tokens = { inputTokens: 10, outputTokens: 5 }

function given(messages: readonly Message[]): readonly string[] {
  return messages.filter((message) => message.given).map((message) => message.uuid)
}

function newMessageId(): string {
  return `msg_${randomUUID().replaceAll('-', '').slice(0, 24)}`
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  )
}

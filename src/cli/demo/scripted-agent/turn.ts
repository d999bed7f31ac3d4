import { randomUUID } from 'node:crypto'
import { access } from 'node:fs/promises'
import { resolve } from 'node:path'
import process from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { apiFailure, maxRetries, retryDelayMs } from './api-errors.ts'
import { runCalls } from './calls.ts'
import { initLine, type ResultFacts } from './lines.ts'
import { type Step, stepsFor } from './scenario.ts'
import type { Message, Session } from './session.ts'
import { givenUuids, Transcript } from './transcript.ts'
import { addTokens, costUsd } from './usage.ts'
import { evaluate, evaluateText, isRecord, ScenarioError } from './values.ts'

const pollMs = 20

/**
 * One turn: a message (or several, merged) in, lines out, and one result. Messages that come while a tool runs are
 * taken in after its result; what comes later waits for the next turn.
 */
export class Turn {
  readonly session: Session
  readonly signal: AbortSignal
  readonly transcript: Transcript
  /** Results of calls and answers of the host, by the name a step gave them. */
  readonly results = new Map<string, unknown>()
  readonly #messages: readonly Message[]
  #duringTool = false

  constructor(session: Session, messages: readonly Message[], signal: AbortSignal) {
    this.session = session
    this.signal = signal
    this.#messages = messages
    this.transcript = new Transcript(session, messages)
  }

  async run(): Promise<void> {
    const { session, transcript } = this
    const last = this.#messages.length - 1
    for (const message of this.#messages.slice(0, last)) session.replay(message)
    for (const message of this.#messages) session.lifecycle(message, 'started')
    session.write(initLine({ ...session.initFacts(), uuids: givenUuids(this.#messages) }))
    transcript.finish(await this.#follow())
  }

  async #follow(): Promise<ResultFacts> {
    const { session, transcript } = this
    if (session.credential === 'none') {
      return transcript.gaveUp('Not logged in · Please run /login', { error: 'authentication_failed' })
    }
    for (const step of stepsFor(session.scenario, transcript.text)) {
      const end = await this.#step(step)
      if (this.signal.aborted) return transcript.interrupted(this.#duringTool)
      if (end !== undefined) return end
    }
    if (!transcript.answering) throw new ScenarioError('the steps of the turn ended after a call: say something last')
    transcript.closeAnswer()
    return transcript.success()
  }

  async #step(step: Step): Promise<ResultFacts | undefined> {
    switch (step.kind) {
      case 'tools':
        return await this.#tools(step)
      case 'http_error':
        return await this.#httpError(step)
      case 'say':
        await this.#say(step)
        break
      case 'think':
        this.transcript.thinking(this.#textOf(step.text))
        break
      case 'usage':
        this.transcript.count(step)
        break
      case 'wait_for_file':
        await this.#until(() => exists(resolve(this.session.cwd, step.path)))
        break
      case 'wait_for_message':
        await this.#until(() => Promise.resolve(this.session.hasQueued()))
        this.transcript.takeQueued()
        break
      case 'hang':
        await this.#until(() => Promise.resolve(false))
        break
      case 'crash':
        if (step.signal !== undefined) process.kill(process.pid, step.signal)
        process.exit(step.exitCode)
        break
      case 'end':
        this.transcript.stop(step.stopReason)
        break
      case 'emit':
        this.session.write(this.#objectOf(step.line))
        break
      case 'request':
        await this.#request(step)
        break
    }
    return undefined
  }

  async #say(step: Extract<Step, { kind: 'say' }>): Promise<void> {
    const text = this.#textOf(step.text)
    let said = step.chunkMs === 0 ? step.chunks : 0
    while (said < step.chunks && !this.signal.aborted) {
      await this.#pause(step.chunkMs)
      if (!this.signal.aborted) said += 1
    }
    if (said === step.chunks) {
      this.transcript.block({ type: 'text', text })
      this.transcript.said(text)
      return
    }
    const part = text.slice(0, Math.floor((text.length * said) / step.chunks))
    if (part !== '') this.transcript.block({ type: 'text', text: part }, { aborted: true })
  }

  async #tools(step: Extract<Step, { kind: 'tools' }>): Promise<ResultFacts | undefined> {
    const { session, transcript } = this
    const { maxBudgetUsd, maxTurns } = session.flags
    const calls = step.calls.map((call) => {
      const id = `toolu_${randomUUID().replaceAll('-', '').slice(0, 24)}`
      return { ...call, id, input: this.#objectOf(call.input) }
    })
    for (const call of calls) {
      const meta = session.mcp.describe(call.tool)
      const extra = meta === undefined ? {} : { tool_use_meta: [{ id: call.id, ...meta }] }
      transcript.block({ type: 'tool_use', id: call.id, name: call.tool, input: call.input }, extra)
    }
    transcript.stop('tool_use')
    transcript.closeAnswer()
    // Checked after the answer that crossed the limit; its calls do not run.
    const cost = costUsd(addTokens(session.spent, transcript.spent))
    if (maxBudgetUsd !== undefined && cost > maxBudgetUsd) return transcript.maxBudget(maxBudgetUsd)
    this.#duringTool = true
    transcript.toolResults(await runCalls(this, calls))
    if (this.signal.aborted) return undefined
    this.#duringTool = false
    if (maxTurns !== undefined && transcript.answers >= maxTurns) return transcript.maxTurns(maxTurns)
    transcript.takeQueued()
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
      await this.#pause(retryMs)
      if (this.signal.aborted) return undefined
    }
    if (step.times <= allowed) return undefined
    const status = { api_error_status: step.status, api_error_type: failure.errorType }
    return this.transcript.gaveUp(failure.text, { error: failure.error, ...status })
  }

  async #request(step: Extract<Step, { kind: 'request' }>): Promise<void> {
    const answer = await this.session.host.ask(this.#objectOf(step.request), this.signal)
    if (step.as === undefined) return
    this.results.set(step.as, answer.kind === 'answer' ? answer.response : { [answer.kind]: true })
  }

  async #until(done: () => Promise<boolean>): Promise<void> {
    while (!this.signal.aborted && !(await done())) await this.#pause(pollMs)
  }

  /** Waits, or returns early when the turn is stopped. */
  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.signal }).catch(() => undefined)
  }

  #textOf(value: unknown): string {
    return evaluateText(value, this.#lookup)
  }

  #objectOf(value: unknown): Record<string, unknown> {
    const object = evaluate(value, this.#lookup)
    if (isRecord(object)) return object
    throw new ScenarioError(`expected an object, got ${JSON.stringify(object)}`)
  }

  readonly #lookup = (name: string): unknown => {
    switch (name) {
      case 'messages':
        return this.transcript.taken.map((message) => message.text)
      case 'session_id':
        return this.session.id
      case 'cwd':
        return this.session.cwd
      default:
        return this.results.get(name)
    }
  }
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  )
}

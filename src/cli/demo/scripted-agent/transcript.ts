import { randomUUID } from 'node:crypto'
import {
  assistantLine,
  interruptedLine,
  type Line,
  type ResultFacts,
  resultLine,
  syntheticLine,
  thinkingTokensLine,
} from './lines.ts'
import type { Message, Session } from './session.ts'
import { addTokens, noTokens, type Tokens } from './usage.ts'

/**
 * What a turn has said so far, and so what its result will say.
 *
 * An answer of the model is what stands between two calls: its blocks share an id, and its tokens count once.
 */
export class Transcript {
  readonly denials: object[] = []
  /** The messages that began the turn, then those taken in while it ran. */
  readonly taken: Message[]
  readonly #session: Session
  readonly #messages: readonly Message[]
  readonly #startedAtMs = Date.now()
  #replayed = false
  #messageId = newMessageId()
  #answer: Tokens | undefined
  #answers = 0
  #userLines = 0
  #spent: Tokens = noTokens
  #lastText = ''
  #stopReason: string | null = null

  constructor(session: Session, messages: readonly Message[]) {
    this.#session = session
    this.#messages = messages
    this.taken = [...messages]
  }

  get text(): string {
    return this.#messages.map((message) => message.text).join('\n')
  }

  /** Finished answers of the model. */
  get answers(): number {
    return this.#answers
  }

  get answering(): boolean {
    return this.#answer !== undefined
  }

  get spent(): Tokens {
    return this.#spent
  }

  /** One block of the current answer. `extra` stands beside the message. */
  block(block: object, extra: Readonly<Record<string, unknown>> = {}): void {
    const marks = this.#marks()
    this.#stopReason = null
    this.replay()
    const { id: sessionId, model } = this.#session
    const line = assistantLine({ sessionId, messageId: this.#messageId, model, block, extra: { ...extra, ...marks } })
    this.#session.write(line)
    this.#answer ??= defaultAnswer
  }

  /** Thinking is announced by an estimate of its tokens, in front of everything else. */
  thinking(thinking: string): void {
    const tokens = Math.ceil(thinking.length / 4)
    const { id } = this.#session
    this.#session.write(thinkingTokensLine(id, tokens))
    this.block({ type: 'thinking', thinking, signature: 'c2ln' })
  }

  said(text: string): void {
    this.#lastText = text
  }

  /** Token counts of the current answer. */
  count(tokens: Tokens): void {
    this.#answer = tokens
  }

  stop(reason: string): void {
    this.#stopReason = reason
    this.#answer ??= defaultAnswer
  }

  closeAnswer(): void {
    this.#spent = addTokens(this.#spent, this.#answer ?? noTokens)
    this.#answers += 1
    this.#answer = undefined
    this.#messageId = newMessageId()
  }

  toolResults(count: number): void {
    this.#userLines += count
  }

  /** The first message comes back when the model has begun to answer, and is written down then. */
  replay(): void {
    if (this.#replayed) return
    this.#replayed = true
    const last = this.#messages.at(-1)
    if (last !== undefined) this.#session.replay({ ...last, text: this.text })
  }

  takeQueued(): void {
    for (const message of this.#session.takeQueued()) {
      this.replay()
      this.#session.replay(message)
      this.#session.lifecycle(message, 'started')
      this.taken.push(message)
    }
  }

  success(): ResultFacts {
    const extra = { api_error_status: null, result: this.#lastText }
    this.#stopReason ??= 'end_turn'
    return this.#result('success', { terminalReason: 'completed', extra })
  }

  maxTurns(limit: number): ResultFacts {
    const extra = { errors: [`Reached maximum number of turns (${limit})`] }
    return this.#result('error_max_turns', { terminalReason: 'max_turns', extra })
  }

  maxBudget(limitUsd: number): ResultFacts {
    const extra = { errors: [`Reached maximum budget ($${limitUsd})`] }
    const result = this.#result('error_max_budget_usd', { terminalReason: 'budget_exhausted', extra })
    return { ...result, turn: noTokens }
  }

  interrupted(duringTool: boolean): ResultFacts {
    this.replay()
    this.#userLines += 1
    this.#session.write(interruptedLine(this.#session.id, duringTool))
    this.#stopReason = duringTool ? 'tool_use' : null
    const errors = [`[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=${this.#stopReason}`]
    const terminalReason = duringTool ? 'aborted_tools' : 'aborted_streaming'
    return this.#result('error_during_execution', { terminalReason, extra: { errors } })
  }

  /** `success` with `is_error`: what the real CLI prints when the API did not answer in the end. */
  gaveUp(text: string, fields: Readonly<Record<string, unknown>>): ResultFacts {
    const marks = this.#marks()
    this.replay()
    this.#session.write(syntheticLine(this.#session.id, text, { ...fields, ...marks }))
    this.#stopReason = 'stop_sequence'
    const { error: _said, api_error_status = null, ...rest } = fields
    const extra = { api_error_status, ...rest, result: text }
    return { ...this.#result('success', { terminalReason: 'api_error', extra }), isError: true }
  }

  /** Prints the result and what became of each message: steers before it, the first ones after it. */
  finish(result: ResultFacts): Line {
    // Odd, but measured: a turn cut by the limit of turns counts as done, one cut by the budget does not.
    const cancelled = result.isError && result.subtype !== 'error_max_turns'
    const state = cancelled ? 'cancelled' : 'completed'
    for (const message of this.taken.slice(this.#messages.length)) this.#session.lifecycle(message, state)
    const line = resultLine(result)
    this.#session.finish(line, this.#spent)
    for (const message of this.#messages) this.#session.lifecycle(message, state)
    return line
  }

  /** Uuids of the turn, on the first line of the model. */
  #marks(): Readonly<Record<string, unknown>> {
    const uuids = givenUuids(this.#messages)
    if (this.#replayed || uuids.length === 0) return {}
    return { user_message_uuid: uuids.at(-1), user_message_uuids: uuids }
  }

  #result(
    subtype: ResultFacts['subtype'],
    facts: { terminalReason: string; extra: Readonly<Record<string, unknown>> },
  ): ResultFacts {
    return {
      sessionId: this.#session.id,
      subtype,
      isError: subtype !== 'success',
      terminalReason: facts.terminalReason,
      stopReason: this.#stopReason,
      numTurns: 1 + this.#userLines,
      resultIndex: this.#session.resultIndex,
      durationMs: Date.now() - this.#startedAtMs,
      denials: this.denials,
      uuids: givenUuids(this.taken),
      model: this.#session.model,
      turn: this.#spent,
      session: addTokens(this.#session.spent, this.#spent),
      extra: facts.extra,
    }
  }
}

const defaultAnswer: Tokens = { inputTokens: 10, outputTokens: 5 }

/** The uuids that came with the messages; made-up ones are nobody's business. */
export function givenUuids(messages: readonly Message[]): readonly string[] {
  return messages.filter((message) => message.given).map((message) => message.uuid)
}

function newMessageId(): string {
  return `msg_${randomUUID().replaceAll('-', '').slice(0, 24)}`
}

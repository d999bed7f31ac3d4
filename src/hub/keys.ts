import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import type { Clock } from '../ports/clock.ts'
import type { ToolCall } from '../ports/hub-api.ts'
import type { Store } from '../ports/store.ts'
import type { Engine, Transaction } from '../runtime/engine.ts'
import { type AnswerRecord, keys, prefixes } from './records.ts'

/** What one key stands for while its call runs. */
export interface KeySlot {
  /** Tool and key: the same for every repeat of the call. */
  readonly id: string
  /** The id of the reply, should the call make an offer, and where its bytes are kept. */
  readonly offerId: string
  readonly answerKey: string
  /** What an earlier run of this very call did, when it never got to its answer. */
  readonly made: Readonly<Record<string, string>> | undefined
  /** Records the effect, in its batch; without a body the answer follows later. */
  record(tx: Transaction, answer: { body?: string; made?: Readonly<Record<string, string>>; isOffer?: boolean }): void
}

export interface Answer {
  readonly body: string
  /** The reply that it is in the inbox, for a tool that makes offers. */
  readonly offerId: string
  /** Whether it had been given before. */
  readonly isRepeat: boolean
}

interface Running {
  readonly digest: string
  readonly answer: Promise<Answer>
}

/**
 * Idempotency (rule 3): the same key gives the same answer and no second effect; with other arguments it is refused. Where
 * the caller named no key, the call's own key stands for it, so a call that is repeated after a crash is safe too.
 */
export class Keys {
  readonly #store: Store
  readonly #clock: Clock
  readonly #sha256: (text: string) => string
  readonly #running = new Map<string, Running>()
  /** Call keys whose answer belongs to the offer of another call under the same key. */
  readonly #aliases = new Map<string, string>()

  constructor(parts: { store: Store; clock: Clock; sha256: (text: string) => string }) {
    this.#store = parts.store
    this.#clock = parts.clock
    this.#sha256 = parts.sha256
  }

  /** The offer that a call's answer is. */
  offerIdOf(callKey: string): string {
    const own = this.#sha256(callKey)
    return this.#aliases.get(own) ?? own
  }

  /**
   * Runs `work` once for a key. A call that comes while it runs shares its answer.
   *
   * @throws {NfltrError} `idempotency_conflict`; whatever `work` refused with
   */
  async once(call: ToolCall, work: (slot: KeySlot) => Promise<string>): Promise<Answer> {
    const { idempotency_key: given, ...args } = call.args
    const keyHash = this.#sha256(typeof given === 'string' ? `key:${given}` : `call:${call.callKey}`)
    const id = `${call.tool}/${keyHash}`
    const digest = this.#sha256(canonical(args))
    for (let running = this.#running.get(id); running !== undefined; running = this.#running.get(id)) {
      assertSame(running.digest, digest)
      const answer = await running.answer.catch((error: unknown) => rethrowUnlessCancelled(error))
      if (answer !== undefined) return this.#alias(call, { ...answer, isRepeat: true })
    }
    const answer = this.#answer({ call, keyHash, digest }, work)
    this.#running.set(id, { digest, answer })
    try {
      return this.#alias(call, await answer)
    } finally {
      this.#running.delete(id)
    }
  }

  async #answer(
    { call, keyHash, digest }: { call: ToolCall; keyHash: string; digest: string },
    work: (slot: KeySlot) => Promise<string>,
  ): Promise<Answer> {
    const key = keys.answer(call.tool, keyHash)
    const bytes = this.#store.getSync(key)
    const known = bytes === undefined ? undefined : decodeRecord<AnswerRecord>(bytes)
    if (known !== undefined) {
      assertSame(known.digest, digest)
      const { body } = known
      if (body !== undefined) return { body, offerId: known.offerId ?? '', isRepeat: true }
    }
    const offerId = this.#sha256(call.callKey)
    const record: KeySlot['record'] = (tx, { body, made, isOffer }) => {
      const answer: AnswerRecord = {
        digest,
        ...(body === undefined ? {} : { body }),
        ...(isOffer === true ? { offerId } : {}),
        made: made ?? {},
        atMs: this.#clock.wallMs(),
      }
      tx.put(key, encodeRecord(answer))
    }
    const id = `${call.tool}/${keyHash}`
    return { body: await work({ id, offerId, answerKey: key, made: known?.made, record }), offerId, isRepeat: false }
  }

  #alias(call: ToolCall, answer: Answer): Answer {
    const own = this.#sha256(call.callKey)
    if (answer.offerId !== '' && answer.offerId !== own) this.#aliases.set(own, answer.offerId)
    // Forgetting one only means that its reply is named once more.
    const [oldest] = this.#aliases.keys()
    if (this.#aliases.size > aliasesMax && oldest !== undefined) this.#aliases.delete(oldest)
    return answer
  }

  /** Lets go of the replies of waits that are over their age: no agent's record needs them (rule 38). */
  async prune(engine: Engine): Promise<void> {
    const oldestMs = this.#clock.wallMs() - limits.keysKeptMs
    const stale: string[] = []
    for await (const { key, value } of this.#store.scan(`${prefixes.answer}wait_for_agents/`)) {
      if (decodeRecord<AnswerRecord>(value).atMs < oldestMs) stale.push(key)
    }
    if (stale.length === 0) return
    await engine.transact((tx) => {
      for (const key of stale) tx.delete(key)
    })
  }
}

/** Repeats under other call keys that are remembered until they are confirmed. */
const aliasesMax = 1_000

/** A call that its client gave up: nobody reads the answer. */
export function cancelled(): NfltrError {
  return new NfltrError('timed_out', 'The call was cancelled by its client.', { details: { cancelled: true } })
}

function rethrowUnlessCancelled(error: unknown): undefined {
  if (error instanceof NfltrError && error.details['cancelled'] === true) return undefined
  throw error
}

function assertSame(known: string, digest: string): void {
  if (known === digest) return
  throw new NfltrError('idempotency_conflict', 'The idempotency key was used before with other arguments.', {
    hint: 'Use a new key for a new call, or repeat the first one with exactly its arguments.',
  })
}

/** JSON with keys in order: equal arguments have equal texts. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, field: unknown) =>
    typeof field === 'object' && field !== null && !Array.isArray(field)
      ? Object.fromEntries(Object.entries(field).sort(([a], [b]) => (a < b ? -1 : 1)))
      : field,
  )
}

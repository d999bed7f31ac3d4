import { NfltrError } from '../core/errors.ts'
import type { AttemptRef, NodeMessage } from '../core/messages.ts'
import { type AttemptResult, noUsage } from '../core/model.ts'
import type { AttemptEnd, NodeAttempt } from '../core/node-attempt-state.ts'
import type { Attempts } from './attempts.ts'
import { prove } from './follow.ts'
import type { NodePorts } from './ports.ts'
import { readResult, readResultSync } from './records.ts'
import type { Sessions } from './sessions.ts'

/** What a tombstone says of an end whose result was kept for its time and is gone. */
function withoutText({ outcome, reason }: AttemptEnd): AttemptResult {
  return {
    outcome,
    ...(reason === undefined ? {} : { reason }),
    text: '',
    hint: 'The text was kept on its node for 7 days after the receipt, and is gone.',
    denied: [],
    usage: noUsage,
    messages: [],
    details: {},
  }
}

/** What is left of attempts after their end: answers from what is kept, and the end of what is not kept any longer. */
export class Retention {
  readonly #ports: NodePorts
  readonly #attempts: Attempts
  readonly #sessions: Sessions
  readonly #stopping = new AbortController()
  readonly #running = new Set<Promise<void>>()

  constructor(ports: NodePorts, attempts: Attempts, sessions: Sessions) {
    this.#ports = ports
    this.#attempts = attempts
    this.#sessions = sessions
  }

  /** Lets go of everything whose time is over. */
  expire(): void {
    const atMs = this.#ports.clock.wallMs()
    const due = this.#attempts.due(atMs)
    if (due.length === 0) return
    void this.#ports.engine.transact((tx) => {
      for (const { hubId, ref } of due) {
        this.#attempts.dispatch(tx, { hubId, attemptId: ref.attemptId }, { type: 'expired', atMs })
      }
    })
  }

  /** Removes an attempt's folder. The record follows: a crash between them only repeats the removal. */
  remove(attemptId: string): void {
    this.#run('not_removed', attemptId, async () => {
      const state = this.#attempts.get(attemptId)
      if (state === undefined) return
      try {
        await this.#ports.keepers.remove(attemptId)
      } catch (error) {
        if (!(error instanceof NfltrError && error.code === 'not_found')) throw error
      }
      const atMs = this.#ports.clock.wallMs()
      await this.#ports.engine.transact((tx) =>
        this.#attempts.dispatch(tx, { hubId: state.hubId, attemptId }, { type: 'removed', atMs }),
      )
    })
  }

  discardTemporary(attemptId: string): void {
    const state = this.#attempts.get(attemptId)
    if (state !== undefined) this.#run('temporary_folder_kept', attemptId, () => this.#discard(state))
  }

  /** What a former run may not have got to: one after the other, since there may be a week of them and hubs are waiting. */
  discardLeft(ended: readonly NodeAttempt[]): void {
    this.#run('temporary_folder_kept', '', async () => {
      for (const state of ended) {
        if (this.#stopping.signal.aborted) return
        await this.#discard(state)
      }
    })
  }

  async #discard(state: NodeAttempt): Promise<void> {
    if (state.place === undefined) return
    const { agentId, attemptId } = state.ref
    const isContinuation = state.claim?.resumeSessionId !== undefined
    const originAttemptId = (isContinuation ? this.#attempts.agent(agentId)?.originAttemptId : undefined) ?? attemptId
    await this.#ports.workspaces.discardTemporary({ agentId, attemptId, originAttemptId })
  }

  /** Answers a repeated claim of an ended attempt with its end. */
  sendKeptResult(attemptId: string): void {
    this.#run('result_not_sent', attemptId, async () => {
      const state = this.#attempts.get(attemptId)
      if (state?.end === undefined) return
      const { ref, hubId, end } = state
      const result = (await readResult(this.#ports.store, attemptId)) ?? withoutText(end)
      await this.#ports.engine.transact((tx) =>
        this.#sessions.send(
          tx,
          hubId,
          end.keeperGone === undefined
            ? { type: 'ended', ref, result }
            : { type: 'keeper_gone', ref, message: end.keeperGone },
        ),
      )
    })
  }

  /**
   * Every end that a hub has not said it has, at once: for the decision in which its lane begins anew. Left out are results that
   * cannot be read, of which the store tells.
   */
  endsOf(hubId: string): readonly NodeMessage[] {
    return this.#attempts.all().flatMap((state): readonly NodeMessage[] => {
      if (state.hubId !== hubId || state.phase !== 'ended' || state.end?.keeperGone !== undefined) return []
      const result = this.#resultNow(state)
      return result === undefined ? [] : [{ type: 'ended', ref: state.ref, result }]
    })
  }

  #resultNow({ ref }: NodeAttempt): AttemptResult | undefined {
    try {
      return this.#attempts.freshResult(ref.attemptId) ?? readResultSync(this.#ports.store, ref.attemptId)
    } catch (error) {
      if (error instanceof NfltrError && error.code === 'store_damaged') return undefined
      throw error
    }
  }

  /** A hub stops an attempt that has no record here: what may be left of it is ended, and the hub is told so. */
  proveAbsent(hubId: string, ref: AttemptRef): void {
    this.#run('absence_not_proven', ref.attemptId, async () => {
      const proof = await prove(this.#ports, ref.attemptId, this.#stopping.signal)
      if (proof === undefined) return
      const message = `This node has no record of the attempt, and nothing of it runs here (${proof}).`
      await this.#ports.engine.transact((tx) => this.#sessions.send(tx, hubId, { type: 'keeper_gone', ref, message }))
    })
  }

  async close(): Promise<void> {
    this.#stopping.abort()
    await Promise.allSettled(this.#running)
  }

  #run(failure: string, attemptId: string, work: () => Promise<void>): void {
    const running = work().catch((error: unknown) =>
      this.#ports.note?.({ event: failure, fields: { attempt_id: attemptId, error: String(error) } }),
    )
    this.#running.add(running)
    void running.finally(() => this.#running.delete(running))
  }
}

import { NfltrError } from '../core/errors.ts'
import type { Hold, SessionIdentity, ToolCall } from '../ports/hub-api.ts'
import type { Mailbox } from './mailbox.ts'

/** Which session holds the hub: one at a time. What a session leaves unread when it goes is named to the next one. */
export class Holder {
  readonly #mailbox: Mailbox
  readonly #host: string
  #held: { readonly session: SessionIdentity } | undefined

  constructor(mailbox: Mailbox, options: { readonly host: string }) {
    this.#mailbox = mailbox
    this.#host = options.host
  }

  get session(): SessionIdentity | undefined {
    return this.#held?.session
  }

  /** The same session may take it again: after a lost connection, or a hub that was started anew under it. */
  async hold(session: SessionIdentity, released: () => void): Promise<Hold> {
    const holder = this.#held?.session
    if (holder !== undefined && holder.sessionKey !== session.sessionKey) throw this.#refusal(holder)
    const held = { session }
    this.#held = held
    await this.#mailbox.decide({ type: 'session_began', sessionKey: session.sessionKey })
    return {
      release: async () => {
        if (this.#held !== held) return
        this.#held = undefined
        await this.#mailbox.decide({ type: 'session_ended', sessionKey: session.sessionKey })
        released()
      },
    }
  }

  isHolder(sessionKey: string): boolean {
    return this.#held?.session.sessionKey === sessionKey
  }

  /**
   * Only the holder waits. Everything else may be asked beside it.
   *
   * @throws {NfltrError} `hub_held`
   */
  assertMay(call: ToolCall): void {
    const holder = this.#held?.session
    if (call.tool !== 'wait_for_agents' || this.isHolder(call.sessionKey)) return
    if (holder !== undefined) throw this.#refusal(holder)
    throw new NfltrError('hub_held', 'A call waited for agents without holding the hub.', {
      hint: 'Hold the hub for as long as the wait lasts.',
    })
  }

  #refusal({ pid, host, since }: SessionIdentity): NfltrError {
    return new NfltrError('hub_held', `Another session (pid ${pid} on ${host}) has held this hub since ${since}.`, {
      hint:
        host === this.#host
          ? 'End that session, or use another project folder or --hub-id.'
          : 'End that session first.',
      details: { pid, host, since },
    })
  }
}

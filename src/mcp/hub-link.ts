import { NfltrError } from '../core/errors.ts'
import type { Hold, HubApi, SessionIdentity, ToolCall, ToolReply } from '../ports/hub-api.ts'

/** Reaches the hub of this project, starting it where none runs. Supplied by the composition root. */
export interface HubStarter {
  /**
   * A client of a hub that answers.
   *
   * @throws {NfltrError} `no_mesh` on a machine without a membership; whatever kept the hub from starting
   */
  connect(): Promise<HubConnection>
}

export interface HubConnection {
  readonly hub: Omit<HubApi, 'hold'> & {
    hold(session: SessionIdentity): Promise<Hold & { readonly lost: Promise<void> }>
  }
}

/** How often one call is repeated under its key when hubs keep dying under it. */
const repeatsMax = 5

/**
 * The adapter's link to its hub. It holds the hub from the first call on. When the hub dies it is started again and the
 * call is repeated under the same key, which gives the same bytes and no second effect.
 */
export class HubLink {
  readonly #starter: HubStarter
  readonly #session: SessionIdentity
  #held: Promise<{ connection: HubConnection; hold: Hold }> | undefined

  constructor(starter: HubStarter, session: SessionIdentity) {
    this.#starter = starter
    this.#session = session
  }

  async call(call: Omit<ToolCall, 'sessionKey'>): Promise<ToolReply> {
    return await this.#repeat((hub) => hub.call({ ...call, sessionKey: this.#session.sessionKey }), call.signal)
  }

  async confirm(callKey: string): Promise<void> {
    await this.#repeat((hub) => hub.confirm(callKey))
  }

  async withdraw(callKey: string): Promise<void> {
    await this.#repeat((hub) => hub.withdraw(callKey))
  }

  async doubt(callKey: string): Promise<void> {
    await this.#repeat((hub) => hub.doubt(callKey))
  }

  async close(): Promise<void> {
    const held = this.#held
    this.#held = undefined
    if (held === undefined) return
    await held.then(
      ({ hold }) => hold.release(),
      () => undefined,
    )
  }

  async #repeat<T>(work: (hub: HubConnection['hub']) => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const held = this.#hold()
      try {
        return await work((await held).connection.hub)
      } catch (thrown) {
        if (signal?.aborted === true || attempt === repeatsMax || !isHubGone(thrown)) throw thrown
        if (this.#held === held) this.#held = undefined
      }
    }
  }

  #hold(): Promise<{ connection: HubConnection; hold: Hold }> {
    if (this.#held !== undefined) return this.#held
    const forget = (): void => {
      if (this.#held === held) this.#held = undefined
    }
    const held = this.#open(forget)
    this.#held = held
    held.catch(forget)
    return held
  }

  async #open(lost: () => void): Promise<{ connection: HubConnection; hold: Hold }> {
    const connection = await this.#starter.connect()
    const hold = await connection.hub.hold(this.#session)
    void hold.lost.then(lost)
    return { connection, hold }
  }
}

function isHubGone(thrown: unknown): boolean {
  return thrown instanceof NfltrError && (thrown.code === 'link_down' || thrown.code === 'not_running')
}

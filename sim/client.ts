import { NfltrError } from '../src/core/errors.ts'
import type { ToolName } from '../src/ports/hub-api.ts'
import { HubLink } from './hub-link.ts'
import type { HubProcess } from './hub-process.ts'
import { Life } from './life.ts'
import type { SeededRandom } from './random.ts'
import type { World } from './world.ts'

/** One call that the model made, and what it read. */
export type Answer =
  | { readonly type: 'reply'; readonly document: Record<string, unknown> }
  | { readonly type: 'refused'; readonly error: NfltrError }
  | { readonly type: 'cancelled' }

/** A session of the model with its adapter, which does and says what the MCP adapter does and says. */
export class Session {
  readonly life: Life
  readonly name: string
  readonly #world: World
  readonly #random: SeededRandom
  readonly #link: HubLink
  readonly #hubId: string
  /** Words on their way to the hub: told before the next call begins. */
  #words = new Set<Promise<void>>()
  #calls = 0
  /** Replies of the hub that the client has not read yet. */
  #carried = 0

  constructor(hub: HubProcess, options: { readonly name: string }) {
    const { world } = hub
    this.name = options.name
    this.#world = world
    this.life = new Life(world, options.name, () => this.die('between two effects'))
    this.#random = world.random(options.name)
    this.#hubId = hub.hubId
    const session = { pid: 1, host: 'laptop', since: '2026-01-01T00:00:00Z', sessionKey: options.name }
    this.#link = new HubLink(hub, { life: this.life, random: this.#random, session })
    world.note(`session ${this.name} began`)
  }

  /** Model and adapter are killed at once. */
  die(why: string): void {
    if (!this.life.isAlive) return
    this.#world.note(`session ${this.name} died ${why}`)
    this.#world.count('session killed')
    if (this.#carried > 0) this.#world.count('adapter killed between reply and client')
    this.life.end()
  }

  /** @param cancelAfterMs when the client gives the call up, answered or not */
  async call(tool: ToolName, args: Record<string, unknown>, cancelAfterMs?: number): Promise<Answer> {
    this.#world.tell({ type: 'requested', session: this.name })
    await Promise.all(this.#words)
    this.#calls += 1
    const callKey = `${this.name}/${this.#calls}`
    this.#world.note(`call ${callKey} ${tool} ${JSON.stringify(args)}`)
    const cancel = new AbortController()
    if (cancelAfterMs !== undefined) {
      this.#world.count('call cancelled')
      this.life.after(cancelAfterMs, () => cancel.abort())
    }
    try {
      const answer = await this.#answered(callKey, { tool, args }, cancel.signal)
      this.#world.note(`call ${callKey} ${answer.type}`)
      return answer
    } catch (error) {
      if (cancel.signal.aborted) return { type: 'cancelled' }
      if (!(error instanceof NfltrError)) throw error
      this.#world.note(`call ${callKey} refused ${error.code}: ${error.message}`)
      return { type: 'refused', error }
    }
  }

  async #answered(
    callKey: string,
    { tool, args }: { readonly tool: ToolName; readonly args: Record<string, unknown> },
    cancelled: AbortSignal,
  ): Promise<Answer> {
    const { body } = await this.#link.request(
      (hub, signal) => hub.call({ tool, args, callKey, sessionKey: this.name, signal }),
      cancelled,
    )
    const isOffer = tool === 'spawn_agent' || tool === 'wait_for_agents'
    const contents = isOffer ? contentsOf(tool, body) : { carries: [], names: [] }
    const { hubId, session } = { hubId: this.#hubId, session: this.name }
    this.#world.tell({ type: 'reply', hubId, callKey, session, isOffer, body, ...contents })
    if (cancelled.aborted) {
      this.#world.tell({ type: 'reply_withdrawn', callKey })
      await this.#link.request((hub) => hub.withdraw(callKey))
      return { type: 'cancelled' }
    }
    this.#carried += 1
    await this.#moment()
    // From here on bytes of the reply may be in the client's hands.
    this.#world.tell({ type: 'reply_written', callKey })
    await this.#moment()
    this.#carried -= 1
    if (cancelled.aborted) {
      this.#say(() => this.#link.request((hub) => hub.doubt(callKey)))
      return { type: 'cancelled' }
    }
    this.#world.tell({ type: 'reply_read', callKey })
    const confirmed = this.#link
      .request((hub) => hub.confirm(callKey))
      .then(() => this.#world.tell({ type: 'reply_confirmed', callKey }))
    this.#say(() => confirmed)
    return { type: 'reply', document: JSON.parse(body) as Record<string, unknown> }
  }

  /** A word that does not reach the hub leaves the reply offered, which reads as unconfirmed. */
  #say(word: () => Promise<void>): void {
    const told = word()
      .catch(() => undefined)
      .finally(() => this.#words.delete(told))
    this.#words.add(told)
  }

  #moment(): Promise<void> {
    if (!this.life.act()) return new Promise(() => undefined)
    return this.life.delayed(this.#random.next() * 3, () => undefined)
  }
}

/** The entries that a reply carries, and those that it names as unconfirmed. */
function contentsOf(
  tool: ToolName,
  body: string,
): { readonly carries: readonly number[]; readonly names: readonly number[] } {
  const document = JSON.parse(body) as Record<string, unknown>
  if (tool === 'spawn_agent') return { carries: idsIn([document]), names: [] }
  return {
    carries: [...idsIn(document['results']), ...idsIn(document['events'])],
    names: idsIn(document['unconfirmed']),
  }
}

function idsIn(list: unknown): readonly number[] {
  if (!Array.isArray(list)) return []
  return (list as readonly Record<string, unknown>[]).flatMap((item) => {
    const id = item['delivery_id']
    return typeof id === 'number' ? [id] : []
  })
}

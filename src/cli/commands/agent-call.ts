import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { ReceiptBody, StoredReceipt } from '../../core/receipt.ts'
import type { Hold, HubApi, SessionIdentity, ToolName } from '../../ports/hub-api.ts'
import type { CliIo } from '../io.ts'

/** What the agent commands need of the world. */
export interface AgentWorld {
  readonly io: CliIo
  /** A client of the project's hub, started where none runs. */
  connect(options: { readonly hubId?: string }): Promise<HubApi>
  /** Checks a receipt's id and signature. @throws {NfltrError} `bad_signature` */
  openReceipt(receipt: StoredReceipt, expected: { readonly machinePeerId: string }): Promise<ReceiptBody>
}

export type Document = Readonly<Record<string, unknown>>

/** One command's conversation with the hub: its replies count as read once they have left this process. */
export class HubConversation implements AsyncDisposable {
  readonly #io: CliIo
  readonly #hub: HubApi
  readonly #session: SessionIdentity
  readonly #unread: string[] = []
  #held: Hold | undefined

  constructor(io: CliIo, hub: HubApi) {
    this.#io = io
    this.#hub = hub
    this.#session = {
      pid: process.pid,
      host: hostname(),
      since: new Date().toISOString(),
      sessionKey: `cli-${randomUUID()}`,
    }
  }

  /** Takes the hub for as long as this command runs. @throws {NfltrError} `hub_held` */
  async hold(): Promise<void> {
    this.#held = await this.#hub.hold(this.#session)
  }

  async call(tool: ToolName, args: Document): Promise<Document> {
    const callKey = `cli-${randomUUID()}`
    const reply = await this.#hub.call({ tool, args, callKey, sessionKey: this.#session.sessionKey })
    this.#unread.push(callKey)
    return JSON.parse(reply.body) as Document
  }

  /**
   * Waits until everything printed has left this process, and only then confirms it. A hub that went meanwhile changes nothing
   * about the answer: a failure after it would tell a script that the call had no effect.
   */
  async finish(): Promise<void> {
    await this.#io.flushed()
    try {
      await this.#confirmAll()
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      this.#io.warn(`The answer stands, but the hub was not told that it was read: ${why}`)
    }
  }

  async #confirmAll(): Promise<void> {
    for (const callKey of this.#unread.splice(0)) await this.#hub.confirm(callKey)
    if (this.#held === undefined) return
    // A session that goes without a further request may not have read its last replies, and the hub would name them to the
    // next one. A shell has read what was flushed, and says so by asking once more.
    await this.#hub.call({
      tool: 'list_agents',
      args: { limit: 1 },
      callKey: `cli-${randomUUID()}`,
      sessionKey: this.#session.sessionKey,
    })
    await this[Symbol.asyncDispose]()
  }

  /** Lets the hub go, whatever became of the command: a hold that stays open keeps this process, and others out. */
  async [Symbol.asyncDispose](): Promise<void> {
    const held = this.#held
    this.#held = undefined
    await held?.release()
  }
}

/** One agent as its spawn was answered. */
export function spawnText(entry: Document): string {
  const machine = entry['machine'] === undefined ? '' : ` on ${String(entry['machine'])}`
  return `${String(entry['agent_id'])} ${String(entry['state'])}${machine}`
}

/** Flags that were given, under the tool's own field names: `timeoutMs` → `timeout_ms`. */
export function toolFields(
  options: Readonly<Record<string, unknown>>,
  names: readonly string[],
): Record<string, unknown> {
  const fields: Record<string, unknown> = {}
  for (const name of names) {
    const value = options[camelCase(name)]
    if (value !== undefined) fields[name] = value
  }
  return fields
}

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase())
}

import type { ToolName } from '../../src/ports/hub-api.ts'
import type { HubProcess } from '../hub-process.ts'
import { recordsOn } from '../scene.ts'
import type { Checker, Fail } from './checker.ts'

/** A reply as it reached the adapter. */
export interface Reply {
  readonly callKey: string
  readonly session: string
  readonly tool: ToolName
  readonly body: string
}

interface Followed extends Reply {
  readonly carries: readonly number[]
  readonly names: readonly number[]
  /** Bytes of it went to the client. */
  isWritten: boolean
  /** The client took it whole. */
  isRead: boolean
  /** The hub heard so. */
  isConfirmed: boolean
  /** The model asked for something else afterwards: it read this for certain. */
  isFollowed: boolean
}

/**
 * What one project's client got to see. An entry is in at most one reply, and in one or in `unconfirmed` (rules 1 and 2);
 * what was read, confirmed and followed by another request never comes again; a call that is repeated gets the same bytes.
 */
export class Deliveries {
  readonly #hubName: string
  readonly #fail: Fail
  readonly #replies = new Map<string, Followed>()
  readonly #carriedBy = new Map<number, string>()
  /** Entries that were read for certain, as far as the hub was told. */
  readonly #settled = new Set<number>()

  constructor(hubName: string, fail: Fail) {
    this.#hubName = hubName
    this.#fail = fail
  }

  /** The model of this session asks for something: whatever it got before, it has read. */
  requested(session: string): void {
    for (const reply of this.#replies.values()) {
      if (reply.session === session && reply.isRead) reply.isFollowed = true
    }
  }

  received(reply: Reply): void {
    const known = this.#replies.get(reply.callKey)
    if (known !== undefined && known.body !== reply.body && isOffer(reply.tool)) {
      this.#fail(`the call ${reply.callKey} got other bytes when it was repeated`)
    }
    const followed: Followed = {
      ...reply,
      ...contentsOf(reply),
      isWritten: false,
      isRead: false,
      isConfirmed: false,
      isFollowed: false,
    }
    if (known === undefined) this.#replies.set(reply.callKey, followed)
    for (const deliveryId of [...followed.carries, ...followed.names]) {
      if (this.#settled.has(deliveryId)) {
        this.#fail(
          `entry ${deliveryId} of ${this.#hubName} came again in ${reply.callKey} after it was read and confirmed`,
        )
      }
    }
    // The hub heard the request that this answers, so it knows that all before it was read.
    for (const other of this.#replies.values()) {
      if (other.session !== reply.session || !other.isConfirmed || !other.isFollowed) continue
      for (const deliveryId of other.carries) this.#settled.add(deliveryId)
    }
  }

  /** The adapter wrote nothing of it, and says so. */
  withdrawn(callKey: string): void {
    this.#replies.delete(callKey)
  }

  written({ callKey }: Reply): void {
    const reply = this.#replies.get(callKey)
    if (reply === undefined) return
    reply.isWritten = true
    for (const deliveryId of reply.carries) {
      const other = this.#carriedBy.get(deliveryId)
      if (other !== undefined && other !== callKey) {
        this.#fail(`entry ${deliveryId} of ${this.#hubName} was in two replies: ${other} and ${callKey}`)
      }
      this.#carriedBy.set(deliveryId, callKey)
    }
  }

  read(callKey: string): void {
    const reply = this.#replies.get(callKey)
    if (reply !== undefined) reply.isRead = true
  }

  confirmed(callKey: string): void {
    const reply = this.#replies.get(callKey)
    if (reply !== undefined) reply.isConfirmed = true
  }

  /** Every entry that the hub ever made was read, or was named in a reply that was. */
  checkEnd(hub: HubProcess): void {
    const told = new Set<number>()
    for (const reply of this.#replies.values()) {
      if (reply.isFollowed) for (const deliveryId of reply.carries) told.add(deliveryId)
      if (reply.isRead) for (const deliveryId of reply.names) told.add(deliveryId)
    }
    for (const { value } of recordsOn<{ deliveryId: number; kind: string; agentId: string }>(hub.disk, 'hub/entry/')) {
      if (!told.has(value.deliveryId)) {
        this.#fail(`${value.kind} ${value.deliveryId} (${value.agentId}) of ${hub.name} was neither read nor named`)
      }
    }
  }
}

export function deliveries(byHub: ReadonlyMap<string, Deliveries>): Checker {
  return {
    name: 'deliveries',
    atEnd({ hubs }) {
      for (const hub of hubs) byHub.get(hub.name)?.checkEnd(hub)
    },
  }
}

function isOffer(tool: ToolName): boolean {
  return tool === 'spawn_agent' || tool === 'wait_for_agents'
}

function contentsOf({ tool, body }: Reply): { readonly carries: readonly number[]; readonly names: readonly number[] } {
  const document = JSON.parse(body) as Record<string, unknown>
  if (tool === 'spawn_agent') return { carries: idsIn([document]), names: [] }
  if (tool !== 'wait_for_agents') return { carries: [], names: [] }
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

import type { Check, Fail, Watch } from '../check.ts'
import type { ReplyEvent } from '../events/delivery.ts'
import type { KeptEntry } from '../events/records.ts'
import type { AuditEvent } from '../events.ts'

/**
 * An entry is in at most one reply, and in one or in `unconfirmed` (D1, D9; rules 1 and 2); what was read, confirmed and
 * followed by another request never comes again; a call that is repeated gets the same bytes.
 */
export const deliveredOnce: Check = { name: 'delivered-once', begin: () => new Deliveries() }

interface Followed extends ReplyEvent {
  isWritten: boolean
  isRead: boolean
  isConfirmed: boolean
  /** The model asked for something else afterwards: it read this for certain. */
  isFollowed: boolean
}

class Deliveries implements Watch {
  readonly #replies = new Map<string, Followed>()
  readonly #carriedBy = new Map<string, string>()
  /** Entries that were read for certain, as far as the hub was told. */
  readonly #settled = new Set<string>()
  readonly #entries: KeptEntry[] = []
  /** Whether anybody tells what clients get to see. */
  #isTold = false

  see(event: AuditEvent, fail: Fail): void {
    switch (event.type) {
      case 'requested':
        this.#isTold = true
        for (const reply of this.#replies.values()) {
          if (reply.session === event.session && reply.isRead) reply.isFollowed = true
        }
        break
      case 'reply':
        this.#received(event, fail)
        break
      case 'reply_withdrawn':
        this.#replies.delete(event.callKey)
        break
      case 'reply_written':
        this.#written(event.callKey, fail)
        break
      case 'reply_read':
        this.#mark(event.callKey, 'isRead')
        break
      case 'reply_confirmed':
        this.#mark(event.callKey, 'isConfirmed')
        break
      case 'entry_kept':
        this.#entries.push(event)
        break
      default:
    }
  }

  /** Every entry that a hub ever made was read, or was named in a reply that was. */
  end(fail: Fail): void {
    if (!this.#isTold) return
    const told = new Set<string>()
    for (const { hubId, carries, names, isFollowed, isRead } of this.#replies.values()) {
      if (isFollowed) for (const deliveryId of carries) told.add(`${hubId} ${deliveryId}`)
      if (isRead) for (const deliveryId of names) told.add(`${hubId} ${deliveryId}`)
    }
    for (const { hubId, deliveryId, kind, agentId } of this.#entries) {
      if (told.has(`${hubId} ${deliveryId}`)) continue
      const about = agentId === undefined ? {} : { agentId }
      fail({
        message: `${kind} ${deliveryId} (${agentId ?? 'the hub'}) of ${hubId} was neither read nor named`,
        ...about,
      })
    }
  }

  #received(reply: ReplyEvent, fail: Fail): void {
    const { hubId, callKey } = reply
    const known = this.#replies.get(callKey)
    if (known !== undefined && known.body !== reply.body && reply.isOffer) {
      fail({ message: `the call ${callKey} got other bytes when it was repeated` })
    }
    if (known === undefined) {
      const fresh = { isWritten: false, isRead: false, isConfirmed: false, isFollowed: false }
      this.#replies.set(callKey, { ...reply, ...fresh })
    }
    for (const deliveryId of [...reply.carries, ...reply.names]) {
      if (!this.#settled.has(`${hubId} ${deliveryId}`)) continue
      fail({ message: `entry ${deliveryId} of ${hubId} came again in ${callKey} after it was read and confirmed` })
    }
    // The hub heard the request that this answers, so it knows that all before it was read.
    for (const other of this.#replies.values()) {
      if (other.session !== reply.session || !other.isConfirmed || !other.isFollowed) continue
      for (const deliveryId of other.carries) this.#settled.add(`${other.hubId} ${deliveryId}`)
    }
  }

  #written(callKey: string, fail: Fail): void {
    const reply = this.#replies.get(callKey)
    if (reply === undefined) return
    reply.isWritten = true
    for (const deliveryId of reply.carries) {
      const key = `${reply.hubId} ${deliveryId}`
      const other = this.#carriedBy.get(key)
      if (other !== undefined && other !== callKey) {
        fail({ message: `entry ${deliveryId} of ${reply.hubId} was in two replies: ${other} and ${callKey}` })
      }
      this.#carriedBy.set(key, callKey)
    }
  }

  #mark(callKey: string, what: 'isRead' | 'isConfirmed'): void {
    const reply = this.#replies.get(callKey)
    if (reply !== undefined) reply[what] = true
  }
}

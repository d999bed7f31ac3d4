import type { HistoryEvent } from '../../core/history.ts'
import type { Check, Fail, Watch } from '../check.ts'
import type { OpenEntryKept } from '../events/records.ts'
import type { AuditEvent } from '../events.ts'

/**
 * What was accepted and is not settled can still reach its reader: it is open, and where a reply carries it, so is the reply
 * (D1). And nothing is open that was settled: it would come again.
 */
export const stillDeliverable: Check = { name: 'still-deliverable', begin: () => new Waiting() }

interface Told {
  readonly seq: number
  readonly agentId?: string
}

interface Inbox {
  isTold: boolean
  readonly open: Map<number, OpenEntryKept>
  readonly offers: Set<string>
  /** Entries by the history: that they came to be, and when they were settled. */
  readonly added: Map<number, Told>
  readonly settled: Map<number, number>
  /** When an entry was last taken out of the reply that carried it: it is free again, or named. */
  readonly moved: Map<number, number>
  /** Entries of each reply. */
  readonly carries: Map<string, readonly number[]>
  recordedUpTo: number | undefined
}

class Waiting implements Watch {
  readonly #hubs = new Map<string, Inbox>()

  see(event: AuditEvent): void {
    switch (event.type) {
      case 'inbox_told':
        this.#of(event.hubId).isTold = true
        break
      case 'entry_open':
        this.#of(event.hubId).open.set(event.deliveryId, event)
        break
      case 'offer_kept':
        this.#of(event.hubId).offers.add(event.offerId)
        break
      case 'decided':
        decided(this.#of(event.hubId), event.event)
        break
      case 'history_read':
        this.#of(event.hubId).recordedUpTo = event.recordedUpTo
        break
      default:
    }
  }

  end(fail: Fail): void {
    for (const [hubId, inbox] of this.#hubs) {
      if (!inbox.isTold || inbox.recordedUpTo === undefined) continue
      checkWaiting(hubId, inbox, fail)
      checkOpen(hubId, inbox, fail)
    }
  }

  #of(hubId: string): Inbox {
    const known = this.#hubs.get(hubId)
    if (known !== undefined) return known
    const fresh: Inbox = {
      isTold: false,
      open: new Map(),
      offers: new Set(),
      added: new Map(),
      settled: new Map(),
      moved: new Map(),
      carries: new Map(),
      recordedUpTo: undefined,
    }
    this.#hubs.set(hubId, fresh)
    return fresh
  }
}

function decided({ added, settled, moved, carries }: Inbox, event: HistoryEvent): void {
  const { seq } = event
  switch (event.type) {
    case 'result':
    case 'entry_added':
      added.set(event.deliveryId, { seq, ...(event.agentId === undefined ? {} : { agentId: event.agentId }) })
      break
    case 'offered':
      carries.set(event.offerId, event.carries)
      break
    case 'withdrawn':
      for (const deliveryId of carries.get(event.offerId) ?? []) moved.set(deliveryId, seq)
      break
    case 'doubted':
      for (const deliveryId of event.deliveryIds) moved.set(deliveryId, seq)
      break
    case 'settled':
      for (const deliveryId of event.deliveryIds) settled.set(deliveryId, seq)
      break
    default:
  }
}

/** The history is read last: what it settled while the rest was read needs to be open no more. */
function checkWaiting(hubId: string, { open, added, settled, recordedUpTo = 0 }: Inbox, fail: Fail): void {
  for (const [deliveryId, { seq, agentId }] of added) {
    if (seq > recordedUpTo || settled.has(deliveryId) || open.has(deliveryId)) continue
    const message = `entry ${deliveryId} of ${hubId} was never settled and waits for nobody: it cannot be delivered any more`
    fail({ seq, message, ...(agentId === undefined ? {} : { agentId }) })
  }
}

function checkOpen(hubId: string, { open, offers, added, settled, moved, recordedUpTo = 0 }: Inbox, fail: Fail): void {
  for (const { deliveryId, state, offerId } of open.values()) {
    const agentId = added.get(deliveryId)?.agentId
    const about = agentId === undefined ? {} : { agentId }
    const settledAt = settled.get(deliveryId)
    if (settledAt !== undefined && settledAt <= recordedUpTo) {
      fail({ ...about, seq: settledAt, message: `entry ${deliveryId} of ${hubId} was settled, and is ${state} again` })
    }
    // While the rest was read the reply may have ended: then the history goes on about the entry.
    const isMoved = settledAt !== undefined || (moved.get(deliveryId) ?? 0) > recordedUpTo
    if (state !== 'given' || offerId === undefined || offers.has(offerId) || isMoved) continue
    fail({
      ...about,
      message: `entry ${deliveryId} of ${hubId} is in the reply ${offerId}, which is not on record any more`,
    })
  }
}

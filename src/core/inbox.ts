import { unreachable } from './errors.ts'
import {
  answeredBy,
  change,
  type EntryKind,
  type Inbox,
  type InboxStep,
  isNamed,
  namedEntries,
  numberOf,
  type Offer,
  type OpenEntry,
  offersOf,
  openEntries,
  stillUnconfirmed,
} from './inbox-state.ts'

/**
 * Confirmed delivery (rules 1 and 2). An entry is in at most one reply. What cannot be known to have been read is
 * *unconfirmed*: every further reply names it until one that did is confirmed, and it can be read again by its number.
 *
 *   undelivered ── offered ──▶ given ── confirmed, and a later request of the session ──▶ settled
 *        ▲                      │ │
 *        └────── withdrawn ─────┘ └─ cancelled, adapter gone, session ended ─▶ unconfirmed ◀── doubted ── named ──▶ settled
 *                                                                                  └── its reply confirmed ──▲
 *
 * A confirmed reply stays the last reply of its session until that session asks for something else: a client that ended
 * right after the bytes left may never have read them.
 */
export type InboxEvent =
  | { readonly type: 'added'; readonly kind: EntryKind; readonly agentId?: string }
  | {
      readonly type: 'offered'
      readonly offerId: string
      readonly answerKey: string
      readonly sessionKey: string
      readonly isOfHolder: boolean
      readonly entries: readonly number[]
      readonly names: readonly number[]
    }
  /** The same reply is given once more, to a caller that never got it. */
  | { readonly type: 'repeated'; readonly offerId: string; readonly sessionKey: string }
  | { readonly type: 'confirmed'; readonly offerId: string }
  | { readonly type: 'withdrawn'; readonly offerId: string }
  /** Cancelled, or no word of it for too long: nobody knows whether it was read. */
  | { readonly type: 'doubted'; readonly offerId: string }
  /** A later request of the session; `offerId` is the reply that it repeats, which it says nothing about. */
  | { readonly type: 'requested'; readonly sessionKey: string; readonly offerId?: string }
  | { readonly type: 'session_ended'; readonly sessionKey: string }
  /** The store was found put back: what waits may have been read, and numbers up to `above` may have been given. */
  | { readonly type: 'restored'; readonly above: number }
  /** A session took the hub: every other one is over. */
  | { readonly type: 'session_began'; readonly sessionKey: string }

/** Advances the inbox by one event. Pure and total: an event about a reply that is done changes nothing. */
export function stepInbox(state: Inbox, event: InboxEvent): InboxStep {
  switch (event.type) {
    case 'added': {
      const deliveryId = state.nextDeliveryId
      const { type: _, ...facts } = event
      const entry: OpenEntry = { deliveryId, ...facts, state: 'undelivered' }
      return change({ ...state, nextDeliveryId: deliveryId + 1 }, { entries: [entry] })
    }
    case 'offered':
      return offer(state, event)
    case 'repeated':
      return repeat(state, event)
    case 'confirmed':
      return onOffer(state, event.offerId, confirm)
    case 'withdrawn':
      return onOffer(state, event.offerId, withdraw)
    case 'doubted':
      return onOffer(state, event.offerId, doubt)
    case 'requested': {
      const followed = offersOf(
        state,
        (candidate) =>
          candidate.sessionKey === event.sessionKey &&
          candidate.state === 'confirmed' &&
          candidate.offerId !== event.offerId,
      )
      return change(state, { settled: followed.flatMap((candidate) => answeredBy(state, candidate)) })
    }
    case 'session_ended':
      return endSessions(state, (sessionKey) => sessionKey === event.sessionKey)
    case 'restored': {
      const waiting = [...state.entries.values()].filter((entry) => entry.state === 'undelivered')
      const nextDeliveryId = Math.max(state.nextDeliveryId, event.above + 1)
      const entries = waiting.map((entry): OpenEntry => ({ ...entry, isMaybeSeen: true }))
      const next: Inbox = { ...state, nextDeliveryId }
      if (entries.length > 0) return change(next, { entries })
      const nothing = { entries: [], settled: [], offers: [], finished: [] }
      return { state: next, effects: [{ type: 'persist', ...nothing, nextDeliveryId }] }
    }
    case 'session_began':
      return endSessions(state, (sessionKey) => sessionKey !== event.sessionKey)
    default:
      return unreachable(event)
  }
}

function offer(state: Inbox, event: Extract<InboxEvent, { type: 'offered' }>): InboxStep {
  const { type: _, ...facts } = event
  const given = event.entries.flatMap((deliveryId): OpenEntry[] => {
    const entry = state.entries.get(deliveryId)
    return entry?.state === 'undelivered' ? [{ ...entry, state: 'given', offerId: event.offerId }] : []
  })
  const names = event.names.filter((deliveryId) => state.entries.get(deliveryId)?.state === 'unconfirmed')
  const entries = given.map((entry) => entry.deliveryId)
  return change(state, {
    entries: given,
    offers: [{ ...facts, entries, names, state: 'offered', isSessionOver: false }],
  })
}

function repeat(state: Inbox, event: Extract<InboxEvent, { type: 'repeated' }>): InboxStep {
  const old = state.offers.get(event.offerId)
  if (old === undefined || old.state === 'confirmed' || isNamed(state, old)) return { state, effects: [] }
  const entries = openEntries(state, old).map((entry): OpenEntry => ({ ...entry, state: 'given' }))
  return change(state, {
    entries,
    offers: [{ ...old, sessionKey: event.sessionKey, state: 'offered', isSessionOver: false }],
  })
}

function confirm(state: Inbox, old: Offer): InboxStep {
  if (old.state !== 'offered') return { state, effects: [] }
  const names = stillUnconfirmed(state, old)
  // Nobody sees the end of a caller that does not hold the hub: its word that it wrote everything has to do.
  if (!old.isOfHolder)
    return change(state, { settled: [...names.map(numberOf), ...openEntries(state, old).map(numberOf)] })
  // The client went away in between: it may never have read the reply.
  if (old.isSessionOver) return change(state, { settled: names.map(numberOf), offers: [{ ...old, state: 'doubted' }] })
  const entries = names.map((entry): OpenEntry => ({ ...entry, state: 'named', namedBy: old.offerId }))
  return change(state, { entries, offers: [{ ...old, state: 'confirmed' }] })
}

/** Only on the adapter's word that it wrote nothing. A spawn has happened all the same, so it is named instead. */
function withdraw(state: Inbox, old: Offer): InboxStep {
  if (old.state === 'confirmed' || isNamed(state, old)) return { state, effects: [] }
  const entries = openEntries(state, old).map((entry): OpenEntry => {
    const { offerId: _, ...rest } = entry
    return entry.kind === 'spawn' ? { ...entry, state: 'unconfirmed' } : { ...rest, state: 'undelivered' }
  })
  return change(state, { entries, offers: [{ ...old, state: 'doubted' }] })
}

function doubt(state: Inbox, old: Offer): InboxStep {
  if (old.state === 'doubted') return { state, effects: [] }
  const carried = openEntries(state, old).map((entry): OpenEntry => ({ ...entry, state: 'unconfirmed' }))
  const named = namedEntries(state, old).map(
    ({ namedBy: _, ...entry }): OpenEntry => ({ ...entry, state: 'unconfirmed' }),
  )
  return change(state, { entries: [...carried, ...named], offers: [{ ...old, state: 'doubted' }] })
}

function endSessions(state: Inbox, isOver: (sessionKey: string) => boolean): InboxStep {
  const over = offersOf(state, (one) => one.isOfHolder && !one.isSessionOver && isOver(one.sessionKey))
  const entries = over.flatMap((one) =>
    openEntries(state, one).map((entry): OpenEntry => ({ ...entry, state: 'unconfirmed' })),
  )
  const settled = over.flatMap((one) => namedEntries(state, one).map(numberOf))
  return change(state, { entries, settled, offers: over.map((one) => ({ ...one, isSessionOver: true })) })
}

function onOffer(state: Inbox, offerId: string, act: (state: Inbox, old: Offer) => InboxStep): InboxStep {
  const old = state.offers.get(offerId)
  return old === undefined ? { state, effects: [] } : act(state, old)
}

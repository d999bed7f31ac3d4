/** What is not settled: entries that still have to be delivered or named, and the replies they are in. */
export interface Inbox {
  /** The number that the next entry takes: one rising sequence over results, events and spawn replies. */
  readonly nextDeliveryId: number
  /** Entries that are not settled, by number, in rising order. */
  readonly entries: ReadonlyMap<number, OpenEntry>
  /** Replies with something in them that is not settled. */
  readonly offers: ReadonlyMap<string, Offer>
}

export interface OpenEntry {
  readonly deliveryId: number
  readonly kind: EntryKind
  readonly agentId?: string
  readonly state: 'undelivered' | 'given' | 'unconfirmed' | 'named'
  /** It was undelivered when this hub's store was found put back: it may have been read since. */
  readonly isMaybeSeen?: boolean
  /** The one reply that carries it. */
  readonly offerId?: string
  /** Set while `named`: the confirmed reply that named it as unconfirmed. */
  readonly namedBy?: string
}

export type EntryKind = 'result' | 'event' | 'spawn'

/** One reply: what it carries and what it names as unconfirmed. Its bytes are kept beside it. */
export interface Offer {
  readonly offerId: string
  /** Where the shell keeps its exact bytes. */
  readonly answerKey: string
  readonly sessionKey: string
  /** Whether its caller holds the hub: only then can the end of its session be seen. */
  readonly isOfHolder: boolean
  readonly entries: readonly number[]
  readonly names: readonly number[]
  readonly state: 'offered' | 'confirmed' | 'doubted'
  readonly isSessionOver: boolean
}

/** What changed, to be written in one batch: a settled entry and a finished offer are deleted. */
export interface InboxEffect {
  readonly type: 'persist'
  readonly entries: readonly OpenEntry[]
  readonly settled: readonly number[]
  readonly offers: readonly Offer[]
  readonly finished: readonly string[]
  readonly nextDeliveryId: number
}

export interface InboxStep {
  readonly state: Inbox
  readonly effects: readonly InboxEffect[]
}

export const emptyInbox: Inbox = { nextDeliveryId: 1, entries: new Map(), offers: new Map() }

/** Entries that a reply may carry, in order: results and events; a spawn's entry travels in its own reply alone. */
export function undelivered(state: Inbox): readonly OpenEntry[] {
  return [...state.entries.values()].filter((entry) => entry.state === 'undelivered' && entry.kind !== 'spawn')
}

/** Entries that every reply names. */
export function unconfirmed(state: Inbox): readonly OpenEntry[] {
  return [...state.entries.values()].filter((entry) => entry.state === 'unconfirmed')
}

export function offersOf(state: Inbox, test: (candidate: Offer) => boolean): readonly Offer[] {
  return [...state.offers.values()].filter(test)
}

/** Entries of a reply that it still answers for. */
export function openEntries(state: Inbox, { offerId, entries }: Offer): readonly OpenEntry[] {
  return entries.flatMap((deliveryId) => {
    const entry = state.entries.get(deliveryId)
    return entry !== undefined && entry.offerId === offerId ? [entry] : []
  })
}

/** Entries that this reply has named, was confirmed, and may still be doubted. */
export function namedEntries(state: Inbox, { offerId, names }: Offer): readonly OpenEntry[] {
  return names.flatMap((name) => {
    const entry = state.entries.get(name)
    return entry !== undefined && entry.namedBy === offerId ? [entry] : []
  })
}

export function stillUnconfirmed(state: Inbox, { names }: Offer): readonly OpenEntry[] {
  return names.flatMap((name) => {
    const entry = state.entries.get(name)
    return entry?.state === 'unconfirmed' ? [entry] : []
  })
}

/** Whether another reply has named what this one carries: then it is never given again. */
export function isNamed(state: Inbox, { entries }: Offer): boolean {
  return offersOf(state, (other) => other.names.some((name) => entries.includes(name))).length > 0
}

/** Everything that is settled once the client is known to have read this reply. */
export function answeredBy(state: Inbox, read: Offer): readonly number[] {
  return [...openEntries(state, read), ...namedEntries(state, read)].map(numberOf)
}

export function numberOf(entry: OpenEntry): number {
  return entry.deliveryId
}

/** Applies changes to the maps, finishes replies that have nothing open left, and says what to write. */
export function change(
  state: Inbox,
  changes: { entries?: readonly OpenEntry[]; settled?: readonly number[]; offers?: readonly Offer[] },
): InboxStep {
  const entries = new Map(state.entries)
  const offers = new Map(state.offers)
  for (const entry of changes.entries ?? []) entries.set(entry.deliveryId, entry)
  const settled = (changes.settled ?? []).filter((deliveryId) => entries.delete(deliveryId))
  for (const changed of changes.offers ?? []) offers.set(changed.offerId, changed)
  const next: Inbox = { ...state, entries, offers }
  const finished = [...offers.values()].filter((candidate) => isFinished(next, candidate)).map(({ offerId }) => offerId)
  for (const offerId of finished) offers.delete(offerId)
  const open = (changes.offers ?? []).filter(({ offerId }) => offers.has(offerId))
  const written = (changes.entries ?? []).filter(({ deliveryId }) => entries.has(deliveryId))
  if (written.length + settled.length + open.length + finished.length === 0) return { state, effects: [] }
  const { nextDeliveryId } = next
  return {
    state: next,
    effects: [{ type: 'persist', entries: written, settled, offers: open, finished, nextDeliveryId }],
  }
}

/** A reply is done when nothing that it carries or names is open. */
function isFinished(state: Inbox, candidate: Offer): boolean {
  if (openEntries(state, candidate).length > 0 || namedEntries(state, candidate).length > 0) return false
  return candidate.state !== 'offered' || stillUnconfirmed(state, candidate).length === 0
}

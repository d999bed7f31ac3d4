import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type InboxEvent, stepInbox } from '../../src/core/inbox.ts'
import {
  emptyInbox,
  type Inbox,
  type Offer,
  type OpenEntry,
  unconfirmed,
  undelivered,
} from '../../src/core/inbox-state.ts'

const result: InboxEvent = { type: 'added', kind: 'result', agentId: 'agt_1' }
const spawned: InboxEvent = { type: 'added', kind: 'spawn', agentId: 'agt_1' }

function offered(offerId: string, more: Partial<Extract<InboxEvent, { type: 'offered' }>> = {}): InboxEvent {
  return {
    type: 'offered',
    offerId,
    answerKey: `answer/${offerId}`,
    sessionKey: 's1',
    isOfHolder: true,
    entries: [1],
    names: [],
    ...more,
  }
}

const confirmed = (offerId: string): InboxEvent => ({ type: 'confirmed', offerId })
const withdrawn = (offerId: string): InboxEvent => ({ type: 'withdrawn', offerId })
const doubted = (offerId: string): InboxEvent => ({ type: 'doubted', offerId })
const requested = (sessionKey: string, offerId?: string): InboxEvent =>
  offerId === undefined ? { type: 'requested', sessionKey } : { type: 'requested', sessionKey, offerId }
const repeated = (offerId: string, sessionKey = 's1'): InboxEvent => ({ type: 'repeated', offerId, sessionKey })

function run(...events: readonly InboxEvent[]): Inbox {
  return events.reduce((state, event) => stepInbox(state, event).state, emptyInbox)
}

/** What is open, by number. */
function states(inbox: Inbox): Record<number, string> {
  return Object.fromEntries([...inbox.entries].map(([deliveryId, entry]) => [deliveryId, entry.state]))
}

describe('the inbox', () => {
  test('numbers entries without a gap, and lists what no reply carried', () => {
    const inbox = run(result, spawned, result)

    expect(inbox.nextDeliveryId).toBe(4)
    expect(undelivered(inbox).map((entry) => entry.deliveryId)).toEqual([1, 3])
  })

  test('gives no number twice once its store was put back, and calls nothing new that may have been read', () => {
    const inbox = run(result, { type: 'restored', above: 1_000 }, result)

    expect([...inbox.entries.keys()]).toEqual([1, 1_001])
    expect(undelivered(inbox).map(({ isMaybeSeen }) => isMaybeSeen)).toEqual([true, undefined])
    expect(run({ type: 'restored', above: 1_000 }, result).nextDeliveryId).toBe(1_002)
  })

  test('settles an entry once its reply was confirmed and its session asked for something else', () => {
    const read = run(result, offered('a'), confirmed('a'))

    expect(states(read)).toEqual({ 1: 'given' })
    expect(states(stepInbox(read, requested('s1')).state)).toEqual({})
    expect(stepInbox(read, requested('s1')).state.offers.size).toBe(0)
  })

  test('takes a repeat of the reply itself, and a request of another session, for no later request', () => {
    const read = run(result, offered('a'), confirmed('a'))

    expect(states(stepInbox(read, requested('s1', 'a')).state)).toEqual({ 1: 'given' })
    expect(states(stepInbox(read, requested('s2')).state)).toEqual({ 1: 'given' })
  })

  test('does not take a request before the confirmation for a sign that the reply was read', () => {
    const inbox = run(result, offered('a'), requested('s1'), confirmed('a'), {
      type: 'session_ended',
      sessionKey: 's1',
    })

    expect(states(inbox)).toEqual({ 1: 'unconfirmed' })
  })

  test('names the last reply of a session that ended without a later request', () => {
    const inbox = run(result, offered('a'), confirmed('a'), { type: 'session_ended', sessionKey: 's1' })

    expect(unconfirmed(inbox).map((entry) => entry.deliveryId)).toEqual([1])
  })

  test('takes every other session for ended when one takes the hub', () => {
    const own = run(result, offered('a'), { type: 'session_began', sessionKey: 's1' })
    const other = run(result, offered('a'), { type: 'session_began', sessionKey: 's2' })

    expect(states(own)).toEqual({ 1: 'given' })
    expect(states(other)).toEqual({ 1: 'unconfirmed' })
  })

  test('gives back what the adapter did not write', () => {
    const inbox = run(result, offered('a'), withdrawn('a'))

    expect(undelivered(inbox).map((entry) => entry.deliveryId)).toEqual([1])
    expect(inbox.offers.size).toBe(0)
  })

  test('gives nothing back once the reply was confirmed', () => {
    expect(states(run(result, offered('a'), confirmed('a'), withdrawn('a')))).toEqual({ 1: 'given' })
  })

  test('names a spawn whose reply was not written, since it happened all the same', () => {
    expect(states(run(spawned, offered('a'), withdrawn('a')))).toEqual({ 1: 'unconfirmed' })
  })

  test('names what was cancelled, confirmed before or not', () => {
    expect(states(run(result, offered('a'), doubted('a')))).toEqual({ 1: 'unconfirmed' })
    expect(states(run(result, offered('a'), confirmed('a'), doubted('a')))).toEqual({ 1: 'unconfirmed' })
    expect(states(run(result, offered('a'), doubted('a'), confirmed('a')))).toEqual({ 1: 'unconfirmed' })
  })

  test('takes no confirmation, however late, for a sign that a cancelled reply was read', () => {
    const inbox = run(result, offered('a'), doubted('a'), confirmed('a'), requested('s1'))

    expect(states(inbox)).toEqual({ 1: 'unconfirmed' })
  })

  test('names an unconfirmed entry until a reply that did is confirmed', () => {
    const lost = run(result, offered('a'), doubted('a'), offered('b', { entries: [], names: [1] }), doubted('b'))
    const naming = stepInbox(lost, offered('c', { entries: [], names: [1] })).state
    const inbox = stepInbox(naming, confirmed('c')).state

    expect(unconfirmed(lost).map((entry) => entry.deliveryId)).toEqual([1])
    expect(unconfirmed(inbox)).toEqual([])
    expect(states(stepInbox(inbox, requested('s1')).state)).toEqual({})
  })

  test('names it again when the reply that named it was thrown away after all', () => {
    const inbox = run(
      result,
      offered('a'),
      doubted('a'),
      offered('b', { entries: [], names: [1] }),
      confirmed('b'),
      doubted('b'),
    )

    expect(unconfirmed(inbox).map((entry) => entry.deliveryId)).toEqual([1])
  })

  test('is done with a name once its reply was confirmed and the session ended', () => {
    const inbox = run(result, offered('a'), doubted('a'), offered('b', { entries: [], names: [1] }), confirmed('b'), {
      type: 'session_ended',
      sessionKey: 's1',
    })

    expect(states(inbox)).toEqual({})
    expect(inbox.offers.size).toBe(0)
  })

  test('gives the same reply once more to a caller that never got it', () => {
    const inbox = run(result, offered('a'), doubted('a'), repeated('a', 's2'))

    expect(states(inbox)).toEqual({ 1: 'given' })
    expect(inbox.offers.get('a')).toMatchObject({ state: 'offered', sessionKey: 's2' })
  })

  test('never gives again what another reply has named', () => {
    const named = run(result, offered('a'), doubted('a'), offered('b', { entries: [], names: [1] }))

    expect(states(stepInbox(named, repeated('a')).state)).toEqual({ 1: 'unconfirmed' })
    expect(states(stepInbox(named, withdrawn('a')).state)).toEqual({ 1: 'unconfirmed' })
  })

  test('takes the word of a caller that does not hold the hub', () => {
    const inbox = run(spawned, offered('a', { isOfHolder: false }), confirmed('a'))

    expect(states(inbox)).toEqual({})
  })

  test('is done with what a reply named that is confirmed after its session was over', () => {
    const left = run(result, offered('a'), { type: 'session_ended', sessionKey: 's1' })
    const named = [offered('b', { sessionKey: 's2', entries: [], names: [1] }), confirmed('b')]
    const over: InboxEvent = { type: 'session_ended', sessionKey: 's2' }
    const end = [...named.slice(0, 1), over, ...named.slice(1)].reduce(
      (inbox, one) => stepInbox(inbox, one).state,
      left,
    )

    expect(states(left)).toEqual({ 1: 'unconfirmed' })
    expect(states(end)).toEqual({})
    expect(end.offers.size).toBe(0)
  })

  test('keeps naming what a session left that was over before its confirmation came', () => {
    const inbox = run(result, offered('a'), { type: 'session_ended', sessionKey: 's1' }, confirmed('a'))

    expect(states(inbox)).toEqual({ 1: 'unconfirmed' })
  })

  test('marks only what is free: an entry is in one reply', () => {
    const inbox = run(result, result, offered('a'), offered('b', { entries: [1, 2] }))

    expect(inbox.offers.get('b')?.entries).toEqual([2])
    expect(inbox.entries.get(1)?.offerId).toBe('a')
  })

  test.each([confirmed('x'), withdrawn('x'), doubted('x'), repeated('x')])(
    'ignores a reply it does not know: $type',
    (event) => {
      const inbox = run(result)

      expect(stepInbox(inbox, event)).toEqual({ state: inbox, effects: [] })
    },
  )
})

/** Everything that may happen, with the numbers that make sense at that moment chosen by the generator's seeds. */
function anyStep() {
  const session = fc.constantFrom('s1', 's2')
  const pick = fc.nat({ max: 40 })
  return fc.oneof(
    fc.record({ type: fc.constantFrom('result', 'spawn'), session, pick }),
    fc.record({ type: fc.constant('wait'), session, pick }),
    fc.record({ type: fc.constantFrom('confirmed', 'withdrawn', 'doubted', 'repeated'), session, pick }),
    fc.record({ type: fc.constantFrom('requested', 'session_ended', 'session_began'), session, pick }),
  )
}

type Step = { type: string; session: string; pick: number }

/** The events of one step: a spawn is added and offered at once, a wait takes everything there is. */
function eventsOf(inbox: Inbox, { type, session, pick }: Step, offerIds: readonly string[]): readonly InboxEvent[] {
  const next = `o${offerIds.length}`
  const offerId = offerIds[pick % Math.max(1, offerIds.length)] ?? 'none'
  switch (type) {
    case 'result':
      return [result]
    case 'spawn':
      return [
        spawned,
        offered(next, { sessionKey: session, entries: [inbox.nextDeliveryId], isOfHolder: pick % 4 > 0 }),
      ]
    case 'wait': {
      const entries = undelivered(inbox).map((entry) => entry.deliveryId)
      return [
        offered(next, { sessionKey: session, entries, names: unconfirmed(inbox).map((entry) => entry.deliveryId) }),
      ]
    }
    case 'repeated':
      return [repeated(offerId, session)]
    case 'confirmed':
    case 'withdrawn':
    case 'doubted':
      return [{ type, offerId }]
    default:
      return [{ type, sessionKey: session } as InboxEvent]
  }
}

describe('the inbox, whatever happens', () => {
  // Goals: nothing is lost, and nothing is in two replies.
  test('keeps every entry until a reply with it, or naming it, was confirmed; and gives it once', () => {
    fc.assert(
      fc.property(fc.array(anyStep(), { maxLength: 60 }), (steps) => {
        let inbox = emptyInbox
        const offerIds: string[] = []
        const confirmedOffers = new Set<string>()
        const carried = new Map<number, Set<string>>()
        const namedIn = new Map<number, Set<string>>()
        for (const step of steps) {
          for (const event of eventsOf(inbox, step, offerIds)) {
            const before = inbox
            inbox = stepInbox(inbox, event).state
            if (event.type === 'offered') {
              offerIds.push(event.offerId)
              for (const id of event.entries) note(carried, id, event.offerId)
              for (const id of event.names) note(namedIn, id, event.offerId)
            }
            if (event.type === 'confirmed') confirmedOffers.add(event.offerId)
            if (event.type === 'withdrawn') takeBack(before, inbox, event.offerId, carried)
            for (const id of before.entries.keys()) {
              if (inbox.entries.has(id)) continue
              const replies = [...(carried.get(id) ?? []), ...(namedIn.get(id) ?? [])]
              expect(replies.some((offerId) => confirmedOffers.has(offerId))).toBe(true)
            }
          }
        }
        for (const replies of carried.values()) expect(replies.size).toBeLessThanOrEqual(1)
      }),
      { numRuns: 300 },
    )
  })

  test('leaves nothing in doubt silent once all sessions are over', () => {
    fc.assert(
      fc.property(fc.array(anyStep(), { maxLength: 60 }), (steps) => {
        const inbox = play(steps)
        const over = stepInbox(inbox, { type: 'session_began', sessionKey: 'new' }).state
        for (const entry of over.entries.values()) {
          const offer = entry.offerId === undefined ? undefined : over.offers.get(entry.offerId)
          const isOfOthers = offer?.isOfHolder === false && offer.state === 'offered'
          expect(isOfOthers || entry.state === 'undelivered' || entry.state === 'unconfirmed').toBe(true)
        }
      }),
    )
  })

  test('can be rebuilt from what it said to persist', () => {
    fc.assert(
      fc.property(fc.array(anyStep(), { maxLength: 60 }), (steps) => {
        const entries = new Map<number, OpenEntry>()
        const offers = new Map<string, Offer>()
        const inbox = play(steps, (event, before) => {
          for (const effect of stepInbox(before, event).effects) {
            for (const entry of effect.entries) entries.set(entry.deliveryId, entry)
            for (const deliveryId of effect.settled) entries.delete(deliveryId)
            for (const offer of effect.offers) offers.set(offer.offerId, offer)
            for (const offerId of effect.finished) offers.delete(offerId)
          }
        })
        expect(new Map([...entries].sort(([a], [b]) => a - b))).toEqual(inbox.entries)
        expect(new Map([...offers].sort())).toEqual(new Map([...inbox.offers].sort()))
      }),
    )
  })

  test('finishes every reply that has nothing open in it', () => {
    fc.assert(
      fc.property(fc.array(anyStep(), { maxLength: 60 }), (steps) => {
        const inbox = play(steps)
        for (const offer of inbox.offers.values()) {
          const isOpen = [...offer.entries, ...offer.names].some((deliveryId) => inbox.entries.has(deliveryId))
          expect(isOpen).toBe(true)
        }
      }),
    )
  })
})

function play(steps: readonly Step[], see: (event: InboxEvent, before: Inbox) => void = () => undefined): Inbox {
  let inbox = emptyInbox
  const offerIds: string[] = []
  for (const step of steps) {
    for (const event of eventsOf(inbox, step, offerIds)) {
      see(event, inbox)
      inbox = stepInbox(inbox, event).state
      if (event.type === 'offered') offerIds.push(event.offerId)
    }
  }
  return inbox
}

function note(map: Map<number, Set<string>>, id: number, offerId: string): void {
  map.set(id, (map.get(id) ?? new Set()).add(offerId))
}

/** What a withdrawal set free was in no reply: the adapter said that it wrote nothing. */
function takeBack(before: Inbox, after: Inbox, offerId: string, carried: Map<number, Set<string>>): void {
  for (const [id, entry] of before.entries) {
    if (entry.offerId === offerId && after.entries.get(id)?.state === 'undelivered') carried.get(id)?.delete(offerId)
  }
}

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Contact,
  type ContactEvent,
  doubtedAfterMs,
  isSilentFor,
  mayPlace,
  noContact,
  silentMinMs,
  stepContact,
} from '../../src/core/lease.ts'

function run(from: Contact, ...events: readonly ContactEvent[]): Contact {
  return events.reduce((state, event) => stepContact(state, event).state, from)
}

/** Ticks once a second, `seconds` times. */
function ticks(fromMs: number, seconds: number, more: { isLinkProven?: boolean; owedSinceMs?: number } = {}) {
  return Array.from({ length: seconds }, (_, index): ContactEvent => {
    const { isLinkProven = true, owedSinceMs } = more
    const atMs = fromMs + (index + 1) * 1_000
    return { type: 'checked', atMs, isLinkProven, ...(owedSinceMs === undefined ? {} : { owedSinceMs }) }
  })
}

const attached = run(noContact(0, { isOwed: false }), { type: 'attached', atMs: 0 })

describe('the contact with a node', () => {
  test('is offline before the first word, unverifiable where work may be running', () => {
    expect(noContact(0, { isOwed: false }).state).toBe('offline')
    expect(noContact(0, { isOwed: true }).state).toBe('unverifiable')
  })

  test('is online while the link is there and no answer is owed', () => {
    const contact = run(attached, ...ticks(0, 30))

    expect(contact).toMatchObject({ state: 'online', sinceMs: 0 })
    expect(mayPlace(contact)).toBe(true)
  })

  test('becomes unverifiable 5 s after an answer was owed, and is online again with the next word', () => {
    const before = run(attached, ...ticks(0, 4, { owedSinceMs: 0 }))
    const after = run(attached, ...ticks(0, 5, { owedSinceMs: 0 }))
    const again = run(after, { type: 'heard', atMs: 5_500 })

    expect(before.state).toBe('online')
    expect(after).toMatchObject({ state: 'unverifiable', sinceMs: 5_000 })
    expect(mayPlace(after)).toBe(false)
    expect(again).toMatchObject({ state: 'online', sinceMs: 5_500 })
  })

  test('is placed on no more from the moment the link is down', () => {
    const contact = run(attached, { type: 'detached', atMs: 1_000 })

    expect(contact.state).toBe('online')
    expect(mayPlace(contact)).toBe(false)
  })

  test('counts silence only without a link', () => {
    const stuck = run(attached, ...ticks(0, 200, { owedSinceMs: 0 }))

    expect(isSilentFor(stuck, 1_000)).toBe(false)
  })

  test('is silent for as long as the hub could have heard', () => {
    const gone = run(attached, { type: 'detached', atMs: 0 })
    const proven = run(gone, ...ticks(0, 150))
    const half = run(run(gone, ...ticks(0, 75)), ...ticks(75_000, 75, { isLinkProven: false }))

    expect(isSilentFor(proven, 150_000)).toBe(true)
    expect(isSilentFor(proven, 150_001)).toBe(false)
    expect(proven.state).toBe('offline')
    expect(half).toMatchObject({ silentMs: 75_000, state: 'unverifiable' })
  })

  test('is not lost before its node could tell that it was given up, however short its bound is', () => {
    const gone = run(attached, { type: 'detached', atMs: 0 })

    expect(isSilentFor(run(gone, ...ticks(0, 5)), 1)).toBe(false)
    expect(isSilentFor(run(gone, ...ticks(0, 6)), 1)).toBe(true)
    expect(silentMinMs).toBeGreaterThan(doubtedAfterMs)
  })

  test('starts every span again when the process was not running', () => {
    const gone = run(attached, { type: 'detached', atMs: 0 }, ...ticks(0, 100))
    const woken = run(gone, { type: 'checked', atMs: 5_000_000, isLinkProven: true })

    expect(woken.silentMs).toBe(0)
    expect(isSilentFor(woken, 1_000)).toBe(false)
    expect(run(woken, ...ticks(5_000_000, 2)).silentMs).toBe(2_000)
  })

  test('grants a link that was silent while the process slept its time again', () => {
    const woken = run(attached, { type: 'checked', atMs: 60_000, owedSinceMs: 0, isLinkProven: true })

    expect(woken.state).toBe('online')
  })

  test('forgets its silence with a new link', () => {
    const back = run(attached, { type: 'detached', atMs: 0 }, ...ticks(0, 100), { type: 'attached', atMs: 100_500 })

    expect(back).toMatchObject({ state: 'online', silentMs: 0, isAttached: true })
  })

  test('hears nothing without a link, and goes down once', () => {
    const gone = run(attached, { type: 'detached', atMs: 10 })

    expect(stepContact(gone, { type: 'heard', atMs: 20 })).toEqual({ state: gone, effects: [] })
    expect(stepContact(gone, { type: 'detached', atMs: 20 })).toEqual({ state: gone, effects: [] })
  })

  // Goal: silence that the hub could not have broken never makes an agent lost.
  test('is never silent for longer than the time without a link', () => {
    const event = fc.oneof(
      fc.constant<ContactEvent['type']>('attached'),
      fc.constant<ContactEvent['type']>('detached'),
      fc.constant<ContactEvent['type']>('checked'),
    )

    fc.assert(
      fc.property(fc.array(fc.tuple(event, fc.integer({ min: 0, max: 9_000 })), { maxLength: 60 }), (steps) => {
        let contact = noContact(0, { isOwed: true })
        let atMs = 0
        let withoutMs = 0
        for (const [type, waitMs] of steps) {
          atMs += waitMs
          if (!contact.isAttached) withoutMs += waitMs
          contact = stepContact(
            contact,
            type === 'checked' ? { type, atMs, isLinkProven: true } : ({ type, atMs } as ContactEvent),
          ).state
          if (contact.isAttached) withoutMs = 0
          expect(contact.silentMs).toBeLessThanOrEqual(withoutMs)
          if (contact.isAttached) expect(isSilentFor(contact, 1)).toBe(false)
        }
      }),
    )
  })
})

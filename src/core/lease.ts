import { unreachable } from './errors.ts'
import { limits } from './limits.ts'
import { notRunningMs } from './wakefulness.ts'

/**
 * What a hub knows of its contact with one node, and for how long it has been without. All instants are awake, monotonic
 * milliseconds: a machine that slept has waited for nothing (rule 29).
 *
 * Silence alone proves nothing for a while: from 5 s after an answer was owed the node is `unverifiable`, which permits
 * waiting, holding messages and recording a stop, and forbids everything that a living agent would contradict (rule 8).
 */
export interface Contact {
  readonly state: ContactState
  /** When the present state began. */
  readonly sinceMs: number
  readonly isAttached: boolean
  /** Since when an answer is owed: a heartbeat, a probe, or any sign at all while no link is there. */
  readonly owedSinceMs?: number
  /** Silence so far that counts towards a loss. */
  readonly silentMs: number
  readonly checkedAtMs: number
}

/**
 * Bytes that come after so long a silence may have lain anywhere, while their sender gave their link up: a node takes no
 * command from them before the hub has answered over that link. In milliseconds, by any clock.
 */
export const doubtedAfterMs = 5_000

/** A shorter silence is no loss, whatever `lost_after` says: the node could not tell that it was given up. In milliseconds. */
export const silentMinMs = 6_000

export type ContactState = 'online' | 'unverifiable' | 'offline'

export type ContactEvent =
  | { readonly type: 'attached'; readonly atMs: number }
  | { readonly type: 'heard'; readonly atMs: number }
  | { readonly type: 'detached'; readonly atMs: number }
  /** The hub itself was not running: whatever was silent may have been speaking (rule 29). */
  | { readonly type: 'was_not_running'; readonly atMs: number }
  /** The tick. `isLinkProven`: the hub has proof that its own side of the network works (rule 8). */
  | {
      readonly type: 'checked'
      readonly atMs: number
      readonly owedSinceMs?: number
      readonly isLinkProven: boolean
    }

export interface ContactStep {
  readonly state: Contact
  readonly effects: readonly ContactEffect[]
}

export type ContactEffect = { readonly type: 'state_changed'; readonly state: ContactState }

/** Before the first contact. A node that work is running on is owed from the start: its silence counts from here on. */
export function noContact(atMs: number, options: { readonly isOwed: boolean }): Contact {
  return {
    state: options.isOwed ? 'unverifiable' : 'offline',
    sinceMs: atMs,
    isAttached: false,
    owedSinceMs: atMs,
    silentMs: 0,
    checkedAtMs: atMs,
  }
}

/** Advances the contact by one event. Pure and total. */
export function stepContact(state: Contact, event: ContactEvent): ContactStep {
  switch (event.type) {
    case 'attached':
    case 'heard': {
      if (event.type === 'heard' && !state.isAttached) return { state, effects: [] }
      return become('online', { ...clear(state), isAttached: true, silentMs: 0, checkedAtMs: event.atMs }, event.atMs)
    }
    case 'detached': {
      if (!state.isAttached) return { state, effects: [] }
      const owedSinceMs = Math.min(state.owedSinceMs ?? event.atMs, event.atMs)
      return { state: { ...state, isAttached: false, owedSinceMs, silentMs: 0, checkedAtMs: event.atMs }, effects: [] }
    }
    case 'was_not_running': {
      // Nothing is known of the link until it has answered, and every span starts again.
      const fresh: Contact = { ...state, owedSinceMs: event.atMs, silentMs: 0, checkedAtMs: event.atMs }
      return state.state === 'online' ? become('unverifiable', fresh, event.atMs) : { state: fresh, effects: [] }
    }
    case 'checked':
      return check(state, event)
    default:
      return unreachable(event)
  }
}

function check(state: Contact, event: Extract<ContactEvent, { type: 'checked' }>): ContactStep {
  const elapsedMs = Math.max(0, event.atMs - state.checkedAtMs)
  if (elapsedMs > notRunningMs + 1_000) return restart(state, event.atMs)
  const owed = state.isAttached ? event.owedSinceMs : state.owedSinceMs
  const silentMs = state.isAttached ? 0 : state.silentMs + (event.isLinkProven ? elapsedMs : 0)
  const base = { ...clear(state), silentMs, checkedAtMs: event.atMs }
  const next: Contact = owed === undefined ? base : { ...base, owedSinceMs: owed }
  if (owed === undefined) return become('online', next, event.atMs)
  if (event.atMs - owed < limits.unverifiableAfterMs) return { state: next, effects: [] }
  const isOffline = !state.isAttached && (state.state === 'offline' || silentMs >= limits.lostAfterMs)
  return become(isOffline ? 'offline' : 'unverifiable', next, event.atMs)
}

/** The process was not running: whatever was silent may have been speaking. Every span starts again. */
function restart(state: Contact, atMs: number): ContactStep {
  const next: Contact = { ...clear(state), silentMs: 0, checkedAtMs: atMs }
  return { state: state.isAttached ? next : { ...next, owedSinceMs: atMs }, effects: [] }
}

function become(to: ContactState, next: Contact, atMs: number): ContactStep {
  if (next.state === to) return { state: next, effects: [] }
  return { state: { ...next, state: to, sinceMs: atMs }, effects: [{ type: 'state_changed', state: to }] }
}

function clear(state: Contact): Contact {
  const { owedSinceMs: _, ...rest } = state
  return rest
}

/** New work is placed only on a node that answers. */
export function mayPlace(contact: Contact): boolean {
  return contact.state === 'online' && contact.isAttached
}

/** Whether an attempt there may be declared lost for silence alone (rule 8). Never while a link is there. */
export function isSilentFor(contact: Contact, lostAfterMs: number): boolean {
  return !contact.isAttached && contact.silentMs >= Math.max(lostAfterMs, silentMinMs)
}

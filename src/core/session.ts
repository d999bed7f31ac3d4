import { unreachable } from './errors.ts'
import {
  isCaughtUp,
  type LaneEffect,
  type LaneEvent,
  type LaneFault,
  type LaneLimits,
  type LaneLink,
  type LaneState,
  type LaneStep,
  partOverheadBytes,
} from './session-lane.ts'

/** Advances one lane by one event. Pure and total; `persist` comes first. @see docs/reference/wire.md */
export function stepLane(state: LaneState, event: LaneEvent, limits: LaneLimits): LaneStep {
  switch (event.type) {
    case 'send': {
      const next = { ...state, sent: state.sent + 1, sentHash: event.hash }
      return { state: next, effects: [persist(next), { type: 'keep', no: next.sent }] }
    }
    case 'sent_durable':
      if (event.no <= state.sentDurable || event.no > state.sent) return same(state)
      return { state: { ...state, sentDurable: event.no }, effects: [{ type: 'pump' }] }
    case 'link_up':
      return linkUp(state, event, limits)
    case 'link_down':
      return { state: { ...state, link: undefined }, effects: [] }
    case 'part_in':
      return state.link === undefined ? same(state) : partIn(state, state.link, event, limits)
    case 'part_out':
      return state.link === undefined ? same(state) : partOut(state, state.link, event)
    case 'applied': {
      if (event.no <= state.received) return same(state)
      const next = {
        ...state,
        received: event.no,
        receivedHash: event.hash,
        link: state.link && startApplying(state.link),
      }
      return { state: next, effects: [persist(next)] }
    }
    case 'applied_durable':
      return appliedDurable(state, event, limits)
    case 'ack':
      return state.link === undefined ? same(state) : ack(state, state.link, event)
    case 'credit': {
      if (state.link === undefined) return same(state)
      const creditBytes = state.link.creditBytes + event.bytes
      if (creditBytes > limits.creditWindowBytes) return fault(state, 'credit_exceeded')
      return { state: { ...state, link: { ...state.link, creditBytes } }, effects: [{ type: 'pump' }] }
    }
    case 'peer_caught_up': {
      if (state.link === undefined || state.link.wasTold || event.no < state.link.ownHead) return same(state)
      return caughtUp({ ...state, link: { ...state.link, wasTold: true } }, [])
    }
    default:
      return unreachable(event)
  }
}

function linkUp(state: LaneState, event: LaneEvent & { type: 'link_up' }, limits: LaneLimits): LaneStep {
  const found = contradiction(state, event)
  if (found !== undefined) return fault(state, found)
  const acknowledged = event.peer.received > state.acked
  const link: LaneLink = {
    next: { no: event.peer.received + 1, index: 0, offset: 0 },
    creditBytes: limits.creditWindowBytes,
    expected: { no: event.own.received + 1, index: 0, bytes: 0 },
    delivered: state.received,
    windowBytes: limits.creditWindowBytes,
    heldBytes: 0,
    applyingBytes: 0,
    owedBytes: 0,
    peerHead: event.peer.sent,
    ownHead: event.own.sent,
    hasTold: false,
    wasTold: false,
  }
  const next: LaneState = {
    ...state,
    peer: { storeId: event.peer.storeId, incarnation: event.peer.incarnation },
    acked: event.peer.received,
    ackedHash: acknowledged ? event.peer.hash : state.ackedHash,
    link,
  }
  const effects: LaneEffect[] = [persist(next)]
  if (acknowledged) effects.push({ type: 'forget', from: state.acked + 1, to: event.peer.received })
  effects.push({ type: 'pump' })
  return tellCaughtUp(next, link, effects)
}

/** Why the two sides' numbers cannot both be true, or undefined. */
function contradiction(state: LaneState, event: LaneEvent & { type: 'link_up' }): LaneFault | undefined {
  const { peer } = event
  const known = state.peer
  if (known !== undefined && (known.storeId !== peer.storeId || known.incarnation !== peer.incarnation)) {
    // A peer that never got or gave anything may start over with an empty store.
    if (state.acked > 0 || state.received > 0 || peer.received > 0) return 'other_store'
  }
  if (peer.received > state.sentDurable) return 'received_above_sent'
  if (peer.received < state.acked) return 'received_below_acked'
  if (peer.sent < state.received) return 'sent_below_received'
  if (peer.hash !== event.hashAtReceived) return 'other_hash'
  return undefined
}

function partIn(
  state: LaneState,
  link: LaneLink,
  event: LaneEvent & { type: 'part_in' },
  limits: LaneLimits,
): LaneStep {
  const cost = event.bytes + partOverheadBytes
  const expected = expectedFor(state, link, event)
  if (event.no < expected.no || (event.no === expected.no && event.index < expected.index)) {
    // Sent once and here twice, so it takes no part in the account of credit.
    return { state, effects: [{ type: 'duplicate', no: event.no }] }
  }
  if (cost > link.windowBytes) return fault(state, 'credit_exceeded')
  if (event.bytes === 0) return fault(state, 'empty_part')
  const windowBytes = link.windowBytes - cost
  if (event.no > expected.no || event.index > expected.index) return fault(state, 'gap')
  const bytes = expected.bytes + event.bytes
  if (bytes > limits.messageMaxBytes) return fault(state, 'message_too_large')
  // Applied already over an earlier link, but not yet on disk when this one opened.
  const isKnown = event.no <= link.delivered
  if (!event.isLast) {
    const open = { no: event.no, index: event.index + 1, bytes }
    const taken = { ...link, windowBytes, expected: open, owedBytes: link.owedBytes + cost }
    const effect: LaneEffect = isKnown ? { type: 'duplicate', no: event.no } : { type: 'assemble', index: event.index }
    return grant({ ...state, link: taken }, taken, limits, [effect])
  }
  const expectedNext = { no: event.no + 1, index: 0, bytes: 0 }
  if (isKnown) {
    const seen = { ...link, windowBytes, expected: expectedNext, owedBytes: link.owedBytes + cost }
    return grant({ ...state, link: seen }, seen, limits, [{ type: 'duplicate', no: event.no }])
  }
  const complete = {
    ...link,
    windowBytes,
    expected: expectedNext,
    delivered: event.no,
    heldBytes: link.heldBytes + cost,
  }
  const effects: LaneEffect[] = [
    { type: 'assemble', index: event.index },
    { type: 'deliver', no: event.no },
  ]
  return { state: { ...state, link: complete }, effects }
}

/**
 * Where this part should fit. A sender goes past what was acknowledged to it meanwhile: messages that were applied over
 * an earlier link, but were not yet on disk when this one opened.
 */
function expectedFor(state: LaneState, link: LaneLink, event: LaneEvent & { type: 'part_in' }): LaneLink['expected'] {
  const goesPast = event.no > link.expected.no && event.no <= state.receivedDurable + 1 && event.index === 0
  return goesPast ? { no: event.no, index: 0, bytes: 0 } : link.expected
}

function partOut(state: LaneState, link: LaneLink, event: LaneEvent & { type: 'part_out' }): LaneStep {
  const { next } = link
  const after = event.isLast
    ? { no: next.no + 1, index: 0, offset: 0 }
    : { no: next.no, index: next.index + 1, offset: next.offset + event.bytes }
  const creditBytes = link.creditBytes - event.bytes - partOverheadBytes
  return { state: { ...state, link: { ...link, next: after, creditBytes } }, effects: [] }
}

function ack(state: LaneState, link: LaneLink, event: LaneEvent & { type: 'ack' }): LaneStep {
  if (event.received > state.sentDurable) return fault(state, 'ack_of_unsent')
  if (event.received <= state.acked) return same(state)
  const next = event.received < link.next.no ? link.next : { no: event.received + 1, index: 0, offset: 0 }
  const acked = { acked: event.received, ackedHash: event.hashAtReceived ?? state.ackedHash }
  return {
    state: { ...state, ...acked, link: { ...link, next } },
    effects: [{ type: 'forget', from: state.acked + 1, to: event.received }, { type: 'pump' }],
  }
}

function startApplying(link: LaneLink): LaneLink {
  return { ...link, heldBytes: 0, applyingBytes: link.applyingBytes + link.heldBytes }
}

function appliedDurable(
  state: LaneState,
  event: LaneEvent & { type: 'applied_durable' },
  limits: LaneLimits,
): LaneStep {
  if (event.no <= state.receivedDurable || event.no > state.received) return same(state)
  const next = { ...state, receivedDurable: event.no, receivedDurableHash: event.hash }
  if (state.link === undefined) return { state: next, effects: [] }
  const { applyingBytes, owedBytes } = state.link
  const link = { ...state.link, applyingBytes: 0, owedBytes: owedBytes + applyingBytes }
  const granted = grant({ ...next, link }, link, limits, [{ type: 'send_ack', received: event.no }])
  return tellCaughtUp(granted.state, granted.state.link ?? link, granted.effects)
}

/** Gives credit back in quarters of the window, so that neither every part costs an answer nor the sender runs dry. */
function grant(state: LaneState, link: LaneLink, limits: LaneLimits, effects: readonly LaneEffect[]): LaneStep {
  if (link.owedBytes * 4 < limits.creditWindowBytes) return { state, effects }
  const granted = { ...link, owedBytes: 0, windowBytes: link.windowBytes + link.owedBytes }
  return { state: { ...state, link: granted }, effects: [...effects, { type: 'send_credit', bytes: link.owedBytes }] }
}

function tellCaughtUp(state: LaneState, link: LaneLink, effects: readonly LaneEffect[]): LaneStep {
  if (link.hasTold || state.receivedDurable < link.peerHead) return { state, effects }
  const told: LaneEffect = { type: 'send_caught_up', no: link.peerHead }
  return caughtUp({ ...state, link: { ...link, hasTold: true } }, [...effects, told])
}

function caughtUp(state: LaneState, effects: readonly LaneEffect[]): LaneStep {
  return { state, effects: isCaughtUp(state) ? [...effects, { type: 'caught_up' }] : effects }
}

function persist(state: LaneState): LaneEffect {
  const { peer, sent, sentHash, acked, ackedHash, received, receivedHash } = state
  return { type: 'persist', record: { peer, sent, sentHash, acked, ackedHash, received, receivedHash } }
}

function fault(state: LaneState, found: LaneFault): LaneStep {
  return { state, effects: [{ type: 'fault', fault: found }] }
}

function same(state: LaneState): LaneStep {
  return { state, effects: [] }
}

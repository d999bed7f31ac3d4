import { limits } from './limits.ts'
import type { AttemptRef, NodeMessage } from './messages.ts'
import type { NodeCard } from './model.ts'
import type { ClaimMessage, Decline, NodeAttempt, NodeAttemptEffect, NodeAttemptEvent } from './node-attempt-state.ts'
import { declineKeptMs, type NodeAttemptStep, nothing, persist } from './node-attempt-step.ts'
import { hasFreeSlot, heldBy, isAgentBusy, type Slots } from './slots.ts'

type ClaimEvent = Extract<NodeAttemptEvent, { type: 'claim' }>

/** A claim: taken in once, answered as often as it comes. */
export function onClaim(state: NodeAttempt | undefined, event: ClaimEvent): NodeAttemptStep {
  const { message, hubId } = event
  if (state !== undefined && state.hubId !== hubId) return nothing(state)
  const fence = Math.max(event.fence, state?.fence ?? 0)
  if (message.ref.epoch < fence) return nothing(state)
  // A declined attempt never ran, so the hub may ask again, under another command.
  const isNew = state === undefined || (state.phase === 'declined' && message.commandId !== state.claimCommandId)
  if (!isNew) return repeated(state, message)
  const claimed: NodeAttempt = {
    phase: 'claimed',
    hubId,
    ref: message.ref,
    fence: message.ref.epoch,
    claimCommandId: message.commandId,
    turn: message.turn,
    claim: message,
    sessionId: message.resumeSessionId ?? event.newSessionId,
    announcedSessionId: undefined,
    place: undefined,
    steers: [],
    stop: undefined,
    inputs: [],
    journalOffset: 0,
    claimedAtMs: event.atMs,
    startedAtMs: undefined,
    decline: undefined,
    end: undefined,
    receipt: undefined,
    keptUntilMs: undefined,
  }
  if (event.decline === undefined) return persist(claimed, [{ type: 'take_slot' }, { type: 'prepare' }])
  const declined: NodeAttempt = {
    ...claimed,
    phase: 'declined',
    claim: undefined,
    decline: event.decline,
    keptUntilMs: event.atMs + declineKeptMs,
  }
  return persist(declined, declineAnswer(declined))
}

export function declineAnswer(state: NodeAttempt): readonly NodeAttemptEffect[] {
  const { ref, decline } = state
  return decline === undefined ? [] : [{ type: 'send', message: { type: 'declined', ref, ...decline } }]
}

function repeated(state: NodeAttempt, message: ClaimMessage): NodeAttemptStep {
  if (message.ref.epoch === state.fence) return { state, effects: repeatedAnswer(state) }
  return persist({ ...state, fence: message.ref.epoch }, repeatedAnswer(state))
}

/** The first answer again, and what the hub may have lost since. A hub counts each of these once. */
function repeatedAnswer(state: NodeAttempt): readonly NodeAttemptEffect[] {
  const claimed: NodeAttemptEffect = { type: 'send', message: { type: 'claimed', ref: state.ref } }
  switch (state.phase) {
    case 'claimed':
      return [] // The answer is on its way.
    case 'declined':
      return declineAnswer(state)
    case 'launching':
    case 'running':
      return [claimed]
    case 'ended':
      return [claimed, { type: 'send_kept_result' }]
    case 'collected':
    case 'forgotten': {
      const kept: readonly NodeAttemptEffect[] =
        state.phase === 'collected' ? [claimed, { type: 'send_kept_result' }] : []
      if (state.receipt === undefined) return kept
      return [...kept, { type: 'send', message: { type: 'receipt', ref: state.ref, receipt: state.receipt } }]
    }
  }
}

/** Everything that the hub may have lost of an attempt, in the order in which it was first said. A hub counts each once. */
export function recalled(state: NodeAttempt): readonly NodeAttemptEffect[] {
  const send = (message: NodeMessage): NodeAttemptEffect => ({ type: 'send', message })
  const { ref } = state
  switch (state.phase) {
    case 'claimed':
      return [] // The answer is on its way.
    case 'declined':
      return declineAnswer(state)
    default: {
      const fates = state.steers.map(({ messageId, state: fate }) =>
        send({ type: 'message', ref, messageId, state: fate }),
      )
      const isOver = state.phase !== 'launching' && state.phase !== 'running'
      return [
        send({ type: 'claimed', ref }),
        ...(state.announcedSessionId === undefined
          ? []
          : [send({ type: 'started', ref, sessionId: state.announcedSessionId })]),
        ...fates,
        ...(isOver ? [{ type: 'send_kept_result' } as const] : []),
        ...(state.receipt === undefined ? [] : [send({ type: 'receipt', ref, receipt: state.receipt })]),
      ]
    }
  }
}

/** What a node has to know to take a turn in or not. */
export interface ClaimPolicy {
  readonly card: NodeCard
  readonly slots: Slots
  readonly isDraining: boolean
  /** The session of this agent here, where the node knows the agent. */
  readonly knownSessionId: string | undefined
  readonly hubId: string
  /** Slots that this hub may hold at once; undefined: all of them. */
  readonly maxAgentsPerHub: number | undefined
  /** Free slots that this hub may take now: others may be before it (rule 28). */
  readonly freeForHub: number
  /** What this hub has not acknowledged, with the room that its open turns have reserved. */
  readonly outboxBytes: number
}

/** Room that a turn reserves for its result and its log before it is taken in, in bytes. */
export const resultReservedBytes = limits.resultTextMaxBytes

const idPattern = /^[A-Za-z0-9_-]{1,128}$/

/** Whether ids of a peer may become names of folders and keys. Nothing is recorded under any other. */
export function hasIds(ref: AttemptRef): boolean {
  return [ref.agentId, ref.attemptId, ref.taskId].every((id) => idPattern.test(id))
}

/**
 * Whether the node takes a turn in, as far as this can be said without looking at a disk. What can never work comes before
 * what passes by itself, since a hub asks again after the latter.
 *
 * @returns why not, or undefined
 */
export function judgeClaim(claim: ClaimMessage, policy: ClaimPolicy): Decline | undefined {
  const { ref } = claim
  const { card } = policy
  if (!hasIds(ref)) {
    return never('declined', 'The claim named an agent, task or attempt that is no id.')
  }
  const brief = judgeBrief(claim.request.brief)
  if (brief !== undefined) return never('declined', brief)
  if (card.unavailable !== undefined) return never(card.unavailable.reason, card.unavailable.message)
  if (claim.resumeSessionId !== undefined && claim.resumeSessionId !== policy.knownSessionId) {
    return never('session_missing', 'The session to go on with is not on this machine.')
  }
  if (policy.isDraining) return later('declined', 'The node is about to stop and takes no more turns in.')
  if (isAgentBusy(policy.slots, ref.agentId)) return later('dir_busy', 'Another turn of this agent is still running.')
  return judgeRoom(policy)
}

/** What passes by itself: slots, turns among hubs, and room for the result (rule 28). */
function judgeRoom(policy: ClaimPolicy): Decline | undefined {
  const { slots, hubId, maxAgentsPerHub, freeForHub, outboxBytes } = policy
  if (!hasFreeSlot(slots)) return later('declined', `All ${slots.maxAgents} slots of this node are taken.`)
  if (maxAgentsPerHub !== undefined && heldBy(slots, hubId) >= maxAgentsPerHub) {
    return later('declined', `This hub has the ${maxAgentsPerHub} slots that one hub may have here.`)
  }
  if (freeForHub <= 0) return later('declined', 'The free slots of this node are for hubs that waited longer.')
  if (outboxBytes + resultReservedBytes > limits.outboxPerHubMaxBytes) {
    const message = `${outboxBytes} bytes wait on this node for their hub, of at most ${limits.outboxPerHubMaxBytes}.`
    return later('outbox_full', message)
  }
  return undefined
}

function judgeBrief(brief: string): string | undefined {
  if (brief.length === 0) return 'The brief is empty.'
  if (!brief.isWellFormed() || brief.includes('\0'))
    return 'The brief is not valid text: it has a NUL or half a character.'
  const bytes = new TextEncoder().encode(brief).length
  return bytes > limits.briefMaxBytes
    ? `The brief has ${bytes} bytes; ${limits.briefMaxBytes} are the most.`
    : undefined
}

/** A decline that stands until the machine's owner changes something. */
export function never(reason: Decline['reason'], message: string): Decline {
  return { reason, message, isPermanent: true }
}

/** A decline that passes by itself. */
export function later(reason: Decline['reason'], message: string): Decline {
  return { reason, message, isPermanent: false }
}

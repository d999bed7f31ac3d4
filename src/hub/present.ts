import type { LostGround } from '../core/attempt.ts'
import { clip } from '../core/clip.ts'
import type { OpenEntry } from '../core/inbox-state.ts'
import type { Contact } from '../core/lease.ts'
import type { Reason, Usage } from '../core/model.ts'
import { freeSlots, matching, type NodeView, type Wish } from '../core/placement.ts'
import {
  type Agent,
  currentTask,
  type Home,
  isActive,
  liveAttempt,
  returnedAttempt,
  type Task,
  usageOf,
} from '../core/task-record.ts'
import { agentState } from './agent-state.ts'
import type { Node } from './nodes.ts'
import type { EventRecord, ResultRecord, SpawnRecord } from './records.ts'
import type { TurnTimes } from './turn-times.ts'
import type { HubWorld } from './world.ts'

/** A JSON object of the public interface. Keys whose value is undefined are absent in its text. */
export type Document = Readonly<Record<string, unknown>>

export function timeOf(atMs: number): string {
  return new Date(atMs).toISOString()
}

export function usageDocument(usage: Usage): Document {
  return {
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    cost_usd: usage.costUsd,
    duration_ms: usage.durationMs,
  }
}

/** How much of what stands beside a text a reply shows, so that a result fits into it; `get_result` has it whole. */
const inReply = { denied: 8, inputBytes: 256, declines: 16, messages: 64, detailBytes: 512 }
const whole: typeof inReply = {
  denied: Infinity,
  inputBytes: Infinity,
  declines: Infinity,
  messages: Infinity,
  detailBytes: Infinity,
}

/** A result's document but for its text. `isWhole`: with everything, however long. */
export function resultDocument(
  record: ResultRecord,
  options: { readonly receiptId: string | undefined; readonly isWhole: boolean; readonly isMaybeSeen?: boolean },
): Document {
  const max = options.isWhole ? whole : inReply
  const details = detailsDocument(record, max)
  return {
    delivery_id: record.deliveryId,
    agent_id: record.agentId,
    task_id: record.taskId,
    attempt: record.attempt,
    turn: record.turn,
    outcome: record.outcome,
    reason: record.reason,
    hint: record.hint,
    details: Object.keys(details).length === 0 ? undefined : details,
    machine: record.machine,
    artifacts: [],
    usage: usageDocument(record.usage),
    ...listDocument('messages', record.messages, max.messages, (message) => ({
      message_id: message.messageId,
      state: message.state,
    })),
    receipt_id: options.receiptId,
    late: record.isLate ? true : undefined,
    maybe_seen: record.isMaybeSeen === true || options.isMaybeSeen === true ? true : undefined,
    superseded: record.isSuperseded ? true : undefined,
  }
}

function detailsDocument(record: ResultRecord, max: typeof inReply): Document {
  const details = Object.entries(record.details).map(([name, value]) => [name, clip(value, max.detailBytes)])
  return {
    ...Object.fromEntries(details),
    ...(record.ground === undefined ? {} : { ground: record.ground }),
    ...listDocument('denied', record.denied, max.denied, ({ tool, input }) => ({
      tool,
      input: clip(input, max.inputBytes),
    })),
    ...listDocument('declines', record.declines, max.declines, ({ machine, reason, message }) => ({
      machine,
      reason,
      message,
    })),
  }
}

/** The first of a list, and how many there are where that is not all; nothing of an empty one. */
function listDocument<T>(name: string, list: readonly T[], max: number, document: (item: T) => Document): Document {
  if (list.length === 0) return {}
  const count = list.length > max ? { [`${name}_count`]: list.length } : {}
  return { [name]: list.slice(0, max).map(document), ...count }
}

/** An event's document but for its text; `seq` is its place in the one rising sequence of the inbox. */
export function eventEntryDocument(record: EventRecord): Document {
  return {
    delivery_id: record.deliveryId,
    kind: record.event,
    at: timeOf(record.atMs),
    seq: record.deliveryId,
    source: record.source,
    machine: record.machine,
  }
}

export function spawnDocument(record: SpawnRecord): Document {
  return {
    delivery_id: record.deliveryId,
    kind: 'spawn',
    agent_id: record.agentId,
    state: record.state,
    machine: record.machine,
    at: timeOf(record.atMs),
  }
}

export function unconfirmedDocument(entry: OpenEntry): Document {
  return { delivery_id: entry.deliveryId, kind: entry.kind, agent_id: entry.agentId }
}

type LivenessState = 'live' | 'unverifiable' | 'exited'

/** What is known of an agent's process, since when, and from what. */
export function livenessDocument(world: HubWorld, agent: Agent): Document {
  const { state, sinceMs, evidence } = liveness(world, agent)
  return { state, since: timeOf(sinceMs), evidence }
}

function liveness(world: HubWorld, agent: Agent): { state: LivenessState; sinceMs: number; evidence: string } {
  const task = currentTask(agent)
  const attempt = returnedAttempt(agent) ?? liveAttempt(agent)
  if (attempt !== undefined) {
    const contact = world.nodes.contactOf(attempt.peerId)
    const sinceMs = wallOf(world, contact)
    if (contact.state !== 'online') {
      return { state: 'unverifiable', sinceMs, evidence: silence(world, attempt) }
    }
    if (attempt.phase === 'offered') {
      return {
        state: 'unverifiable',
        sinceMs: task.times.execute ?? sinceMs,
        evidence: `${attempt.machine} was asked to start it`,
      }
    }
    return {
      state: 'live',
      sinceMs: task.times.progress ?? sinceMs,
      evidence: `${attempt.machine} answers and says so`,
    }
  }
  return endedLiveness(agent, task)
}

function silence(world: HubWorld, { machine, peerId }: Home): string {
  const heardAtMs = world.nodes.lastSeenAtMs(peerId)
  return heardAtMs === undefined
    ? `${machine} does not answer`
    : `${machine} does not answer; it was last heard at ${timeOf(heardAtMs)}`
}

/** What a node that is there has proven of a turn that was lost on it; the other grounds are known from afar. */
const shownByNode: Partial<Record<LostGround, string>> = {
  keeper_gone: 'its machine found nothing of it running',
  rebooted: 'its machine was started anew, and nothing of it runs',
}

function endedLiveness(agent: Agent, task: Task): { state: LivenessState; sinceMs: number; evidence: string } {
  const end = task.lateEnd ?? task.end
  if (end === undefined)
    return { state: 'exited', sinceMs: task.times.quote ?? agent.startedAtMs, evidence: 'no process was started yet' }
  if (end.proof !== undefined) return { state: 'exited', sinceMs: end.atMs, evidence: end.proof }
  const shown = end.ground === undefined ? undefined : shownByNode[end.ground]
  if (shown !== undefined) return { state: 'exited', sinceMs: end.atMs, evidence: shown }
  const isSilent = end.outcome === 'node_lost' && task.attempts.at(-1)?.phase === 'lost'
  return isSilent
    ? { state: 'unverifiable', sinceMs: end.atMs, evidence: 'its machine was lost' }
    : { state: 'exited', sinceMs: end.atMs, evidence: `the turn ended: ${end.outcome}` }
}

/** When the present state of a contact began, as a label. */
function wallOf({ clock }: HubWorld, contact: Contact): number {
  return clock.wallMs() - Math.max(0, clock.nowMs() - contact.sinceMs)
}

export function agentDocument(world: HubWorld, agent: Agent, turnTimes: TurnTimes): Document {
  const task = currentTask(agent)
  const activity = world.agents.activityOf(agent.agentId)
  const end = task.lateEnd ?? task.end
  const open = world.mailbox.undelivered.filter((entry) => entry.agentId === agent.agentId)
  const lastAtMs = Math.max(activity?.atMs ?? 0, ...Object.values(task.times))
  return {
    agent_id: agent.agentId,
    title: agent.title,
    state: agentState(world, agent),
    outcome: end?.outcome,
    // Counted lost, and at work all the same: what it does is not waited for, and its result comes as a late one.
    superseded: returnedAttempt(agent) === undefined ? undefined : true,
    liveness: livenessDocument(world, agent),
    machine: agent.home?.machine ?? agent.filters.machine,
    progress: isActive(agent)
      ? progressDocument(turnTimes.endsAtMs(agent, world.clock.wallMs()), activity?.note, lastAtMs)
      : undefined,
    last_activity_at: timeOf(lastAtMs),
    started_at: timeOf(agent.startedAtMs),
    turns: agent.tasks.length,
    usage: usageDocument(usageOf(agent)),
    pending: { requests: 0, messages: openMessages(agent), undelivered: open.length },
  }
}

/** What the node said last of a turn at work, and when it may end; `undefined` where neither is known. */
function progressDocument(endsAtMs: number | undefined, note: string | undefined, atMs: number): Document | undefined {
  if (note === undefined && endsAtMs === undefined) return undefined
  return { note, eta_at: endsAtMs === undefined ? undefined : timeOf(endsAtMs), at: timeOf(atMs) }
}

/** Messages on their way whose fate is not known yet. */
function openMessages(agent: Agent): number {
  const open = new Set(['waiting', 'sent', 'accepted'])
  return agent.tasks.flatMap((task) => task.steers).filter((steer) => !steer.isReported && open.has(steer.state)).length
}

/** An agent in `still_running`. */
export function runningDocument(world: HubWorld, agent: Agent): Document {
  return {
    agent_id: agent.agentId,
    state: agentState(world, agent),
    machine: agent.home?.machine,
    liveness: livenessDocument(world, agent),
  }
}

export function nodeDocument(world: HubWorld, node: Node, view: NodeView): Document {
  const card = node.record?.card
  const lastSeenMs = Math.max(world.nodes.lastSeenAtMs(node.peerId) ?? 0, node.member?.lastSeenAtMs ?? 0)
  const unavailable: { reason: Reason; message: string } | undefined = card?.unavailable
  return {
    name: node.name,
    peer_id: node.peerId,
    state: view.state,
    description: card?.description ?? '',
    labels: card?.labels ?? {},
    capabilities: card?.capabilities ?? [],
    offers: card?.offers ?? [],
    max_agents: card?.maxAgents ?? 0,
    running: view.capacity?.running ?? 0,
    free_slots: view.state === 'online' ? freeSlots(view) : 0,
    allows: {
      all_tools: card?.allows.allTools ?? false,
      monitors: card?.allows.monitors ?? false,
      repos: card?.allows.repos ?? [],
    },
    unavailable,
    path: node.peer?.path,
    rtt_ms: node.peer?.rttMs,
    version: card?.version ?? node.peer?.softwareVersion ?? '',
    claude_version: card?.claudeVersion,
    os: card?.os ?? '',
    arch: card?.arch ?? '',
    last_seen_at: lastSeenMs === 0 ? undefined : timeOf(lastSeenMs),
    membership_expires_at: node.member === undefined ? undefined : timeOf(node.member.expiresAtMs),
  }
}

/** Nodes that `facts` names; the rest is counted in its note. */
const matchingShown = 20

/** @param options - `views`: what `nodes.views` gave, where the caller has it */
export function factsDocument(
  world: HubWorld,
  options: {
    readonly wish?: Pick<Wish, 'filters' | 'boundTo'>
    readonly undelivered?: number
    readonly note?: string | undefined
    readonly views?: readonly NodeView[]
  } = {},
): Document {
  const views = options.views ?? world.nodes.views()
  const online = views.filter((view) => view.state === 'online')
  const active = world.agents.active()
  const { wish } = options
  const matches = wish === undefined ? views : matching(wish, world.nodes.candidates(wish.filters.machine, views))
  const more = matches.length > matchingShown ? `${matches.length - matchingShown} more nodes match.` : undefined
  const note = [options.note, more].filter((part) => part !== undefined).join(' ')
  return {
    undelivered: options.undelivered ?? world.mailbox.undelivered.length,
    free_slots: online.reduce((sum, view) => sum + freeSlots(view), 0),
    nodes_online: online.length,
    nodes_unverifiable: views.filter((view) => view.state === 'unverifiable').length,
    agents_running: active.filter((agent) => liveAttempt(agent) !== undefined).length,
    queued: active.filter((agent) => liveAttempt(agent) === undefined).length,
    matching_nodes: matches.slice(0, matchingShown).map((view) => ({
      name: view.name,
      state: view.state,
      free_slots: view.state === 'online' ? freeSlots(view) : 0,
    })),
    note: note === '' ? undefined : note,
  }
}

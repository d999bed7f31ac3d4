import { NfltrError } from '../core/errors.ts'
import type { TaskEvent } from '../core/model.ts'
import { decodeRecord } from '../core/record-json.ts'
import type { Agent, Task } from '../core/task-record.ts'
import type { HubStatusDocument, SessionIdentity } from '../ports/hub-api.ts'
import { agentDocument, timeOf, usageDocument } from './present.ts'
import { keys, prefixes } from './records.ts'
import { TurnTimes } from './turn-times.ts'
import { unknownAgent } from './wait.ts'
import type { HubWorld } from './world.ts'

/** `hub status`. */
export function statusDocument(
  world: HubWorld,
  { session, epoch }: { readonly session: SessionIdentity | undefined; readonly epoch: number },
): HubStatusDocument {
  const usage = world.agents.usage()
  return {
    schema: 1,
    hub_id: world.facts.hubId,
    project: world.facts.project,
    pid: world.facts.pid,
    state: session === undefined ? 'free' : 'held',
    ...(session === undefined ? {} : { session: { pid: session.pid, since: session.since } }),
    agents: world.agents.states((peerId) => world.nodes.gone(peerId) !== undefined),
    undelivered: world.mailbox.undelivered.length,
    epoch,
    usage: {
      input_tokens: usage.inputTokens,
      output_tokens: usage.outputTokens,
      cost_usd: usage.costUsd,
    },
    store: world.store.condition,
  }
}

/** `agent show`: what lists show of it, and its turns with their stages and attempts. @throws {NfltrError} `not_found` */
export function showAgent(world: HubWorld, agentId: string): Record<string, unknown> {
  const agent = world.agents.get(agentId)
  if (agent === undefined) throw unknownAgent(agentId)
  const { filters, settings } = agent
  const task = agent.tasks.at(-1)
  return {
    schema: 1,
    ...agentDocument(world, agent, new TurnTimes(world.agents.machines())),
    stage: task?.stage,
    session_id: agent.sessionId,
    peer_id: agent.home?.peerId,
    filters: { ...filters },
    settings: {
      model: settings.model,
      effort: settings.effort,
      max_budget_usd: settings.maxBudgetUsd,
      max_turns: settings.maxTurns,
      deadline_ms: settings.deadlineMs,
    },
    lost_after_ms: agent.home === undefined ? agent.lostAfterMs : world.nodes.lostAfterMs(agent.home.peerId, agent),
    tasks: agent.tasks.map((one) => taskDocument(agent, one)),
  }
}

function taskDocument(agent: Agent, task: Task): Record<string, unknown> {
  const { end, lateEnd } = task
  return {
    task_id: task.taskId,
    turn: task.turn,
    stage: task.stage,
    stages: Object.fromEntries(Object.entries(task.times).map(([stage, atMs]) => [stage, timeOf(atMs)])),
    inputs_hash: task.briefHash,
    timeout_ms: task.timeoutMs,
    attempts: task.attempts.map((attempt) => ({
      attempt_id: attempt.attemptId,
      attempt: attempt.number,
      epoch: attempt.epoch,
      machine: attempt.machine,
      state: attempt.phase,
      superseded: attempt.isSuperseded ? true : undefined,
    })),
    declines: task.declines.map(({ machine, reason, message }) => ({ machine, reason, message })),
    messages: task.steers.map(({ messageId, state }) => ({ message_id: messageId, state })),
    stop: task.stop === undefined ? undefined : { command_id: task.stop.commandId, reason: task.stop.reason },
    outcome: end?.outcome,
    reason: end?.reason,
    usage: end === undefined ? undefined : usageDocument(end.usage),
    delivery_id: end?.deliveryId,
    late_delivery_id: lateEnd?.deliveryId,
    exit_proof: (lateEnd ?? end)?.proof,
    receipt_id: task.receiptId,
    session_id: agent.sessionId,
  }
}

/** `agent logs`: a page of events, oldest first. @throws {NfltrError} `not_found` */
export async function logsPage(
  world: HubWorld,
  agentId: string,
  { fromSeq, limit }: { readonly fromSeq: number; readonly limit: number },
): Promise<{ events: readonly Record<string, unknown>[]; nextSeq?: number }> {
  if (world.agents.get(agentId) === undefined) throw unknownAgent(agentId)
  if (!Number.isSafeInteger(fromSeq) || fromSeq < 0 || !Number.isSafeInteger(limit) || limit < 1) {
    throw new NfltrError('invalid_argument', 'from_seq or limit is not a whole number in range.', {
      details: { argument: 'from_seq' },
    })
  }
  const events: TaskEvent[] = []
  const from = keys.event(agentId, fromSeq)
  for await (const { value } of world.store.scan(prefixes.events(agentId), { from, limit: limit + 1 })) {
    events.push(decodeRecord<TaskEvent>(value))
  }
  const page = events.slice(0, limit).map((event) => eventDocument(agentId, event))
  const next = events[limit]
  return next === undefined ? { events: page } : { events: page, nextSeq: next.seq }
}

function eventDocument(agentId: string, event: TaskEvent): Record<string, unknown> {
  const { seq, atMs, turn, type, text, fields } = event
  return { ...fields, seq, at: timeOf(atMs), agent_id: agentId, turn, type, ...(text === undefined ? {} : { text }) }
}

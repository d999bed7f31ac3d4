import type { WaitInput } from '../control/schema/tool-inputs.ts'
import { NfltrError } from '../core/errors.ts'
import type { OpenEntry } from '../core/inbox-state.ts'
import { limits } from '../core/limits.ts'
import { type Agent, isActive } from '../core/task-record.ts'
import type { ToolCall } from '../ports/hub-api.ts'
import type { Transaction } from '../runtime/engine.ts'
import { cancelled, type KeySlot } from './keys.ts'
import { freshCandidates, type Reply, readCandidates, writeReply } from './reply.ts'
import type { HubWorld } from './world.ts'

/**
 * `wait_for_agents`: returns as soon as something undelivered matches. Looking and marking are one decision, so an entry
 * goes into one of two waits that are in flight; what does not fit the reply is not marked.
 *
 * @throws {NfltrError} `not_found` for an agent that does not exist
 */
export async function waitForAgents(world: HubWorld, call: ToolCall, args: WaitInput, slot: KeySlot): Promise<string> {
  for (const agentId of args.agent_ids ?? []) {
    if (world.agents.get(agentId) === undefined) throw unknownAgent(agentId)
  }
  const stopProgress = reportProgress(world, call)
  try {
    const reply = await waitForReply(world, call, args, slot)
    // A client that is gone by now reads nothing: its entries are named, not lost.
    if (isCancelled(call)) {
      await world.mailbox.decide({ type: 'doubted', offerId: slot.offerId })
      throw cancelled()
    }
    return reply
  } finally {
    stopProgress()
  }
}

/** Nothing is marked for a client that is gone: cancelled, or its session over. */
function assertListening(world: HubWorld, call: ToolCall): void {
  if (isGone(world, call)) throw cancelled()
}

function isGone(world: HubWorld, call: ToolCall): boolean {
  return isCancelled(call) || !world.isHolder(call.sessionKey)
}

function isCancelled(call: ToolCall): boolean {
  return call.signal?.aborted === true
}

export function unknownAgent(agentId: string): NfltrError {
  return new NfltrError('not_found', `No agent ${agentId} is known to this hub.`, {
    hint: 'list_agents shows the agents of this project.',
    details: { argument: 'agent_id', agent_id: agentId },
  })
}

async function waitForReply(world: HubWorld, call: ToolCall, args: WaitInput, slot: KeySlot): Promise<string> {
  const untilMs = args.timeout_ms === undefined ? undefined : world.clock.nowMs() + args.timeout_ms
  const isOver = (): boolean => untilMs !== undefined && world.clock.nowMs() >= untilMs
  let offered: Promise<string> | undefined
  let isIdle = false
  const leave = world.waiting.add((tx) => {
    if (!isIdle || isGone(world, call)) return
    const body = offerFresh(world, tx, { call, args, slot })
    if (body === undefined) return
    isIdle = false
    offered = onceDurable(tx, body)
  })
  try {
    for (;;) {
      if (offered !== undefined) return await offered
      assertListening(world, call)
      if (isReady(world, args) || isOver()) {
        const body = await look(world, call, { args, slot, isOver: isOver() })
        if (body !== undefined) return body
        continue
      }
      isIdle = true
      await world.changes.next({ untilMs, signal: call.signal })
      isIdle = false
    }
  } finally {
    leave()
  }
}

/** Something has just come in for a call that waits. */
function offerFresh(
  world: HubWorld,
  tx: Transaction,
  { call, args, slot }: { call: ToolCall; args: WaitInput; slot: KeySlot },
): string | undefined {
  if (!isReady(world, args)) return undefined
  const candidates = freshCandidates(world, matchingEntries(world, args), maxBytes(args))
  if (candidates === undefined) return undefined
  return writeReply(world, tx, { call, slot, candidates, running: awaited(world, args), maxBytes: maxBytes(args) })
}

/** Resolves once the transaction is on disk. Where the store fails first the hub ends, as for every call that still waits. */
function onceDurable(tx: Transaction, body: string): Promise<string> {
  return new Promise((resolve) => tx.afterDurable(() => resolve(body)))
}

/** @returns undefined when another wait took what this one was to return */
async function look(
  world: HubWorld,
  call: ToolCall,
  options: { args: WaitInput; slot: KeySlot; isOver: boolean },
): Promise<string | undefined> {
  const { args } = options
  const entries = matchingEntries(world, args)
  const fresh = freshCandidates(world, entries, maxBytes(args))
  if (fresh !== undefined) return await claim(world, call, { ...options, candidates: fresh })
  // What is read has to be on disk; what comes in meanwhile is for the next look.
  await world.engine.settled()
  const candidates = await readCandidates(world, entries, maxBytes(args))
  assertListening(world, call)
  return await claim(world, call, { ...options, candidates })
}

function claim(
  world: HubWorld,
  call: ToolCall,
  options: { args: WaitInput; slot: KeySlot; candidates: Reply['candidates']; isOver: boolean },
): Promise<string | undefined> {
  const { args, slot, candidates, isOver } = options
  return world.engine.transact((tx) => {
    if (!isReady(world, args) && !isOver) return undefined
    const now = matchingEntries(world, args)
    const still = new Set(now.map((entry) => entry.deliveryId))
    const free = candidates.filter((candidate) => still.has(candidate.record.deliveryId))
    if (free.length === 0 && now.length > 0) return undefined
    const running = awaited(world, args)
    return writeReply(world, tx, { call, slot, candidates: free, running, maxBytes: maxBytes(args) })
  })
}

function maxBytes(args: WaitInput): number {
  return args.max_bytes ?? limits.replyDefaultBytes
}

/** Agents that the call is about and whose turn has not ended. */
function awaited(world: HubWorld, args: WaitInput): readonly Agent[] {
  if (args.agent_ids === undefined) return world.agents.active()
  return [...new Set(args.agent_ids)].flatMap((agentId) => world.agents.get(agentId) ?? []).filter(isActive)
}

function matchingEntries(world: HubWorld, args: WaitInput): readonly OpenEntry[] {
  const wanted = args.agent_ids === undefined ? undefined : new Set(args.agent_ids)
  const withEvents = args.events ?? wanted === undefined
  return world.mailbox.undelivered.filter((entry) => {
    if (entry.kind === 'event') return withEvents
    return wanted === undefined || (entry.agentId !== undefined && wanted.has(entry.agentId))
  })
}

/** Whether there is an answer now: `any` with something to return, `all` with everything, or nothing left to wait for. */
function isReady(world: HubWorld, args: WaitInput): boolean {
  if (awaited(world, args).length === 0) return true
  return args.mode !== 'all' && matchingEntries(world, args).length > 0
}

/** A sign of life for the client, every half minute. */
function reportProgress(world: HubWorld, call: ToolCall): () => void {
  const { onProgress } = call
  if (onProgress === undefined) return () => undefined
  const beat = () => {
    const active = world.agents.active().length
    onProgress(`${active} ${active === 1 ? 'agent has' : 'agents have'} not ended yet`)
    timer = world.clock.after(limits.waitProgressMs, beat)
  }
  let timer = world.clock.after(limits.waitProgressMs, beat)
  return () => timer.cancel()
}

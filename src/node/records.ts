import type { AttemptResult } from '../core/model.ts'
import type { ClaimMessage, NodeAttempt, QueuedSteer } from '../core/node-attempt-state.ts'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import type { Store } from '../ports/store.ts'
import type { Transaction } from '../runtime/engine.ts'

/** What the node knows of an agent that has worked here. */
export interface AgentRecord {
  readonly agentId: string
  readonly hubId: string
  /** The attempt that made the session and the folders: a continuation finds both under its name. */
  readonly originAttemptId: string
  /** Set once the program said that the session exists. */
  readonly sessionId: string | undefined
  readonly dir: string | undefined
  readonly workspace: string | undefined
  /** Number of the agent's next log line; without gaps over all its turns. */
  readonly nextSeq: number
}

export interface HubRecord {
  readonly hubId: string
  /** The machine that this hub belongs to. No other machine can speak for the hub, whatever it certifies. */
  readonly machinePeerId: string
  /** `receipt_id` of the newest receipt for the hub; empty before the first. */
  readonly receiptHead: string
}

const prefixes = {
  attempt: 'node/attempt/',
  claim: 'node/claim/',
  steer: 'node/steer/',
  result: 'node/result/',
  agent: 'node/agent/',
  hub: 'node/hub/',
} as const

/**
 * Writes what changed of an attempt. Its head is small and written often; a claim's brief and the texts of messages may be
 * large and are written once, which identity tells: the core never changes a value in place.
 */
export function writeAttempt(tx: Transaction, previous: NodeAttempt | undefined, next: NodeAttempt): void {
  const { attemptId } = next.ref
  tx.put(prefixes.attempt + attemptId, encodeRecord({ ...next, claim: undefined, steers: [] }))
  if (next.claim !== previous?.claim) {
    if (next.claim === undefined) tx.delete(prefixes.claim + attemptId)
    else tx.put(prefixes.claim + attemptId, encodeRecord(next.claim))
  }
  next.steers.forEach((steer, index) => {
    if (previous?.steers[index] !== steer) tx.put(steerKey(attemptId, index), encodeRecord(steer))
  })
  for (let index = next.steers.length; index < (previous?.steers.length ?? 0); index += 1) {
    tx.delete(steerKey(attemptId, index))
  }
}

export function deleteAttempt(tx: Transaction, previous: NodeAttempt): void {
  const { attemptId } = previous.ref
  tx.delete(prefixes.attempt + attemptId)
  tx.delete(prefixes.claim + attemptId)
  tx.delete(prefixes.result + attemptId)
  previous.steers.forEach((_, index) => {
    tx.delete(steerKey(attemptId, index))
  })
}

export function writeResult(tx: Transaction, attemptId: string, result: AttemptResult): void {
  tx.put(prefixes.result + attemptId, encodeRecord(result))
}

export function dropResult(tx: Transaction, attemptId: string): void {
  tx.delete(prefixes.result + attemptId)
}

export async function readResult(store: Store, attemptId: string): Promise<AttemptResult | undefined> {
  const bytes = await store.get(prefixes.result + attemptId)
  return bytes === undefined ? undefined : decodeRecord<AttemptResult>(bytes)
}

/** @see Store.getSync */
export function readResultSync(store: Store, attemptId: string): AttemptResult | undefined {
  const bytes = store.getSync(prefixes.result + attemptId)
  return bytes === undefined ? undefined : decodeRecord<AttemptResult>(bytes)
}

export function writeAgent(tx: Transaction, agent: AgentRecord): void {
  tx.put(prefixes.agent + agent.agentId, encodeRecord(agent))
}

export function writeHub(tx: Transaction, hub: HubRecord): void {
  tx.put(prefixes.hub + hub.hubId, encodeRecord(hub))
}

export async function readAttempts(store: Store): Promise<readonly NodeAttempt[]> {
  const attempts: NodeAttempt[] = []
  const heads = await readAll<NodeAttempt>(store, prefixes.attempt)
  const claims = new Map(
    (await readAll<ClaimMessage>(store, prefixes.claim)).map((claim) => [claim.ref.attemptId, claim]),
  )
  const steers = await readSteers(store)
  for (const head of heads) {
    const { attemptId } = head.ref
    attempts.push({ ...head, claim: claims.get(attemptId), steers: steers.get(attemptId) ?? [] })
  }
  return attempts
}

/** All of them in one scan: most attempts have none, and a scan for each costs more than the few there are. */
async function readSteers(store: Store): Promise<ReadonlyMap<string, readonly QueuedSteer[]>> {
  const found = new Map<string, QueuedSteer[]>()
  for await (const { key, value } of store.scan(prefixes.steer)) {
    const attemptId = key.slice(prefixes.steer.length, key.lastIndexOf('/'))
    const known = found.get(attemptId) ?? []
    known.push(decodeRecord<QueuedSteer>(value))
    found.set(attemptId, known)
  }
  return found
}

export function readAgents(store: Store): Promise<readonly AgentRecord[]> {
  return readAll<AgentRecord>(store, prefixes.agent)
}

export function readHubs(store: Store): Promise<readonly HubRecord[]> {
  return readAll<HubRecord>(store, prefixes.hub)
}

async function readAll<T>(store: Store, prefix: string): Promise<readonly T[]> {
  const records: T[] = []
  for await (const { value } of store.scan(prefix)) records.push(decodeRecord<T>(value))
  return records
}

/** Attempts in the order of their ids, from behind one of them on: as `writeAttempt` keeps their heads. */
export async function* attemptsAfter(store: Store, after: string | undefined): AsyncGenerator<NodeAttempt> {
  // The first key that is behind it.
  const from = after === undefined ? {} : { from: `${prefixes.attempt}${after}\0` }
  for await (const { value } of store.scan(prefixes.attempt, from)) yield decodeRecord<NodeAttempt>(value)
}

/** Padded, so that the store's order is the order of arrival. */
function steerKey(attemptId: string, index: number): string {
  return `${prefixes.steer + attemptId}/${String(index).padStart(4, '0')}`
}

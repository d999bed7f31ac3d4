import { keyNumber } from '../core/key-order.ts'
import type { AgentState, Capacity, NodeCard, Usage } from '../core/model.ts'
import { decodeRecord } from '../core/record-json.ts'
import type { ResultEntry } from '../core/task-record.ts'
import type { Store } from '../ports/store.ts'

/** The keys of a hub's store. @see src/store/keyspace.ts for what ends each */
export const keys = {
  agent: (agentId: string) => `hub/agent/${agentId}`,
  openAgent: (agentId: string) => `hub/open-agent/${agentId}`,
  agentNo: (no: number) => `hub/agent-no/${keyNumber(Number.MAX_SAFE_INTEGER - no)}`,
  machine: (peerId: string) => `hub/machine/${peerId === '' ? 'none' : peerId}`,
  brief: (taskId: string) => `hub/brief/${taskId}`,
  message: (messageId: string) => `hub/message/${messageId}`,
  entry: (deliveryId: number) => `hub/entry/${keyNumber(deliveryId)}`,
  text: (deliveryId: number) => `hub/text/${keyNumber(deliveryId)}`,
  open: (deliveryId: number) => `hub/open/${keyNumber(deliveryId)}`,
  offer: (offerId: string) => `hub/offer/${offerId}`,
  answer: (tool: string, keyHash: string) => `hub/answer/${tool}/${keyHash}`,
  event: (agentId: string, seq: number) => `hub/event/${agentId}/${keyNumber(seq)}`,
  receipt: (taskId: string) => `hub/receipt/${taskId}`,
  node: (peerId: string) => `hub/node/${peerId}`,
  history: (seq: number) => `hub/history/${keyNumber(seq)}`,
  historyHead: 'hub/counter/history',
  epoch: 'hub/counter/epoch',
  deliveries: 'hub/counter/deliveries',
  agents: 'hub/counter/agents',
  restored: 'hub/counter/restored',
} as const

export const prefixes = {
  agent: 'hub/agent/',
  openAgent: 'hub/open-agent/',
  agentNo: 'hub/agent-no/',
  machine: 'hub/machine/',
  message: 'hub/message/',
  open: 'hub/open/',
  offer: 'hub/offer/',
  answer: 'hub/answer/',
  node: 'hub/node/',
  entry: 'hub/entry/',
  text: 'hub/text/',
  event: 'hub/event/',
  receipt: 'hub/receipt/',
  history: 'hub/history/',
  events: (agentId: string) => `hub/event/${agentId}/`,
} as const

/** A result in the inbox, whose text lies beside it: written once. */
export type ResultRecord = { readonly kind: 'result'; readonly textBytes: number } & Omit<ResultEntry, 'text'>

/** A spawn's reply in the inbox: written once. */
export interface SpawnRecord {
  readonly kind: 'spawn'
  readonly deliveryId: number
  readonly agentId: string
  readonly state: AgentState
  readonly machine?: string
  readonly atMs: number
}

/** Something that the hub's user has to know, in the inbox: written once. */
export interface EventRecord {
  readonly kind: 'event'
  readonly deliveryId: number
  readonly event: 'alert'
  /** Who tells it: the hub itself, or a machine by its name. */
  readonly source: string
  readonly machine?: string
  readonly text: string
  readonly atMs: number
}

export type EntryRecord = ResultRecord | SpawnRecord | EventRecord

/** What a call was answered, so that its repeat is answered alike (rule 3). */
export interface AnswerRecord {
  readonly digest: string
  /** The exact bytes; absent while the effect has happened and its answer is not known yet. */
  readonly body?: string
  /** The reply in the inbox, where it is one. */
  readonly offerId?: string
  /** Ids that the effect made: what a repeat goes on from when there is no answer yet. */
  readonly made: Readonly<Record<string, string>>
  readonly atMs: number
}

/** A message whose fate is open, with its text. */
export interface MessageRecord {
  readonly messageId: string
  readonly agentId: string
  readonly text: string
}

/** A node as it was last seen. */
export interface NodeRecord {
  readonly peerId: string
  readonly card: NodeCard
  readonly capacity: Capacity
  readonly seenAtMs: number
}

/** An agent in the order of lists. What is still open has no `ended`: its state changes too often. */
export interface AgentRow {
  readonly no: number
  readonly agentId: string
  readonly ended?: EndedAs
}

/** As what an agent stands there while nothing is under way: its state, and the machine that has its session. */
export interface EndedAs {
  readonly state: AgentState
  readonly peerId: string
}

/** The agents that ended on one machine, all together. */
export interface MachineRecord {
  /** Empty: agents that no machine took. */
  readonly peerId: string
  readonly states: Readonly<Partial<Record<AgentState, number>>>
  readonly usage: Usage
  /** How long the newest turns took that ran to their end, the oldest of them first, in milliseconds. */
  readonly spansMs: readonly number[]
}

export interface AgentCounts {
  readonly newestNo: number
  readonly open: number
}

/** Which way of keeping the index of agents is up to date, and in which incarnation of the store. */
export interface IndexMark {
  readonly format: number
  readonly incarnation: number
}

/** `index`: the index of agents was kept by whoever raised the epoch; a hub of an earlier version leaves it out. */
export interface EpochRecord {
  readonly epoch: number
  readonly index?: IndexMark
}

export async function readRecord<T>(store: Store, key: string): Promise<T | undefined> {
  const bytes = await store.get(key)
  return bytes === undefined ? undefined : decodeRecord<T>(bytes)
}

export async function readAll<T>(store: Store, prefix: string): Promise<readonly T[]> {
  const found: T[] = []
  for await (const { value } of store.scan(prefix)) found.push(decodeRecord<T>(value))
  return found
}

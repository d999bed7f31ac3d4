import type { ControlMessage, HubMessage, NodeMessage, SessionAccept, WorkMessage } from '../../src/core/messages.ts'
import { type NodeCard, noUsage } from '../../src/core/model.ts'
import { Engine, type Transaction } from '../../src/runtime/engine.ts'
import type { Poison } from '../../src/runtime/quarantine.ts'
import { Session } from '../../src/runtime/session.ts'
import type { SessionCodec } from '../../src/runtime/session-codec.ts'
import type { LaneRestart, SessionOptions } from '../../src/runtime/session-options.ts'
import { MemoryDisk } from '../../src/store/memory-disk.ts'
import { type MemoryStore, type MemoryStoreOptions, openMemoryStore } from '../../src/store/memory-store.ts'
import type { ManualClock } from '../contracts/manual-clock.ts'
import { type MemoryLinkPair, memoryLinkPair } from '../contracts/memory-link.ts'
import { testKeyspace } from '../contracts/test-keyspace.ts'

export const ref = { agentId: 'agt_1', taskId: 'tsk_1', attemptId: 'att_1', epoch: 1 }

/** A message of the hub with a text of any length. */
export function say(text: string): HubMessage {
  return { type: 'steer', commandId: 'cmd_1', ref, messageId: 'msg_1', text }
}

/** A message of the node with a text of any length. */
export function tell(text: string): NodeMessage {
  const result = { outcome: 'completed', text, denied: [], usage: noUsage, messages: [], details: {} } as const
  return { type: 'ended', ref, result }
}

const card: NodeCard = {
  description: '',
  labels: {},
  capabilities: [],
  offers: [],
  maxAgents: 1,
  allows: { allTools: false, monitors: false, repos: [] },
  credential: 'none',
  version: '0.1.0',
  os: 'linux',
  arch: 'x64',
}

export const acceptance: Omit<SessionAccept & { type: 'accept' }, 'type' | 'lanes'> = {
  bootId: 'boot_1',
  inventory: [],
  card,
  capacity: { free: 1, running: 0, queued: 0 },
}

export interface SideOptions<Out extends WorkMessage, In extends WorkMessage> {
  readonly clock: ManualClock
  readonly disk?: MemoryDisk
  readonly sync?: NonNullable<MemoryStoreOptions['sync']>
  readonly limits?: NonNullable<SessionOptions<Out, In>['limits']>
  readonly replace?: NonNullable<SessionOptions<Out, In>['replace']>
  readonly codec?: SessionCodec
  readonly react?: (side: Side<Out, In>, tx: Transaction, message: In) => void
}

/** One side of a session with its own store, which writes down in order what it applied. */
export interface Side<Out extends WorkMessage, In extends WorkMessage> {
  readonly store: MemoryStore
  readonly engine: Engine
  readonly session: Session<Out, In>
  /** Applied in memory since this process started. */
  readonly applied: In[]
  readonly control: ControlMessage[]
  /** Messages of the other side that were set aside since this process started. */
  readonly poisons: Poison[]
  /** Each time the lane began anew since this process started. */
  readonly restarts: LaneRestart[]
  /** Texts of everything applied that is on disk, in order. */
  onDisk(): string[]
  send(message: Out): Promise<void>
}

export type HubSide = Side<HubMessage, NodeMessage>
export type NodeSide = Side<NodeMessage, HubMessage>

export function openHub(options: SideOptions<HubMessage, NodeMessage>): Promise<HubSide> {
  return openSide('hub', 'node-machine', options)
}

export function openNode(options: SideOptions<NodeMessage, HubMessage>): Promise<NodeSide> {
  return openSide('node', 'hub_1', options)
}

async function openSide<Out extends WorkMessage, In extends WorkMessage>(
  side: 'hub' | 'node',
  remote: string,
  options: SideOptions<Out, In>,
): Promise<Side<Out, In>> {
  const disk =
    options.disk ?? new MemoryDisk({ storeId: side === 'hub' ? 'a'.repeat(32) : 'b'.repeat(32), incarnation: 1 })
  const { sync, limits, replace, clock } = options
  const store = await openMemoryStore({ disk, keyspace: testKeyspace, ...(sync === undefined ? {} : { sync }) })
  const engine = new Engine(store)
  const applied: In[] = []
  const control: ControlMessage[] = []
  const restarts: LaneRestart[] = []
  const poisons: Poison[] = []
  let count = disk.keys('test/').filter((key) => key.startsWith('test/')).length
  const session = await Session.load<Out, In>({
    engine,
    store,
    clock,
    remote,
    side,
    apply: (tx, message) => {
      applied.push(message)
      tx.put(`test/${String(count++).padStart(8, '0')}`, new TextEncoder().encode(textOf(message)))
      options.react?.(self, tx, message)
    },
    control: (message) => control.push(message),
    restarted: (_tx, restart) => restarts.push(restart),
    quarantined: (_tx, poison) => poisons.push(poison),
    ...(limits === undefined ? {} : { limits }),
    ...(replace === undefined ? {} : { replace }),
    ...(options.codec === undefined ? {} : { codec: options.codec }),
  })
  const self: Side<Out, In> = {
    store,
    engine,
    session,
    applied,
    control,
    restarts,
    poisons,
    onDisk: () =>
      disk
        .entries()
        .filter(({ key }) => key.startsWith('test/'))
        .map(({ value }) => new TextDecoder().decode(value)),
    send: (message) => engine.transact((tx) => session.send(tx, message)),
  }
  return self
}

export function textOf(message: WorkMessage): string {
  if (message.type === 'steer') return message.text
  return message.type === 'ended' ? message.result.text : message.type
}

let sessionNo = 0

/** Opens the session over a new link. */
export async function connect(
  hub: HubSide,
  node: NodeSide,
  options: { readonly clock: ManualClock; readonly epoch?: number; readonly bufferBytes?: number },
): Promise<MemoryLinkPair> {
  const { clock, epoch = 1, bufferBytes } = options
  const pair = memoryLinkPair({ clock, ...(bufferBytes === undefined ? {} : { bufferBytes }) })
  sessionNo += 1
  const accepting = (async () => {
    const open = await Session.readOpen(pair.node, { signal: new AbortController().signal })
    await node.session.accept(pair.node, open, acceptance)
  })()
  const opening = hub.session.open(pair.hub, { hubId: 'hub_1', epoch, sessionNo, fences: [] })
  const [accepted, opened] = await Promise.allSettled([accepting, opening])
  if (opened.status === 'rejected') throw opened.reason
  if (accepted.status === 'rejected') throw accepted.reason
  return pair
}

import { createHash } from 'node:crypto'
import { type Hub, openHub } from '../../../src/hub/hub.ts'
import type { ToolName } from '../../../src/ports/hub-api.ts'
import type { Random } from '../../../src/ports/random.ts'
import { Engine } from '../../../src/runtime/engine.ts'
import { MemoryDisk } from '../../../src/store/memory-disk.ts'
import { type MemoryStore, openMemoryStore } from '../../../src/store/memory-store.ts'
import { ManualClock, settle } from '../../contracts/manual-clock.ts'
import { ManualLiveness } from '../../contracts/manual-liveness.ts'
import { FakePeers } from './fake-peers.ts'
import { ScriptedNode } from './scripted-node.ts'

export type Json = Record<string, unknown>

/** What a wait answers, as far as tests look at it. */
export interface WaitReply {
  readonly results: readonly (Json & { delivery_id: number; agent_id: string; text: string; next_offset?: number })[]
  readonly events: readonly Json[]
  readonly requests: readonly Json[]
  readonly still_running: readonly (Json & { agent_id: string; state: string })[]
  readonly unconfirmed: readonly { delivery_id: number; kind: string; agent_id?: string }[]
  readonly facts: Json & { undelivered: number; queued: number; agents_running: number }
  readonly catching_up?: boolean
}

export interface SpawnReply {
  readonly delivery_id: number
  readonly agent_id: string
  readonly state: string
  readonly machine?: string
  readonly facts: Json
}

/** A clock whose wall can be moved apart from its awake time, as the wall of a machine that was off for a while is. */
class TwinClock extends ManualClock {
  #skippedMs = 0

  skipWall(byMs: number): void {
    this.#skippedMs += byMs
  }

  override wallMs(): number {
    return super.wallMs() + this.#skippedMs
  }
}

/** One machine's hub over a disk that survives it, and the nodes of its mesh. */
export class TwinHub {
  readonly clock = new TwinClock()
  readonly liveness = new ManualLiveness(this.clock)
  readonly nodes: ScriptedNode[] = []
  /** Members that a hub knows at its start and does not reach. */
  readonly absent: ScriptedNode[] = []
  /** Members that an owner revoked before a hub starts. */
  readonly revoked: ScriptedNode[] = []
  disk = new MemoryDisk()
  sessionKey = 'session-1'
  #hub: Hub | undefined
  #peers: FakePeers | undefined
  #store: MemoryStore | undefined
  #engine: Engine | undefined
  #seed = 1
  #calls = 0
  #gate: { promise: Promise<void>; resolve: () => void } = { promise: Promise.resolve(), resolve: () => undefined }

  /** A hub with nodes that are connected and caught up. */
  static async withNodes(
    ...nodes: readonly (Partial<ConstructorParameters<typeof ScriptedNode>[0]> & { name: string })[]
  ) {
    const twin = new TwinHub()
    for (const options of nodes) twin.nodes.push(new ScriptedNode({ clock: twin.clock, ...options }))
    await twin.start()
    await twin.hold()
    return twin
  }

  get hub(): Hub {
    if (this.#hub === undefined) throw new Error('no hub runs')
    return this.#hub
  }

  get peers(): FakePeers {
    if (this.#peers === undefined) throw new Error('no hub runs')
    return this.#peers
  }

  get store(): MemoryStore {
    if (this.#store === undefined) throw new Error('no hub runs')
    return this.#store
  }

  get engine(): Engine {
    if (this.#engine === undefined) throw new Error('no hub runs')
    return this.#engine
  }

  node(name: string): ScriptedNode {
    const node = this.nodes.find((candidate) => candidate.name === name)
    if (node === undefined) throw new Error(`no node ${name}`)
    return node
  }

  async start(): Promise<void> {
    const store = await openMemoryStore({ disk: this.disk, sync: () => this.#gate.promise })
    const peers = new FakePeers(this.clock)
    for (const node of this.nodes) if (!this.revoked.includes(node)) peers.connect(node)
    for (const node of [...this.absent, ...this.revoked]) peers.join(node)
    for (const node of this.revoked) peers.revoke(node)
    this.#store = store
    this.#peers = peers
    const facts = { hubId: 'hub_1', project: 'a folder', pid: 7, host: 'laptop', sha256 }
    this.#engine = new Engine(store)
    this.#hub = await openHub({
      engine: this.#engine,
      store,
      peers,
      clock: this.clock,
      liveness: this.liveness,
      random: this.#random(),
      facts,
    })
    await settle()
  }

  /** From now on nothing becomes durable, until the returned function is called. */
  holdSyncs(): () => void {
    const gate = Promise.withResolvers<void>()
    this.#gate = gate
    return () => {
      gate.resolve()
    }
  }

  /** The hub's process dies here and now; of what was not synced yet, the first `keepUnsynced` batches survive. */
  async crash(options: { keepUnsynced?: number } = {}): Promise<void> {
    this.disk = this.store.crash(options)
    this.#gate.resolve()
    this.peers.die()
    this.#hub = undefined
    await settle()
  }

  async restart(): Promise<void> {
    await this.crash()
    await this.start()
    await this.hold()
  }

  async hold(sessionKey = this.sessionKey): Promise<{ release(): Promise<void> }> {
    this.sessionKey = sessionKey
    return await this.hub.hold({ pid: 100, host: 'laptop', since: '2023-11-14T22:13:20.000Z', sessionKey })
  }

  /** Calls a tool under a key of its own, or the one given. */
  call(tool: ToolName, args: Json, more: Partial<Parameters<Hub['call']>[0]> = {}) {
    this.#calls += 1
    const call = { tool, args, callKey: `call-${this.#calls}`, sessionKey: this.sessionKey, ...more }
    return this.hub.call(call)
  }

  async ask<T = Json>(tool: ToolName, args: Json, more: Partial<Parameters<Hub['call']>[0]> = {}): Promise<T> {
    return JSON.parse((await this.call(tool, args, more)).body) as T
  }

  /** A call whose reply is read and confirmed. */
  async read<T = Json>(tool: ToolName, args: Json, more: Partial<Parameters<Hub['call']>[0]> = {}): Promise<T> {
    const callKey = more.callKey ?? `read-${++this.#calls}`
    const reply = await this.ask<T>(tool, args, { ...more, callKey })
    await this.hub.confirm(callKey)
    return reply
  }

  spawn(args: Json = {}, more: Partial<Parameters<Hub['call']>[0]> = {}): Promise<SpawnReply> {
    return this.read<SpawnReply>('spawn_agent', { brief: 'do it', ...args }, more)
  }

  wait(args: Json = {}, more: Partial<Parameters<Hub['call']>[0]> = {}): Promise<WaitReply> {
    return this.read<WaitReply>('wait_for_agents', args, more)
  }

  /** A seeded stream: runs repeat exactly. */
  #random(): Random {
    const next = (): number => {
      this.#seed = (this.#seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return this.#seed / 2_147_483_648
    }
    return { next, bytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(next() * 256)) }
  }
}

export function sha256(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}

import type { AttemptRef, HubMessage, NodeMessage, SessionAccept, SessionOpen } from '../../../src/core/messages.ts'
import { type AttemptResult, type Capacity, type NodeCard, noUsage } from '../../../src/core/model.ts'
import type { AccountAnswer } from '../../../src/core/node-account.ts'
import type { Clock } from '../../../src/ports/clock.ts'
import type { Link } from '../../../src/ports/peers.ts'
import { Engine } from '../../../src/runtime/engine.ts'
import { Session } from '../../../src/runtime/session.ts'
import { MemoryDisk } from '../../../src/store/memory-disk.ts'
import { openMemoryStore } from '../../../src/store/memory-store.ts'

export type Claim = Extract<HubMessage, { type: 'claim' }>
type Inventory = Extract<SessionAccept, { type: 'accept' }>['inventory']

export const plainCard: NodeCard = {
  description: 'a machine of the test',
  labels: {},
  capabilities: [],
  offers: [],
  maxAgents: 2,
  allows: { allTools: false, monitors: false, repos: [] },
  credential: 'api_key',
  version: '0.1.0',
  claudeVersion: '2.1.300',
  os: 'linux',
  arch: 'x64',
}

export function completed(text: string, more: Partial<AttemptResult> = {}): AttemptResult {
  return {
    outcome: 'completed',
    text,
    denied: [],
    usage: { ...noUsage, inputTokens: 10, outputTokens: 2, costUsd: 0.25, durationMs: 1_000 },
    messages: [],
    sessionId: 'ses_1',
    exitProof: 'cgroup_empty',
    details: {},
    ...more,
  }
}

/** A node that does what the test says, over the real session and a store of its own. */
export class ScriptedNode {
  readonly peerId: string
  readonly name: string
  card: NodeCard
  capacity: Capacity
  bootId = 'boot-1'
  /** What it says to have when a session opens, by attempt. */
  readonly inventory = new Map<string, Inventory[number]>()
  /** Every session opening that it read. */
  readonly opens: SessionOpen[] = []
  /** Everything the hub said, in order, each once. */
  readonly heard: HubMessage[] = []
  /** What it does about a claim, a message or a stop. By default it takes claims in and starts them. */
  react: (message: HubMessage) => readonly NodeMessage[] = (message) => this.obey(message)
  highestEpochSeen: number | undefined
  /** What it answers when it is asked for what it has on record. */
  account: AccountAnswer = { attempts: [], isLast: true }

  readonly #clock: Clock
  readonly #disk = new MemoryDisk()
  #running: Promise<{ engine: Engine; session: Session<NodeMessage, HubMessage> }> | undefined

  constructor(options: { name: string; clock: Clock; card?: Partial<NodeCard>; slots?: number; peerId?: string }) {
    this.name = options.name
    this.peerId = options.peerId ?? `peer-${options.name}`
    this.#clock = options.clock
    const slots = options.slots ?? 2
    this.card = { ...plainCard, maxAgents: slots, ...options.card }
    this.capacity = { free: slots, running: 0, queued: 0 }
  }

  /** Takes up a session stream that the hub opened. */
  async accept(link: Link): Promise<void> {
    const { session } = await this.#run()
    const open = await Session.readOpen(link, { signal: new AbortController().signal })
    this.opens.push(open)
    this.highestEpochSeen = Math.max(this.highestEpochSeen ?? 0, open.epoch)
    const { bootId, card, capacity } = this
    await session.accept(link, open, { bootId, card, capacity, inventory: [...this.inventory.values()] })
  }

  /** Says something to the hub; it is kept until the hub has it. */
  async say(...messages: readonly NodeMessage[]): Promise<void> {
    const { engine, session } = await this.#run()
    await engine.transact((tx) => {
      for (const message of messages) session.send(tx, message)
    })
  }

  /** Tells the hub of its slots. */
  async tellCapacity(capacity: Capacity): Promise<void> {
    this.capacity = capacity
    const { session } = await this.#run()
    session.control({ type: 'capacity', capacity })
  }

  /** Tells the hub, in passing, what a turn is doing. */
  async note(ref: AttemptRef, note: string): Promise<void> {
    const { session } = await this.#run()
    session.control({ type: 'progress', ref, atMs: this.#clock.wallMs(), note })
  }

  /** Claims that were heard, in order. */
  get claims(): readonly Claim[] {
    return this.heard.filter((message) => message.type === 'claim')
  }

  /** Ends an attempt as the node's record has it. */
  async end(ref: AttemptRef, result: AttemptResult): Promise<void> {
    this.inventory.set(ref.attemptId, { attemptId: ref.attemptId, state: 'ended', keeper: 'ended' })
    const { free, running, queued } = this.capacity
    await this.say({ type: 'ended', ref, result })
    await this.tellCapacity({ free: free + 1, running: running - 1, queued })
  }

  obey(message: HubMessage): readonly NodeMessage[] {
    switch (message.type) {
      case 'claim': {
        const { ref } = message
        const { free, running, queued } = this.capacity
        void this.tellCapacity({ free: free - 1, running: running + 1, queued })
        this.inventory.set(ref.attemptId, { attemptId: ref.attemptId, state: 'running', keeper: 'live' })
        return [
          { type: 'claimed', ref },
          { type: 'started', ref, sessionId: message.resumeSessionId ?? 'ses_1' },
        ]
      }
      case 'steer':
        return [{ type: 'message', ref: message.ref, messageId: message.messageId, state: 'accepted' }]
      default:
        return []
    }
  }

  #run(): Promise<{ engine: Engine; session: Session<NodeMessage, HubMessage> }> {
    this.#running ??= this.#start()
    return this.#running
  }

  async #start(): Promise<{ engine: Engine; session: Session<NodeMessage, HubMessage> }> {
    const store = await openMemoryStore({ disk: this.#disk })
    const engine = new Engine(store)
    const session = await Session.load<NodeMessage, HubMessage>({
      engine,
      store,
      clock: this.#clock,
      remote: 'hub_1',
      side: 'node',
      apply: (tx, message) => {
        this.heard.push(message)
        const answers = this.react(message)
        tx.afterDurable(() => void this.say(...answers))
      },
      control: () => undefined,
    })
    return { engine, session }
  }
}

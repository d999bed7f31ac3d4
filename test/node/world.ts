import type { HubMessage, NodeMessage, SessionAccept } from '../../src/core/messages.ts'
import type { ReceiptBody } from '../../src/core/receipt.ts'
import type { Node } from '../../src/node/node.ts'
import { openNode } from '../../src/node/node.ts'
import type { NodeNote, NodePorts, NodeSettings } from '../../src/node/ports.ts'
import type { AgentDriver } from '../../src/ports/agent-driver.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { KeeperLaunch } from '../../src/ports/keepers.ts'
import type { AnswerAccount, Link, MemberFacts, PeerFacts, Peers } from '../../src/ports/peers.ts'
import { Engine } from '../../src/runtime/engine.ts'
import { Session } from '../../src/runtime/session.ts'
import type { MemoryDisk } from '../../src/store/memory-disk.ts'
import { type MemoryStore, openMemoryStore } from '../../src/store/memory-store.ts'
import { ManualClock, settle } from '../contracts/manual-clock.ts'
import { hubFacts, type MemoryLinkPair, memoryLinkPair, nodeFacts } from '../contracts/memory-link.ts'
import { waitingFor } from '../support/open-waits.ts'
import { Gate } from './gate.ts'
import { scriptedDriver } from './scripted-driver.ts'
import { type Program, SimulatedMachine } from './simulated-keepers.ts'
import { SimulatedWorkspaces } from './simulated-workspaces.ts'

export const settings: NodeSettings = {
  description: 'a machine for tests',
  labels: {},
  capabilities: [],
  offers: [],
  maxAgents: 2,
  allowAllTools: false,
  credential: 'api_key',
  version: '0.1.0',
  os: 'linux',
  arch: 'x64',
}

export interface WorldOptions {
  readonly program?: (launch: KeeperLaunch) => Program
  readonly driver?: AgentDriver
  readonly workspaces?: SimulatedWorkspaces
  readonly settings?: Partial<NodeSettings>
}

/** One machine with a node that may be killed, and one hub that never is. */
export class World {
  readonly clock = new ManualClock()
  readonly machine: SimulatedMachine
  readonly workspaces: SimulatedWorkspaces
  readonly hub: TestHub
  readonly receipts: ReceiptBody[] = []
  /** What the node's owner has to know, of what a hub cannot be told. */
  readonly notes: NodeNote[] = []
  settings: NodeSettings
  node: Node | undefined
  /** What ended the node's engine: a bug, or a store that failed. */
  failure: Error | undefined
  /** Calls back at each point where a process may die; given the name of the point. */
  onBoundary: (name: string) => void = () => undefined
  readonly #driver: AgentDriver
  #disk: MemoryDisk | undefined
  #store: MemoryStore | undefined
  #gate: Gate | undefined
  /** Asks the running node for what it has on record, as a hub would over the mesh. */
  answerAccount: AnswerAccount | undefined
  #accept: ((link: Link) => void) | undefined
  #links: MemoryLinkPair[] = []

  members: readonly MemberFacts[] = []
  readonly #memberListeners = new Set<() => void>()

  private constructor(options: WorldOptions, hub: TestHub) {
    this.machine = new SimulatedMachine(options.program ?? (() => ({})))
    this.workspaces = options.workspaces ?? new SimulatedWorkspaces()
    this.settings = { ...settings, ...options.settings }
    this.#driver = options.driver ?? scriptedDriver()
    this.hub = hub
  }

  static async open(options: WorldOptions = {}): Promise<World> {
    const world = new World(options, await TestHub.open())
    await world.startNode()
    await world.connect()
    return world
  }

  /** Starts the node anew; resolves once it serves, or was killed before that. */
  async startNode(): Promise<void> {
    const gate = new Gate((name) => this.onBoundary(name))
    this.#gate = gate
    await Promise.race([this.#start(gate), gate.killed])
  }

  async #start(gate: Gate): Promise<void> {
    const store = await openMemoryStore({
      ...(this.#disk === undefined ? {} : { disk: this.#disk }),
      sync: () => gate.point('sync'),
    })
    this.#store = store
    let seed = 1
    const nextByte = (): number => {
      seed = (seed * 16807) % 2147483647
      return seed & 255
    }
    const engine = new Engine(store)
    void engine.failed.then((error) => {
      if (!gate.isDead) this.failure = error
    })
    const ports: NodePorts = {
      engine,
      store,
      clock: gate.clock(this.clock),
      random: {
        next: () => 0.5,
        bytes: (count) => Uint8Array.from({ length: count }, nextByte),
      },
      peers: this.#peers(gate),
      keepers: gate.keepers(this.machine.keepers()),
      driver: { ...this.#driver, prepare: (turn) => gate.call('prepare', () => this.#driver.prepare(turn)) },
      workspaces: gate.workspaces(this.workspaces),
      signReceipt: (body) =>
        gate.call('sign', async () => {
          this.receipts.push(body)
          return { receiptId: `rcp_${this.receipts.length}`, envelope: new TextEncoder().encode(JSON.stringify(body)) }
        }),
      bootId: 'boot-1',
      note: (note) => {
        if (note.event === 'message_unsendable') this.notes.push(note)
      },
      settings: this.settings,
    }
    const node = await openNode(ports)
    if (gate.isDead) return
    await node.start()
    if (!gate.isDead) this.node = node
  }

  /** Kills the node's process: what was not on disk is lost, but for the first batches where `keepUnsynced` says so. */
  kill(options: { readonly keepUnsynced?: number } = {}): void {
    this.#gate?.kill()
    this.#disk = this.#store?.crash(options)
    this.#accept = undefined
    this.node = undefined
    for (const link of this.#links.splice(0)) link.cut()
  }

  async restart(options: { readonly keepUnsynced?: number } = {}): Promise<void> {
    this.kill(options)
    await this.startNode()
    await this.connect()
  }

  /** The hub opens its session anew. */
  async connect(hub: TestHub = this.hub, facts: PeerFacts = hub.facts): Promise<void> {
    const pair = memoryLinkPair({ clock: this.clock, hub: facts, node: nodeFacts })
    this.#links.push(pair)
    if (this.#accept === undefined) pair.cut()
    else this.#accept(pair.node)
    await hub.attach(pair.hub)
    await settle()
  }

  /** Moves time on in small steps until nothing more happens within `forMs`. */
  async run(forMs = 2_000): Promise<void> {
    for (let passed = 0; passed < forMs; passed += 250) await this.clock.advance(250)
  }

  /** The roster as the node has it from now on. */
  setMembers(members: readonly MemberFacts[]): void {
    this.members = members
    for (const listener of [...this.#memberListeners]) listener()
  }

  get store(): MemoryStore {
    if (this.#store === undefined) throw new Error('the node was never started')
    return this.#store
  }

  #peers(gate: Gate): Peers {
    return {
      self: nodeFacts,
      connected: () => [],
      watch: () => () => undefined,
      members: () => this.members,
      watchMembers: (listener) => {
        if (gate.isDead) return () => undefined
        this.#memberListeners.add(listener)
        return () => this.#memberListeners.delete(listener)
      },
      openSession: () => Promise.reject(new Error('a node opens no session')),
      serveSessions: (accept) => {
        if (!gate.isDead) this.#accept = accept
      },
      askAccount: () => Promise.reject(new Error('a node asks no node')),
      serveAccounts: (answer) => {
        if (!gate.isDead) this.answerAccount = answer
      },
      want: () => undefined,
      probe: async () => 1,
    }
  }
}

/** A hub as far as a node can tell: a session over a store, a list of what came, and an answer to each result. */
export class TestHub {
  readonly received: NodeMessage[] = []
  readonly facts: PeerFacts
  accepted: (SessionAccept & { type: 'accept' }) | undefined
  epoch = 1
  fences: { attemptId: string; epoch: number }[] = []
  collects = true
  readonly capacities: { free: number; running: number; queued: number }[] = []
  readonly #engine: Engine
  #session: Session<HubMessage, NodeMessage> | undefined
  #sessionNo = 0
  readonly #waiting: (() => void)[] = []

  private constructor(engine: Engine, facts: PeerFacts) {
    this.#engine = engine
    this.facts = facts
  }

  static async open(facts: PeerFacts = hubFacts, clock: Clock = new ManualClock()): Promise<TestHub> {
    const store = await openMemoryStore({})
    const engine = new Engine(store)
    const hub = new TestHub(engine, facts)
    hub.#session = await Session.load<HubMessage, NodeMessage>({
      engine,
      store,
      clock,
      remote: 'node-machine',
      side: 'hub',
      apply: (tx, message) => {
        hub.received.push(message)
        for (const wake of hub.#waiting.splice(0)) wake()
        if (message.type === 'ended' && hub.collects) {
          hub.session.send(tx, {
            type: 'collected',
            commandId: `collected-${message.ref.attemptId}`,
            ref: message.ref,
            resultHash: 'f'.repeat(64),
          })
        }
      },
      control: (message) => {
        if (message.type === 'capacity') hub.capacities.push(message.capacity)
      },
    })
    return hub
  }

  get session(): Session<HubMessage, NodeMessage> {
    if (this.#session === undefined) throw new Error('the session is not loaded')
    return this.#session
  }

  async attach(link: Link): Promise<void> {
    this.#sessionNo += 1
    const { hubId = '' } = this.facts
    try {
      this.accepted = await this.session.open(link, {
        hubId,
        epoch: this.epoch,
        sessionNo: this.#sessionNo,
        fences: this.fences,
      })
    } catch (error) {
      this.refusal = error
    }
  }

  refusal: unknown

  send(message: HubMessage): Promise<void> {
    return this.#engine.transact((tx) => this.session.send(tx, message))
  }

  /** Resolves at the first message that passes, past or to come. */
  async heard(passes: (message: NodeMessage) => boolean): Promise<void> {
    const last = (): string => JSON.stringify(this.received.slice(-3)).slice(0, 2_000)
    const tell = (): string => `a message of the node; ${this.received.length} came, the last: ${last()}`
    while (!this.received.some(passes))
      await waitingFor(tell, new Promise<void>((resolve) => this.#waiting.push(resolve)))
  }

  of<T extends NodeMessage['type']>(type: T): readonly Extract<NodeMessage, { type: T }>[] {
    return this.received.filter((message): message is Extract<NodeMessage, { type: T }> => message.type === type)
  }

  /** Numbers of all log lines that came, in the order in which they came. */
  seqs(): readonly number[] {
    return this.of('task_events').flatMap(({ events }) => events.map((event) => event.seq))
  }
}

export function ref(attempt = 'a1', overrides: Partial<{ agentId: string; epoch: number }> = {}) {
  return { agentId: 'agt_1', taskId: `tsk_${attempt}`, attemptId: `att_${attempt}`, epoch: 1, ...overrides }
}

export function claim(
  attempt = 'a1',
  overrides: Partial<Extract<HubMessage, { type: 'claim' }>> = {},
): Extract<HubMessage, { type: 'claim' }> {
  return {
    type: 'claim',
    commandId: `claim-${attempt}`,
    ref: ref(attempt),
    turn: 1,
    request: { brief: 'do it' },
    lostAfterMs: 150_000,
    ...overrides,
  }
}

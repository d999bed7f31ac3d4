import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NfltrError } from '../../src/core/errors.ts'
import type { NodeAttemptAccount } from '../../src/core/node-account.ts'
import { type Hub, openHub } from '../../src/hub/hub.ts'
import { type Node, openNode } from '../../src/node/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { systemLiveness } from '../../src/platform/liveness.ts'
import { systemRandom } from '../../src/platform/random.ts'
import type { ToolName } from '../../src/ports/hub-api.ts'
import type { AnswerAccount, Link, MemberFacts, PeerFacts, PeerListener, Peers } from '../../src/ports/peers.ts'
import type { Store } from '../../src/ports/store.ts'
import { Engine } from '../../src/runtime/engine.ts'
import { openLevelStore } from '../../src/store/level-store.ts'
import { bornOf, readMarker, writeMarker } from '../../src/store/store-files.ts'
import { hubFacts, memoryLinkPair, nodeFacts } from '../contracts/memory-link.ts'
import { worker } from '../node/programs.ts'
import { scriptedDriver } from '../node/scripted-driver.ts'
import { SimulatedMachine } from '../node/simulated-keepers.ts'
import { SimulatedWorkspaces } from '../node/simulated-workspaces.ts'
import { settings } from '../node/world.ts'

export type Json = Record<string, unknown>
export type Side = 'hub' | 'node'

export interface Reply {
  readonly results: readonly (Json & { delivery_id: number; agent_id: string; text: string })[]
  readonly events: readonly (Json & { kind: string; text: string })[]
  readonly still_running: readonly (Json & { agent_id: string })[]
  readonly unconfirmed: readonly Json[]
}

/** A real hub and a real node, each over a LevelDB folder that can be put back; keepers and links are simulated. */
export class Pair {
  readonly machine = new SimulatedMachine(() => worker())
  readonly root = mkdtempSync(join(tmpdir(), 'nfltr-rollback-'))
  readonly notes: string[] = []
  readonly #clock = systemClock()
  readonly #listeners = new Set<PeerListener>()
  #hub: { readonly hub: Hub; readonly store: Store } | undefined
  #node: { readonly node: Node; readonly store: Store } | undefined
  #accept: ((link: Link) => void) | undefined
  #tell: AnswerAccount | undefined
  #links: { cut(): void }[] = []
  #calls = 0
  #runs = 0

  async start(): Promise<void> {
    await this.startNode()
    await this.startHub()
  }

  async startNode(): Promise<void> {
    const store = await openLevelStore(join(this.root, 'node'))
    const node = await openNode({
      engine: new Engine(store),
      store,
      clock: this.#clock,
      random: systemRandom(),
      peers: this.#peers(nodeFacts),
      keepers: this.machine.keepers(),
      driver: scriptedDriver(),
      workspaces: new SimulatedWorkspaces(),
      signReceipt: async (body) => {
        const envelope = new TextEncoder().encode(JSON.stringify(body))
        return { receiptId: `rcp_${createHash('sha256').update(envelope).digest('hex')}`, envelope }
      },
      bootId: 'boot-1',
      settings: { ...settings, maxAgents: 8 },
      note: ({ event }) => this.notes.push(event),
    })
    await node.start()
    this.#node = { node, store }
    for (const listener of this.#listeners) listener.up(this.#nodeFacts)
  }

  async startHub(): Promise<void> {
    const store = await openLevelStore(join(this.root, 'hub'))
    const hub = await openHub({
      engine: new Engine(store),
      store,
      peers: this.#peers(hubFacts),
      clock: this.#clock,
      liveness: systemLiveness(),
      random: systemRandom(),
      facts: { hubId: 'hub_1', project: 'a folder', pid: 7, host: 'laptop', sha256 },
    })
    this.#hub = { hub, store }
    this.#runs += 1
    await hub.hold({ pid: 1, host: 'laptop', since: '2026-01-01T00:00:00.000Z', sessionKey: `session-${this.#runs}` })
  }

  async stopHub(): Promise<void> {
    const running = this.#hub
    this.#hub = undefined
    this.#listeners.clear()
    await running?.hub.close()
    await running?.store.close()
  }

  async stopNode(): Promise<void> {
    const running = this.#node
    this.#node = undefined
    this.#accept = undefined
    this.#tell = undefined
    for (const listener of this.#listeners) listener.down(this.#nodeFacts)
    for (const link of this.#links.splice(0)) link.cut()
    await running?.node.close()
    await running?.store.close()
  }

  async stop(side: Side): Promise<void> {
    await (side === 'hub' ? this.stopHub() : this.stopNode())
  }

  async startAgain(side: Side): Promise<void> {
    await (side === 'hub' ? this.startHub() : this.startNode())
  }

  /** Copies the folder of one side, whose process is stopped for it. */
  async backUp(side: Side): Promise<void> {
    await this.stop(side)
    cpSync(join(this.root, side), join(this.root, `${side}.backup`), { recursive: true })
    await this.startAgain(side)
  }

  /**
   * Puts the copy back. `isNoticed`: the store itself sees that its folder is a copy; otherwise it looks as it did then, as
   * a machine's disk that was put back whole does.
   */
  async putBack(side: Side, { isNoticed }: { readonly isNoticed: boolean }): Promise<void> {
    await this.stop(side)
    const folder = join(this.root, side)
    rmSync(folder, { recursive: true })
    cpSync(join(this.root, `${side}.backup`), folder, { recursive: true })
    if (!isNoticed) {
      const marker = join(folder, 'db.marker')
      const known = readMarker(marker)
      const born = bornOf(join(folder, 'db'))
      if (known !== undefined && born !== undefined) writeMarker(marker, { ...known, born })
    }
    await this.startAgain(side)
  }

  async close(): Promise<void> {
    await this.stopHub()
    await this.stopNode()
    rmSync(this.root, { recursive: true, force: true })
  }

  /** @param key - of the call, where it is one that is repeated */
  async ask<T>(tool: ToolName, args: Json, key?: string): Promise<T> {
    const { hub } = this.running
    this.#calls += 1
    const callKey = key ?? `call-${this.#calls}-${this.root}`
    const reply = await hub.call({ tool, args, callKey, sessionKey: `session-${this.#runs}` })
    await hub.confirm(callKey)
    return JSON.parse(reply.body) as T
  }

  async spawn(brief: string): Promise<string> {
    return (await this.ask<{ agent_id: string }>('spawn_agent', { brief })).agent_id
  }

  wait(args: Json = {}): Promise<Reply> {
    return this.ask<Reply>('wait_for_agents', { timeout_ms: 10_000, ...args })
  }

  /** Waits until as many results have come as are asked for, or nothing runs any more. */
  async results(count: number): Promise<Omit<Reply, 'still_running' | 'unconfirmed'>> {
    const sum = { results: [] as Reply['results'][number][], events: [] as Reply['events'][number][] }
    while (sum.results.length < count) {
      const reply = await this.wait()
      sum.results.push(...reply.results)
      sum.events.push(...reply.events)
      if (reply.results.length + reply.events.length === 0) break
    }
    return sum
  }

  /** Lets an agent's present turn end. */
  async end(agentId: string): Promise<void> {
    await this.ask('send_message', { agent_id: agentId, text: 'end' })
  }

  async agents(): Promise<readonly (Json & { agent_id: string; state: string })[]> {
    return (await this.ask<{ agents: (Json & { agent_id: string; state: string })[] }>('list_agents', {})).agents
  }

  /** What the node has on record of every attempt of the hub. */
  async account(): Promise<readonly NodeAttemptAccount[]> {
    return (await this.#node?.node.account('hub_1'))?.attempts ?? []
  }

  /** Resolves once every listed agent is in the state. */
  async until(states: Readonly<Record<string, string>>): Promise<void> {
    for (;;) {
      const now = new Map((await this.agents()).map((agent) => [agent.agent_id, agent.state]))
      if (Object.entries(states).every(([agentId, state]) => now.get(agentId) === state)) return
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  get running(): { readonly hub: Hub; readonly store: Store } {
    if (this.#hub === undefined) throw new Error('no hub runs')
    return this.#hub
  }

  get #nodeFacts(): PeerFacts {
    const seen = this.#node?.node.highestEpoch('hub_1')
    return { ...nodeFacts, ...(seen === undefined ? {} : { highestEpochSeen: seen }) }
  }

  #peers(self: PeerFacts): Peers {
    return {
      self,
      connected: () => (self.kind === 'hub' && this.#node !== undefined ? [this.#nodeFacts] : []),
      watch: (listener) => {
        if (self.kind !== 'hub') return () => undefined
        this.#listeners.add(listener)
        if (this.#node !== undefined) listener.up(this.#nodeFacts)
        return () => this.#listeners.delete(listener)
      },
      members: () => members,
      watchMembers: () => () => undefined,
      openSession: async () => {
        const pair = memoryLinkPair({ clock: this.#clock, hub: hubFacts, node: this.#nodeFacts })
        this.#links.push(pair)
        if (this.#accept === undefined) pair.cut()
        else this.#accept(pair.node)
        return pair.hub
      },
      serveSessions: (accept) => {
        this.#accept = accept
      },
      askAccount: async (_, { after }) => {
        if (this.#tell === undefined) throw new NfltrError('link_down', 'The node is away.')
        return await this.#tell(hubFacts, after)
      },
      serveAccounts: (answer) => {
        this.#tell = answer
      },
      want: () => undefined,
      probe: async () => 1,
    }
  }
}

const members: readonly MemberFacts[] = [
  {
    machinePeerId: nodeFacts.machinePeerId,
    name: nodeFacts.name,
    roles: ['node'],
    addresses: [],
    issuedAtMs: 0,
    expiresAtMs: 4_000_000_000_000,
  },
]

function sha256(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}

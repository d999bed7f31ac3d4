import { hash } from 'node:crypto'
import { encodeRecord } from '../src/core/record-json.ts'
import { type Node, openNode } from '../src/node/node.ts'
import type { PeerFacts } from '../src/ports/peers.ts'
import { SimDriver } from './agent.ts'
import { SimKeepers } from './keepers.ts'
import type { MachineKeepers } from './machine-keepers.ts'
import type { Network } from './network.ts'
import { SimPeers } from './peers.ts'
import { Process, type Run } from './process.ts'
import type { DiskMood } from './store.ts'
import type { WatchedDisk } from './watched-disk.ts'
import { SimWorkspaces } from './workspaces.ts'
import type { World } from './world.ts'

export interface NodeProcessOptions {
  readonly world: World
  readonly disk: WatchedDisk
  readonly mood: DiskMood
  readonly network: Network
  readonly machine: MachineKeepers
  readonly self: PeerFacts
  readonly maxAgents: number
}

/** `nfltr node join` on one machine, over the production node. */
export class NodeProcess extends Process {
  readonly machine: MachineKeepers
  readonly self: PeerFacts
  /** The production node of the present run, once it serves. */
  node: Node | undefined
  readonly #options: NodeProcessOptions
  #leftRunning: MachineKeepers['live'] = []

  constructor(name: string, options: NodeProcessOptions) {
    super(name, options)
    this.#options = options
    this.machine = options.machine
    this.self = options.self
  }

  /** What the keepers that an earlier run left behind did without it. */
  #countWhatWentOn(): void {
    const states = new Set(this.#leftRunning.map(({ state }) => state))
    if (states.has('live')) this.world.count('node restarted under its keeper')
    if (states.has('ended')) this.world.count('keeper finished while its node was down')
    if (states.has('dead')) this.world.count('keeper killed while its node was down')
  }

  protected override async main({ life, clock, store, engine, random }: Run): Promise<void> {
    const { network, machine, maxAgents, self } = this.#options
    this.#countWhatWentOn()
    life.onDeath(() => {
      this.#leftRunning = machine.live
    })
    const peers = new SimPeers({ self, life, clock, network })
    const node = await openNode({
      engine,
      store,
      clock,
      random,
      peers,
      keepers: new SimKeepers(machine, life),
      driver: new SimDriver(),
      workspaces: new SimWorkspaces(life),
      signReceipt: async (body) => {
        await life.delayed(random.next() * 3, () => undefined)
        const envelope = encodeRecord(body)
        return { receiptId: `rcp_${hash('sha256', envelope, 'hex')}`, envelope }
      },
      bootId: machine.bootId,
      settings: {
        description: '',
        labels: {},
        capabilities: [],
        offers: [],
        maxAgents,
        allowAllTools: false,
        credential: 'env',
        version: '0.1.0',
        os: 'linux',
        arch: 'x64',
      },
      note: ({ event, fields }) => this.world.note(`${life.name} noted ${event} ${JSON.stringify(fields)}`),
    })
    peers.highestEpochOf = (hubId) => node.highestEpoch(hubId)
    this.node = node
    life.onDeath(() => {
      this.node = undefined
    })
    await node.start()
    network.join(peers)
  }
}

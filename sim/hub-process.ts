import { hash } from 'node:crypto'
import { type Hub, openHub } from '../src/hub/hub.ts'
import type { PeerFacts } from '../src/ports/peers.ts'
import type { Network } from './network.ts'
import { SimPeers } from './peers.ts'
import { Process, type Run } from './process.ts'
import type { DiskMood } from './store.ts'
import type { WatchedDisk } from './watched-disk.ts'
import type { World } from './world.ts'

export interface HubProcessOptions {
  readonly world: World
  readonly disk: WatchedDisk
  readonly mood: DiskMood
  readonly network: Network
  readonly self: PeerFacts
  readonly hubId: string
}

/** The hub of one project, over the production hub. */
export class HubProcess extends Process {
  readonly hubId: string
  readonly self: PeerFacts
  /** The production hub of the present run, once it answers. */
  hub: Hub | undefined
  readonly #network: Network

  constructor(name: string, options: HubProcessOptions) {
    super(name, options)
    this.hubId = options.hubId
    this.self = options.self
    this.#network = options.network
  }

  protected override async main({ life, clock, store, engine, random }: Run): Promise<void> {
    const peers = new SimPeers({ self: this.self, life, clock, network: this.#network })
    const hub = await openHub({
      engine,
      store,
      peers,
      clock,
      liveness: clock,
      random,
      facts: {
        hubId: this.hubId,
        project: `/sim/${this.hubId}`,
        pid: this.runs,
        host: 'laptop',
        sha256: (text) => hash('sha256', text, 'hex'),
      },
    })
    this.hub = hub
    life.onDeath(() => {
      this.hub = undefined
    })
    this.#network.join(peers)
    await hub.run()
  }
}
